"""Print the oldest version of each requirement that pyproject.toml allows, as requirements for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def minimum_requirements(project: dict) -> list[str]:
    """`name==version` for every requirement of `project` and its extras; `ValueError` for one without a minimum."""
    requirements = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        requirements += [r for r in extra if not r.startswith(project["name"])]
    pinned = []
    for requirement in requirements:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)(?:>=|==)([0-9.]+)(?:,<[0-9.]+)?", requirement.replace(" ", ""))
        if match is None:
            raise ValueError(f"{requirement!r} states no minimum version")
        pinned.append(f"{match[1]}=={match[2]}")
    return pinned


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "pyproject.toml"
    print("\n".join(minimum_requirements(tomllib.loads(path.read_text())["project"])))
