"""Result files from run directories: data.csv, runs.json and figure.json."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reproductions.pipeline.papers import hardware_source, paper_value, sources
from reproductions.pipeline.rundir import read_metadata
from reproductions.pipeline.spec import Collected, FigureSpec, Profile, Row, RunSpec, TableRow
from srl_core.base.errors import RunError

MAX_BYTES = 2_000_000
"""Most bytes of a committed figure: its three files and the picture."""
_PICTURE_BYTES = 200_000
_METADATA = (
    "status",
    "commit",
    "dirty",
    "versions",
    "hardware",
    "seed",
    "started",
    "ended",
    "wall_seconds",
    "cpu_seconds",
    "counts",
)
_HARDWARE = ("cpu", "cpu_flags", "cores", "memory_bytes", "gpus")
"""The host's name stays out of committed files."""
_LABELS = ("figure", "run_id", "system", "env", "algorithm", "scale", "seed")
_COLUMNS = (*_LABELS, "x_name", "x", "metric", "value", "unit")


def collect(
    spec: FigureSpec, runs: Collected, profile: Profile, command: str, directory: Path, *, max_bytes: int = MAX_BYTES
) -> None:
    """Write the figure's result files into `directory`; raises `RunError` where a run lacks what is measured."""
    rows = spec.collect(runs, profile)
    for row in rows:
        if not math.isfinite(row.value):
            raise RunError(f"{row.metric} of run {row.run.id} is {row.value}; it must be a finite number")
    summary = dump([_summary(run, path) for run, path in sorted(runs, key=lambda pair: pair[0].id)])
    thinned, table = 1, _csv(spec, rows)
    budget = max_bytes - _PICTURE_BYTES - len(summary) - len(dump(_figure(spec, profile, command, 1))) - 10_000
    while len(table) > budget:
        thinned += 1
        kept = thin(rows, thinned)
        if thinned > len(rows):
            raise RunError(f"the results of {spec.name} do not fit into {max_bytes} bytes")
        table = _csv(spec, kept)
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / "data.csv", table)
    _replace(directory / "runs.json", summary)
    _replace(directory / "figure.json", dump(_figure(spec, profile, command, thinned)))


def thin(rows: list[Row], every: int) -> list[Row]:
    """Keep one point in `every` of each curve (run, metric, x axis), its first and its last in any case."""
    curves: dict[tuple[str, str, str | None], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        curves[row.run.id, row.metric, row.x_name].append(i)
    kept = {i for points in curves.values() for i in (*points[::every], points[-1])}
    return [row for i, row in enumerate(rows) if i in kept]


def dump(data: Any) -> str:
    """JSON with one fixed form."""
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(spec: FigureSpec, rows: list[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        run = row.run
        x_name, x = (run.x_name, run.x) if row.x_name is None else (row.x_name, row.x)
        labels = (spec.name, run.id, run.system, run.env, run.algorithm, f"{run.scale:g}", run.seed)
        x_text = "" if x is None else f"{x:.10g}"
        writer.writerow([*labels, x_name, x_text, row.metric, f"{row.value:.10g}", spec.units[row.metric]])
    return text.getvalue()


def _summary(run: RunSpec, run_dir: Path) -> dict[str, Any]:
    metadata = read_metadata(run_dir)
    missing = [name for name in _METADATA if name not in metadata]
    if missing:
        raise RunError(f"{run_dir / 'metadata.json'} lacks {', '.join(missing)}")
    labels = {name: getattr(run, name) for name in ("system", "env", "algorithm", "scale", "seed", "x_name", "x")}
    kept = {name: metadata[name] for name in _METADATA}
    kept["hardware"] = {name: metadata["hardware"][name] for name in _HARDWARE}
    return {"run_id": run.id, "config_hash": run.config_hash, **labels, "metadata": kept}


def _figure(spec: FigureSpec, profile: Profile, command: str, thinned: int) -> dict[str, Any]:
    table = [_table_row(spec, row) for row in spec.table]
    codes = {row["paper"]["source"] for row in table if row["paper"]}
    return {
        "name": spec.name,
        "title": spec.title,
        "reference": spec.reference,
        "profile": profile,
        "command": command,
        "plot": asdict(spec.plot),
        "table": table,
        "deviations": spec.deviations(profile),
        "sources": sources(codes | hardware_source(spec.paper_figure)) if codes else {},
        "thinned": thinned,
    }


def _table_row(spec: FigureSpec, row: TableRow) -> dict[str, Any]:
    paper = paper_value(spec.paper_values, spec.paper_figure, row.paper) if row.paper else None
    return {**asdict(row), "unit": spec.units[row.metric], "paper": paper}


def _replace(path: Path, text: str) -> None:
    """Write the whole file or leave the old one."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)
