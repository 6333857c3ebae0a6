"""How runs end, for every launcher: signals, totals and the last words in metadata.json."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from srl_core.base.errors import RunError, UserError
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

_log = logging.getLogger(__name__)


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
    """Write the run's time and counts so far into metadata.json; a full disk is logged and stops nothing."""
    try:
        run.update(seconds=clock.now(), cpu_seconds=table.total("cpu_seconds"), counts=totals(table))
    except OSError as error:
        _log.warning("%s/metadata.json cannot be written: %s", run.path, error.strerror)


@contextmanager
def recorded(run: RunDirectory) -> Iterator[None]:
    """Free the run's directory at the end; what ends the run before `finish_run` is told there too."""
    try:
        yield
    except BaseException as error:
        record_early_end(run, error)
        raise
    finally:
        run.close()


def record_early_end(run: RunDirectory, error: BaseException) -> None:
    """Write what ended the run, unless that was done; a new run whose input was bad leaves no directory."""
    with suppress(OSError):  # a full disk must not hide `error`, which is on its way up
        if isinstance(error, UserError) and run.metadata["resumes"] == 0:
            run.withdraw()
        elif run.metadata["status"] == "running":
            asked = isinstance(error, KeyboardInterrupt | BrokenPipeError)
            run.finish("interrupted" if asked else "failed", str(error) or type(error).__name__)


def finish_run(
    run: RunDirectory, table: WorkerTable, clock: RunClock, *, error: Exception | None, signal: int | None
) -> RunResult:
    """Write the outcome into the run directory; raises `error` where there is one, `RunError` on a full disk."""
    record_progress(run, table, clock)
    counts = totals(table)
    if error is not None:
        with suppress(OSError):  # the root cause is what counts
            run.finish("failed", str(error))
        raise error
    status = "interrupted" if signal else "completed"
    try:
        run.finish(status)
    except OSError as failed:
        raise RunError(f"{run.path}/metadata.json cannot be written: {failed.strerror}") from None
    return RunResult(run.path, status, counts, 0 if signal is None else 128 + signal)
