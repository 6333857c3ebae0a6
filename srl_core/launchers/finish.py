"""How runs end, for every launcher: signals, totals and the last words in metadata.json."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from srl_core.base.run_directory import RunDirectory
from srl_core.base.stop import StopFlag
from srl_core.launchers.result import RunResult
from srl_core.services.metrics import WorkerTable
from srl_core.workers.context import RunClock

COUNTS = (
    "env_steps_generated", "env_steps_consumed", "frames", "agent_steps", "gradient_steps", "gradient_samples",
    "updates", "skipped_updates", "dropped_trajectories", "dropped_batches", "dropped_reuses", "stale_batches",
    "episodes", "evaluations", "restarts",
)  # fmt: skip
"""Counters whose totals are reported as the run's counts."""


@dataclass
class Signals:
    """The signal that asked the run to stop, if one came."""

    received: int | None = None


@contextmanager
def stop_on_signals(stop: StopFlag) -> Iterator[Signals]:
    """SIGINT and SIGTERM set the stop flag; a second one kills this process, and with it all its children."""
    signals = Signals()

    def handle(number: int, frame: Any) -> None:
        del frame
        if signals.received is not None:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        signals.received = number
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def totals(table: WorkerTable) -> dict[str, float]:
    """The run's counts so far."""
    return {name: table.total(name) for name in COUNTS}


def record_progress(run: RunDirectory, table: WorkerTable, clock: RunClock) -> None:
    """Write the run's time and counts so far into metadata.json."""
    run.update(seconds=clock.now(), cpu_seconds=table.total("cpu_seconds"), counts=totals(table))


def finish_run(
    run: RunDirectory, table: WorkerTable, clock: RunClock, *, error: Exception | None, signal: int | None
) -> RunResult:
    """Write the outcome into the run directory; raises `error` where there is one."""
    record_progress(run, table, clock)
    counts = totals(table)
    if error is not None:
        run.finish("failed", str(error))
        raise error
    status = "interrupted" if signal else "completed"
    run.finish(status)
    return RunResult(run.path, status, counts, 0 if signal is None else 128 + signal)
