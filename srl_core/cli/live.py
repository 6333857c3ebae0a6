"""The state of a run as one line: rewritten in place on a terminal, printed now and then elsewhere."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from srl_core.launchers import Progress


def duration(seconds: float) -> str:
    """`1:02:03` or `02:03`; `-` where it is not known."""
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def amount(value: float) -> str:
    """A number in at most six characters; `-` where it is not known."""
    if not math.isfinite(value):
        return "-"
    for limit, divisor, unit in ((1e4, 1, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (math.inf, 1e9, "G")):
        if abs(value) < limit:
            scaled = value / divisor
            return f"{scaled:.{0 if abs(scaled) >= 100 or (unit == '' and scaled == int(scaled)) else 1}f}{unit}"
    raise AssertionError("no number is beyond infinity")


def progress_line(numbers: Mapping[str, float], bottleneck: str, width: int) -> str:
    """The long form where it fits into `width` characters, else the short one, cut where even that does not."""
    n = {name: value if isinstance(value, (int, float)) else math.nan for name, value in numbers.items()}
    generated, consumed = amount(n["env_steps_generated_per_s"]), amount(n["env_steps_consumed_per_s"])
    frames, left = amount(n["frames_per_s"]), duration(n["seconds_left"])
    evaluated = amount(n["evaluation_return"])
    long = (
        f"{duration(n['t'])} | env steps/s {generated} generated, {consumed} trained | frames/s {frames} | "
        f"queue {amount(n['queue_fill'])} | staleness {amount(n['staleness'])} | "
        f"return {amount(n['train_return'])} (evaluation {evaluated}) | restarts {amount(n['restarts'])} | "
        f"skipped {amount(n['skipped_updates'])} | left {left} | bottleneck: {bottleneck}"
    )
    short = (
        f"{duration(n['t'])} gen {generated}/s use {consumed}/s fr {frames}/s q {amount(n['queue_fill'])} "
        f"st {amount(n['staleness'])} ret {amount(n['train_return'])} ev {evaluated} rs {amount(n['restarts'])} "
        f"sk {amount(n['skipped_updates'])} left {left} {bottleneck.partition(' ')[0]}"
    )
    return long if len(long) <= width else short[:width]


class ProgressPrinter:
    """Called with every look at the run; `close` ends the line."""

    def __init__(self, interval_seconds: float, out: TextIO | None = None) -> None:
        self._interval, self._out = interval_seconds, out or sys.stdout
        self._terminal = self._out.isatty()
        self._next = time.monotonic()
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        if self._terminal:
            # The last column stays free: some terminals begin a new line when it is written.
            columns = shutil.get_terminal_size().columns - 1
            line = progress_line(progress.numbers(), progress.bottleneck, columns)
            self._out.write("\r" + line.ljust(min(self._width, columns)))
            self._width = len(line)
            self._out.flush()
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + self._interval
            print(progress_line(progress.numbers(), progress.bottleneck, 10_000), file=self._out, flush=True)

    def close(self) -> None:
        """Leave the last state readable."""
        if self._terminal and self._width:
            self._out.write("\n")
            self._out.flush()
            self._width = 0
