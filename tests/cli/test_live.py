from __future__ import annotations

import io
import math

import pytest

from srl_core.cli.live import ProgressPrinter, amount, duration, progress_line
from srl_core.launchers import Progress

NUMBERS = {
    "t": 75.0,
    "env_steps_generated_per_s": 12_345.0,
    "env_steps_consumed_per_s": 12_000.0,
    "frames_per_s": 49_380.0,
    "queue_fill": 2.0,
    "staleness": 1.5,
    "train_return": -20.25,
    "evaluation_return": math.nan,
    "restarts": 0.0,
    "skipped_updates": 3.0,
    "seconds_left": 4000.0,
}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (1.25, "1.2"), (999.6, "1000"), (9999, "9999"), (12_345, "12.3k"), (2_500_000, "2.5M")],
)
def test_amounts(value, text):
    assert amount(value) == text
    assert amount(math.nan) == "-"


@pytest.mark.parametrize(("seconds", "text"), [(0, "00:00"), (75.9, "01:15"), (4000, "1:06:40"), (math.nan, "-")])
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_the_line_says_everything():
    line = progress_line(NUMBERS, "trainer (learning)", 400)
    for part in (
        "01:15",
        "12.3k generated",
        "12.0k trained",
        "frames/s 49.4k",
        "queue 2",
        "staleness 1.5",
        "return -20.2 (evaluation -)",
        "restarts 0",
        "skipped 3",
        "left 1:06:40",
        "bottleneck: trainer (learning)",
    ):
        assert part in line


@pytest.mark.parametrize("width", [20, 79, 120, 200, 300])
def test_the_line_fits(width):
    line = progress_line(NUMBERS, "policy workers (inference)", width)
    assert 0 < len(line) <= width
    assert width < 120 or "left 1:06:40" in line


def progress(**changes: float) -> Progress:
    names = [name for name in Progress.__dataclass_fields__ if name != "bottleneck"]
    return Progress(**{**dict.fromkeys(names, 0.0), **NUMBERS, **changes}, bottleneck="balanced")


def test_elsewhere_lines_are_printed_now_and_then():
    out = io.StringIO()
    printer = ProgressPrinter(interval_seconds=1000.0, out=out)
    for _ in range(5):
        printer(progress())
    printer.close()
    assert out.getvalue().count("\n") == 1
    assert "\r" not in out.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_is_rewritten(monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    out = Terminal()
    printer = ProgressPrinter(interval_seconds=1000.0, out=out)
    printer(progress(restarts=10.0))
    printer(progress())
    printer.close()
    _, first, second = out.getvalue().split("\r")
    assert second.endswith("\n")
    assert len(first) <= 89
    assert len(second.rstrip("\n")) >= len(first.rstrip()), "the rest of a longer line is wiped"
