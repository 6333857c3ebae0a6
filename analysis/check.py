"""Making a result's page and picture, and checking that the committed page is what the committed data gives."""

from __future__ import annotations

import difflib
from pathlib import Path

from analysis import plots, tables
from analysis.metrics import DataError, load

MAX_BYTES = 2_000_000
"""Most bytes of one result directory that may be committed."""


def draw(directory: Path) -> tuple[Path, Path]:
    """Write figure.png and README.md into a result directory and return their paths."""
    result = load(directory)
    picture, page = directory / "figure.png", directory / "README.md"
    text = tables.readme(result)
    plots.draw(result, picture)
    page.write_text(text)
    return picture, page


def check(results_dir: Path) -> tuple[int, list[str]]:
    """How many result directories there are, and what is wrong with them: diffs and sentences."""
    directories = sorted(d for d in results_dir.iterdir() if d.is_dir()) if results_dir.is_dir() else []
    problems = []
    for directory in directories:
        try:
            problems += _check_one(directory)
        except DataError as error:
            problems.append(f"{directory}: {error}")
    return len(directories), problems


def _check_one(directory: Path) -> list[str]:
    expected = tables.readme(load(directory))
    page = directory / "README.md"
    problems = []
    if not page.is_file():
        problems.append(f"{page} is missing; run `python -m analysis draw {directory.name}`")
    elif page.read_bytes() != expected.encode():
        diff = difflib.unified_diff(
            page.read_text(errors="replace").splitlines(), expected.splitlines(), str(page), "made from the data"
        )
        problems.append("\n".join(diff) or f"{page} differs in its line ends")
    if not (directory / "figure.png").is_file():
        problems.append(f"{directory / 'figure.png'} is missing; run `python -m analysis draw {directory.name}`")
    size = sum(f.stat().st_size for f in directory.rglob("*") if f.is_file())
    if size > MAX_BYTES:
        problems.append(f"{directory} holds {size} bytes; at most {MAX_BYTES} may be committed")
    return problems
