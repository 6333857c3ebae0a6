"""Reading a run's directory: its metadata, its metrics, and how far it got."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

from srl_core.base.errors import RunError

State = Literal["new", "unfinished", "finished"]


def read_metadata(run_dir: Path) -> dict[str, Any]:
    """The run's metadata.json; raises `RunError` where it is missing or not an object."""
    path = run_dir / "metadata.json"
    try:
        data = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise RunError(f"{path} holds {type(data).__name__}; it must hold an object")
    return data


def state_of(run_dir: Path) -> State:
    """`finished` where metadata.json says completed, `unfinished` where the directory holds anything else."""
    if not run_dir.is_dir() or not any(run_dir.iterdir()):
        return "new"
    if not (run_dir / "metadata.json").is_file():
        return "unfinished"
    return "finished" if read_metadata(run_dir).get("status") == "completed" else "unfinished"


def read_lines(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    """Lines of one kind in metrics.jsonl, in order, without those that a resume made void.

    A run that was killed repeats what followed its last checkpoint: of two lines, an earlier one with more env steps
    or a later time is void. A line that a kill tore (it is no JSON) is passed over. Raises `RunError` for a missing
    file and for a time or a number of env steps that is not a finite number.
    """
    path = run_dir / "metrics.jsonl"
    if not path.is_file():
        raise RunError(f"{path} is missing")
    steps = "env_steps_consumed" if kind == "progress" else "env_steps"
    lines = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if not isinstance(line, dict):
            raise RunError(f"{path} line {number} holds {type(line).__name__}; it must hold an object")
        if line.get("kind") == kind:
            for name in ("t", steps):
                if not isinstance(line.get(name), (int, float)) or not math.isfinite(line[name]):
                    raise RunError(f"{path} line {number}: {name} is {line.get(name)!r}; it must be a finite number")
            lines.append(line)
    kept: list[dict[str, Any]] = []
    for line in reversed(lines):
        if not kept or (line[steps] <= kept[-1][steps] and line["t"] <= kept[-1]["t"]):
            kept.append(line)
    return kept[::-1]


def finite(line: dict[str, Any], name: str, run_dir: Path) -> float:
    """A line's number; raises `RunError` where it is missing or not finite."""
    value = line.get(name)
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RunError(f"{run_dir / 'metrics.jsonl'}: {name} is {value!r} at t = {line['t']}; it must be a number")
    return float(value)
