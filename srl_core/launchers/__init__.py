"""Launchers place the same experiment: `inline` in this process, `local` in processes of this host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from srl_core.config import Experiment
from srl_core.launchers.progress import Progress
from srl_core.launchers.result import RunResult

LauncherName = Literal["inline", "local"]


def run_experiment(
    experiment: Experiment,
    run_dir: Path,
    *,
    launcher: LauncherName = "local",
    resume: bool = False,
    report: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Run `experiment` in `run_dir` until its budget is spent or it is stopped; blocks.

    `resume` continues the run that `run_dir` holds, if there is one. `report` is called every second or so with the
    state of the run. Raises `UserError` for bad input before anything is started or written, and `RunError` with the
    root cause if the run fails.
    """
    if launcher == "inline":
        from srl_core.launchers.inline import run_inline

        return run_inline(experiment, run_dir, resume=resume, report=report)
    from srl_core.launchers.local import run_local

    return run_local(experiment, run_dir, resume=resume, report=report)


__all__ = ["LauncherName", "Progress", "RunResult", "run_experiment"]
