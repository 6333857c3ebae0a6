"""The rule that turns numbers into one of the words of the verdict column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.bootstrap import Interval

REPRODUCED = "reproduced"
TREND_ONLY = "trend only"
NOT_REPRODUCED = "not reproduced"
NOT_ATTEMPTED = "not attempted"
NO_REFERENCE = "no reference value"

RULE_TEXT = (
    "The verdict follows from a rule in `analysis/verdict.py`. *Reproduced*: our mean reaches the paper's value within "
    "10 % (in the unit that favours us least, where the paper does not say which); where the paper gives no value, "
    "our mean reaches the goal stated in the row. *Trend only*: it does not, but the row's trend holds beyond the "
    "95 % intervals. *Not reproduced*: neither. *Not attempted*: nothing was run. *No reference value*: there is "
    "neither a paper value nor a goal."
)
_TOLERANCE = 0.1


def verdict(
    ours: Interval | None,
    paper: float | None,
    ratios: Sequence[float],
    rule: Mapping[str, Any],
    *,
    attempted: bool,
    trend: bool,
) -> str:
    """The verdict of one table row.

    `ours` is None where nothing was run (`attempted` false) or not every run got that far. `paper` is None and `ratios`
    (ours / paper under each reading of the paper's unit) empty where the paper's value is not available. `rule` holds
    `better` ("higher" or "lower") and may hold `goal`, in our unit. `trend` says whether the row's trend holds.
    """
    if not attempted:
        return NOT_ATTEMPTED
    goal = rule.get("goal")
    if paper is None and goal is None:
        return NO_REFERENCE
    if ours is None:
        return NOT_REPRODUCED
    higher = rule["better"] == "higher"
    if paper is not None:
        reached = min(ratios) >= 1 - _TOLERANCE if higher else max(ratios) <= 1 + _TOLERANCE
    else:
        assert goal is not None
        reached = ours.point >= goal if higher else ours.point <= goal
    if reached:
        return REPRODUCED
    return TREND_ONLY if trend else NOT_REPRODUCED


def above(a: Interval, b: Interval | float) -> bool:
    """Whether `a` lies wholly above `b`."""
    return a.low > (b.high if isinstance(b, Interval) else b)
