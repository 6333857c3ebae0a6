"""The learning curve and the table of a single run, from the files in its directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.bootstrap import Interval, interval
from analysis.metrics import DataError
from analysis.plots import PALETTE, STYLE, short


def draw_run(run_dir: Path) -> tuple[Path, Path]:
    """Write figure.png and table.md into a run's directory and return their paths.

    Raises `DataError` where the directory holds no run or the run has no evaluation.
    """
    try:
        config = json.loads((run_dir / "config.json").read_text())
        metadata = json.loads((run_dir / "metadata.json").read_text())
        lines = (run_dir / "metrics.jsonl").read_text().splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{run_dir} holds no run that can be read: {error}") from None
    evaluations = evaluations_of(lines)
    if not evaluations:
        raise DataError(f"{run_dir} has no evaluation yet; its learning curve has no point")
    intervals = [_interval(line["returns"]) for line in evaluations]
    picture, page = run_dir / "figure.png", run_dir / "table.md"
    _draw(config["name"], evaluations, intervals, picture)
    page.write_text(_table(config, metadata, evaluations, intervals))
    return picture, page


def evaluations_of(lines: list[str]) -> list[dict[str, Any]]:
    """Evaluations in order, without those that a killed part of the run had made beyond where it was resumed."""
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:  # cut short by a kill
            continue
        if record.get("kind") == "evaluation":
            records.append(record)
    kept: list[dict[str, Any]] = []
    for record in reversed(records):
        if not kept or (record["env_steps"] <= kept[-1]["env_steps"] and record["t"] <= kept[-1]["t"]):
            kept.append(record)
    return kept[::-1]


def _interval(returns: list[float]) -> Interval:
    """Of the mean over games; a single game has no width to show."""
    return interval(np.array(returns)) if len(returns) > 1 else Interval(returns[0], returns[0], returns[0])


def _draw(name: str, evaluations: list[dict[str, Any]], intervals: list[Interval], path: Path) -> None:
    axes_of = {
        "env steps trained on": [line["env_steps"] for line in evaluations],
        "wall-clock of training [minutes]": [line["t"] / 60 for line in evaluations],
    }
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.2, 3.5), layout="constrained")
        for axis, (label, x) in zip(figure.subplots(1, 2), axes_of.items(), strict=True):
            low, high = [i.low for i in intervals], [i.high for i in intervals]
            axis.fill_between(x, low, high, color=PALETTE[0], alpha=0.18, linewidth=0, label="95 % interval over games")
            axis.plot(x, [i.point for i in intervals], color=PALETTE[0], marker="o", markersize=4, label="mean return")
            axis.set_xlabel(label)
            axis.set_ylabel("return of a whole game")
            axis.set_xlim(left=0)
            axis.xaxis.set_major_locator(MaxNLocator(6))
            axis.xaxis.set_major_formatter(FuncFormatter(short))
            axis.legend(loc="best")
        figure.suptitle(name, fontsize=11.5)
        figure.savefig(path, dpi=130, metadata={"Software": None})


def _table(
    config: dict[str, Any], metadata: dict[str, Any], evaluations: list[dict[str, Any]], intervals: list[Interval]
) -> str:
    hardware, counts = metadata["hardware"], metadata["counts"]
    rows = [
        f"| {line['t'] / 60:.1f} | {line['env_steps']:,.0f} | {i.point:.2f} | {i.low:.2f} to {i.high:.2f} "
        f"| {len(line['returns'])} |"
        for line, i in zip(evaluations, intervals, strict=True)
    ]
    seconds, steps = metadata["wall_seconds"], counts.get("env_steps_consumed", 0.0)
    speed = f"{steps / seconds:,.0f}" if seconds else "-"
    return "\n".join(
        [
            f"# {config['name']}, seed {config['seed']}",
            "",
            "![learning curve](figure.png)",
            "",
            f"{metadata['status']} after {seconds / 60:.1f} minutes: {steps:,.0f} env steps trained on, {speed} a "
            f"second, on {hardware['cores']:g} cores ({hardware['cpu']}).",
            "",
            "| minutes | env steps | mean return | 95 % interval | games |",
            "|---:|---:|---:|---:|---:|",
            *rows,
            "",
        ]
    )
