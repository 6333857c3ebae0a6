"""The verdict's rule, word by word."""

import pytest

from analysis.bootstrap import Interval
from analysis.verdict import above, verdict

HIGHER, LOWER = {"better": "higher"}, {"better": "lower"}
OURS = Interval(19.0, 18.5, 19.5)


@pytest.mark.parametrize(
    ("ours", "paper", "ratios", "rule", "attempted", "trend", "word"),
    [
        (None, 100.0, [], HIGHER, False, False, "not attempted"),
        (OURS, None, [], HIGHER, True, True, "no reference value"),
        (OURS, None, [], {**HIGHER, "goal": 18.0}, True, False, "reproduced"),
        (OURS, None, [], {**HIGHER, "goal": 20.0}, True, False, "not reproduced"),
        (OURS, None, [], {**HIGHER, "goal": 20.0}, True, True, "trend only"),
        (OURS, None, [], {**LOWER, "goal": 30.0}, True, False, "reproduced"),
        (OURS, None, [], {**LOWER, "goal": 10.0}, True, False, "not reproduced"),
        (None, None, [], {**LOWER, "goal": 10.0}, True, False, "not reproduced"),
        (None, None, [], LOWER, True, False, "no reference value"),
        (OURS, 20.0, [0.95], HIGHER, True, False, "reproduced"),
        (OURS, 25.0, [0.76], HIGHER, True, False, "not reproduced"),
        (OURS, 25.0, [0.76, 3.04], HIGHER, True, True, "trend only"),
        (OURS, 18.0, [1.06], LOWER, True, False, "reproduced"),
        (OURS, 10.0, [0.5, 1.9], LOWER, True, False, "not reproduced"),
        (OURS, 30.0, [0.63], {**HIGHER, "goal": 1.0}, True, False, "not reproduced"),
    ],
)
def test_verdict(ours, paper, ratios, rule, attempted, trend, word):
    assert verdict(ours, paper, ratios, rule, attempted=attempted, trend=trend) == word


def test_above_needs_the_whole_interval():
    assert above(OURS, 18.4)
    assert not above(OURS, 18.6)
    assert above(OURS, Interval(18.0, 17.0, 18.4))
    assert not above(OURS, Interval(18.0, 17.0, 18.6))
