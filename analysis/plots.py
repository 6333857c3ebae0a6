"""The two kinds of picture: learning curves and throughput over a number of workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.bootstrap import curve_interval, interval
from analysis.metrics import DataError, Result, by_seed, curves, seed_values, select, x_values

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's colours, told apart by colour-blind readers too; markers differ as well."""
_MARKERS = ("o", "s", "^", "D", "v", "P")
_GREY = "#555555"
STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.edgecolor": "#999999",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "legend.frameon": False,
    "lines.linewidth": 2.0,
}
_POINTS = 120


def draw(result: Result, path: Path) -> None:
    """Write the result's picture (PNG, well under 200 kB) to `path`."""
    kinds = {"learning": _learning_panel, "throughput": _throughput_panel}
    plot = result.figure["plot"]
    if plot["kind"] not in kinds:
        raise DataError(f"plot.kind is {plot['kind']!r} in figure.json; it must be one of {', '.join(kinds)}")
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.6 * len(plot["panels"]), 3.5), layout="constrained")
        axes = figure.subplots(1, len(plot["panels"]), squeeze=False)[0]
        for axis, panel in zip(axes, plot["panels"], strict=True):
            kinds[plot["kind"]](axis, result, panel)
        figure.suptitle(f"{result.figure['title']} ({result.figure['profile']} profile)", fontsize=11.5)
        figure.savefig(path, dpi=130, metadata={"Software": None})


def _systems(result: Result, metric: str) -> list[str]:
    """Systems that have the metric, in the order of the data."""
    return list(dict.fromkeys(select(result.data, {"metric": metric})["system"]))


def _learning_panel(axis: Axes, result: Result, panel: Mapping[str, Any]) -> None:
    metric = panel["metric"]
    for system, colour in zip(_systems(result, metric), PALETTE, strict=False):
        rows = select(result.data, {"metric": metric, "system": system, "x_name": panel["x_name"]})
        for _, run in by_seed(rows):
            axis.plot(run["x"], run["value"], color=colour, alpha=0.3, linewidth=0.9)
        x, values = curves(rows, _POINTS)
        mean, low, high = curve_interval(values[:, None, :], what=f"{metric} of {system}")
        axis.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        axis.plot(x, mean, color=colour, label=f"{system}: mean of {len(values)} seeds, 95 % interval")
    _finish(axis, panel)
    axis.set_xlim(left=0)
    axis.legend(loc=panel["legend"], fontsize=8.5)


def _throughput_panel(axis: Axes, result: Result, panel: Mapping[str, Any]) -> None:
    metric = panel["metric"]
    for i, system in enumerate(_systems(result, metric)):
        rows = select(result.data, {"metric": metric, "system": system, "x_name": panel["x_name"]})
        xs = x_values(rows)
        estimates = [interval(seed_values(select(rows, {"x": x})), what=f"{metric} of {system} at {x:g}") for x in xs]
        points = [e.point for e in estimates]
        below = [e.point - e.low for e in estimates]
        above = [e.high - e.point for e in estimates]
        colour, marker = PALETTE[i % len(PALETTE)], _MARKERS[i % len(_MARKERS)]
        axis.errorbar(xs, points, [below, above], color=colour, marker=marker, label=system, capsize=3, elinewidth=1.2)
    if panel["limit"]:
        limit = interval(seed_values(select(result.data, {"metric": panel["limit"]})), what=panel["limit"])
        axis.axhspan(limit.low, limit.high, color=_GREY, alpha=0.12, linewidth=0)
        _reference_line(axis, limit.point, panel["limit_label"])
    _finish(axis, panel)
    axis.margins(y=0.1)
    axis.set_ylim(bottom=0)
    xs = x_values(select(result.data, {"metric": metric, "x_name": panel["x_name"]}))
    if len(xs) > 1 and xs[-1] / xs[0] > 8:
        axis.set_xscale("log", base=2)
    axis.set_xticks(xs, [f"{x:g}" for x in xs])
    axis.legend(loc=panel["legend"], fontsize=8.5)


def _reference_line(axis: Axes, y: float, label: str) -> None:
    axis.axhline(y, color=_GREY, linestyle="--", linewidth=1.2)
    place = {"xycoords": ("axes fraction", "data"), "xytext": (4, 3), "textcoords": "offset points"}
    axis.annotate(label, (0.0, y), ha="left", va="bottom", fontsize=8.5, color=_GREY, **place)


def _finish(axis: Axes, panel: Mapping[str, Any]) -> None:
    axis.set_xlabel(panel["x_label"])
    axis.set_ylabel(panel["y_label"])
    if panel["goal"] is not None:
        _reference_line(axis, panel["goal"], panel["goal_label"])
    axis.xaxis.set_major_locator(MaxNLocator(6))
    axis.xaxis.set_major_formatter(FuncFormatter(short))
    axis.yaxis.set_major_formatter(FuncFormatter(short))


def short(value: float, _position: int | None = None) -> str:
    """1500000 -> 1.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
