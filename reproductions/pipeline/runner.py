"""The runner that really trains and measures, on this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

from reproductions.pipeline.spec import RunSpec
from srl_core.base.files import write_json
from srl_core.base.run_directory import RunDirectory
from srl_core.config import to_json


def run_here(run: RunSpec, run_dir: Path) -> None:
    """Train in processes on this host, or measure the host's limit; a part of a training run that is there goes on."""
    if run.measures == "limit":
        _measure_limit(run, run_dir)
        return
    from srl_core.cli.live import ProgressPrinter
    from srl_core.launchers import run_experiment

    printer = ProgressPrinter(interval_seconds=60.0)
    try:
        result = run_experiment(run.experiment, run_dir, resume=(run_dir / "metadata.json").is_file(), report=printer)
    finally:
        printer.close()
    if result.status == "interrupted":
        raise KeyboardInterrupt


def _measure_limit(run: RunSpec, run_dir: Path) -> None:
    """Write limit.json; the experiment's budget says for how many CPU-seconds each part is measured."""
    from srl_core.bench.throughput import measure_limit

    directory = RunDirectory.create(run_dir, to_json(run.experiment), seed=run.seed)
    try:
        wall, cpu = time.monotonic(), _cpu_seconds()
        write_json(run_dir / "limit.json", measure_limit(run.experiment, run.experiment.budget.seconds))
        directory.update(seconds=time.monotonic() - wall, cpu_seconds=_cpu_seconds() - cpu, counts={})
        directory.finish("completed")
    finally:
        directory.close()


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])
