"""What `run` and `resume` share: train with a live line, then say where everything is."""

from __future__ import annotations

from pathlib import Path

from srl_core.base.run_directory import RunDirectory
from srl_core.cli.live import ProgressPrinter, amount, duration
from srl_core.config import Experiment
from srl_core.launchers import LauncherName, run_experiment


def train(experiment: Experiment, run_dir: Path, *, launcher: LauncherName, resume: bool) -> int:
    """Run until the budget is spent or a signal comes; returns the exit code."""
    print(f"{experiment.name}, seed {experiment.seed}: {run_dir}", flush=True)
    printer = ProgressPrinter(experiment.logging.interval_seconds)
    try:
        result = run_experiment(experiment, run_dir, launcher=launcher, resume=resume, report=printer)
    finally:
        printer.close()
    print(outcome(result.run_dir))
    if result.status == "interrupted":
        print(f"go on:       srl resume {result.run_dir}", flush=True)
    return result.exit_code


def outcome(run_dir: Path) -> str:
    """How far a run is, and where its files are."""
    run = RunDirectory.open(run_dir)
    counts, seconds = run.counts, run.seconds
    consumed = counts.get("env_steps_consumed", 0.0)
    trained = f"{amount(consumed)} env steps trained on" + (
        f", {amount(consumed / seconds)} a second" if seconds else ""
    )
    lines = [
        f"status:      {run.metadata['status']} after {duration(seconds)}, {trained}",
        f"checkpoints: {run.checkpoints}",
        f"metrics:     {run.metrics}",
        f"TensorBoard: tensorboard --logdir {run.tensorboard}",
        f"evaluate:    srl eval {run_dir} --episodes 10 --video {run_dir / 'video.mp4'}",
    ]
    return "\n".join(lines)
