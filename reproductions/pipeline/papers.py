"""What the paper claims: values, their sources and the hardware, from `paper_values/*.csv`."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srl_core.base.errors import UserError

_DIRECTORY = Path(__file__).parents[1] / "paper_values"


def paper_value(file: str, figure: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The one line of `file` that fits `figure` and `query`, as JSON data, with the hardware joined.

    Keys: value, error (None where not given), unit, source, how_read, hardware. Raises `UserError` where not exactly
    one line fits: a value that is not known is asked for by no query.
    """
    wanted = {"figure": figure, **query}
    found = [line for line in _read(file) if all(line[column] == value for column, value in wanted.items())]
    if len(found) != 1:
        raise UserError(f"{len(found)} lines of paper_values/{file} have {dict(wanted)}; exactly one must")
    line = found[0]
    return {
        "value": float(line["value"]),
        "error": float(line["error"]) if line["error"] else None,
        "unit": line["unit"],
        "source": line["source"],
        "how_read": line["how_read"],
        "hardware": _hardware(figure),
    }


def sources(codes: set[str]) -> dict[str, str]:
    """What each of the source codes means."""
    meanings = {line["source"]: line["meaning"] for line in _read("sources.csv")}
    return {code: meanings[code] for code in sorted(codes)}


def _hardware(figure: str) -> str:
    for line in _read("hardware.csv"):
        if line["figure"] == figure:
            return f"{line['hardware']} ({line['source']}: {line['how_read']})"
    return "not available"


def hardware_source(figure: str) -> set[str]:
    """The source code of the figure's hardware: one or none."""
    return {line["source"] for line in _read("hardware.csv") if line["figure"] == figure}


def _read(name: str) -> list[dict[str, str]]:
    with (_DIRECTORY / name).open(newline="") as file:
        return list(csv.DictReader(file))
