"""The README.md of a result: every cell computed from data.csv, runs.json and figure.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.bootstrap import RESAMPLES, Interval, interval
from analysis.metrics import DataError, Result, seed_values, select, x_values
from analysis.verdict import RULE_TEXT, above, verdict

UNAVAILABLE = "not available"
_HEADER = (
    "setting",
    "paper value (source)",
    "ours (95 % CI, seeds)",
    "ratio ours / paper",
    "hardware of the paper",
    "hardware of ours",
    "profile",
    "verdict",
    "deviations",
)


@dataclass(frozen=True)
class Ours:
    """Our side of a row."""

    estimate: Interval | None
    """None where nothing was run or not every run reached the event."""
    text: str
    attempted: bool


def number(value: float) -> str:
    """Three significant digits, thousands separated: 124000 -> 124,000; 0.01623 -> 0.0162."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


def readme(result: Result) -> str:
    """The whole text of README.md."""
    figure = result.figure
    lines = [
        f"# {figure['title']}",
        "",
        f"{figure['reference']} Made with `{figure['command']}`; the files beside this one hold all numbers, and "
        f"`python -m analysis draw {figure['name']}` makes this page and the picture from them.",
        "",
        f"![{figure['title']}](figure.png)",
        "",
        "| " + " | ".join(_HEADER) + " |",
        "|" + " --- |" * len(_HEADER),
    ]
    lines += ["| " + " | ".join(_cell(c) for c in _row(result, row)) + " |" for row in figure["table"]]
    lines += ["", "## Deviations from the paper", ""]
    lines += [f"{i}. {sentence}" for i, sentence in enumerate(figure["deviations"], 1)]
    lines += ["", "## How to read the table", ""]
    lines += [
        f"* Intervals are 95 % percentile intervals of the stratified bootstrap over seeds (rliable, "
        f"{RESAMPLES:,} resamples, fixed seed). With three seeds such an interval spans about the lowest to the "
        "highest of them.",
        f"* {RULE_TEXT}",
    ]
    lines += [f"* Source `{code}`: {meaning}." for code, meaning in figure["sources"].items()]
    if figure["thinned"] > 1:
        lines.append(f"* To keep data.csv small, one point in {figure['thinned']} of each curve was kept.")
    lines += ["", "## Runs", "", *_runs(result), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _row(result: Result, row: Mapping[str, Any]) -> list[str]:
    paper = row["paper"]
    ours = ours_of(result, row)
    ratios = _ratios(row, ours)
    goal = row["rule"].get("goal")
    paper_text = UNAVAILABLE if paper is None else _paper_text(paper)
    if goal is not None:
        sign = "at least" if row["rule"]["better"] == "higher" else "at most"
        paper_text += f"; goal of this repository: {sign} {number(goal)} {row['unit']}"
    return [
        row["setting"],
        paper_text,
        ours.text,
        ", ".join(f"{number(r)}{' if ' + reading if reading else ''}" for reading, r in ratios.items()) or UNAVAILABLE,
        UNAVAILABLE if paper is None else f"{paper['hardware']}",
        _hardware(result) if ours.attempted else UNAVAILABLE,
        result.figure["profile"],
        _verdict(result, row, ours, list(ratios.values())),
        f"1-{len(result.figure['deviations'])} below" if result.figure["deviations"] else "none",
    ]


def _paper_text(paper: Mapping[str, Any]) -> str:
    error = f" ± {number(paper['error'])}" if paper["error"] is not None else ""
    return f"{number(paper['value'])}{error} {paper['unit']} ({paper['source']}: {paper['how_read']})"


def _ratios(row: Mapping[str, Any], ours: Ours) -> dict[str, float]:
    """Ours / paper by reading of the paper's unit; a reading's factor turns our unit into it."""
    if row["paper"] is None or ours.estimate is None:
        return {}
    readings: Mapping[str, float] = row["readings"] or {"": 1.0}
    return {name: ours.estimate.point * factor / row["paper"]["value"] for name, factor in readings.items()}


def _verdict(result: Result, row: Mapping[str, Any], ours: Ours, ratios: list[float]) -> str:
    paper = None if row["paper"] is None else row["paper"]["value"]
    trend = ours.estimate is not None and trend_holds(result, row, ours.estimate)
    return verdict(ours.estimate, paper, ratios, row["rule"], attempted=ours.attempted, trend=trend)


def ours_of(result: Result, row: Mapping[str, Any]) -> Ours:
    """Estimate of a row's metric over seeds; with `best` set in the row, at the x where its mean is highest."""
    rows = select(result.data, {**row["select"], "metric": row["metric"]})
    runs = [r for r in result.runs if all(r[k] == v for k, v in row["select"].items() if k in r)]
    if not runs:
        return Ours(None, "not run", False)
    what = f"{row['metric']} of {row['setting']}"
    if row["best"]:
        if rows.empty:
            raise DataError(f"{what} has no rows in data.csv")
        x = max(x_values(rows), key=lambda x: float(select(rows, {"x": x})["value"].mean()))
        values = seed_values(select(rows, {"x": x}))
        where = f" at {number(x)} {rows['x_name'].iloc[0]}"
    else:
        seeds = {int(r["seed"]) for r in runs}
        reached = set(rows["seed"].astype(int))
        if reached != seeds:
            return Ours(None, f"not reached by {len(seeds - reached)} of {len(seeds)} seeds", True)
        values, where = seed_values(rows), ""
    estimate = interval(values, row["statistic"], what=what)
    span = f"{number(estimate.low)} to {number(estimate.high)}, {len(values)} seeds"
    return Ours(estimate, f"{number(estimate.point)} ({span}) {row['unit']}{where}", True)


def trend_holds(result: Result, row: Mapping[str, Any], best: Interval) -> bool:
    """Whether the row's trend holds.

    `{"rising": true}`: the best x's interval lies above the smallest x's. `{"positive": metric}`: that metric's
    interval lies above zero. No trend: false.
    """
    trend = row["rule"].get("trend")
    if not trend:
        return False
    if trend.get("rising"):
        rows = select(result.data, {**row["select"], "metric": row["metric"]})
        first = select(rows, {"x": x_values(rows)[0]})
        return above(best, interval(seed_values(first), row["statistic"], what=row["setting"]))
    rows = select(result.data, {**row["select"], "metric": trend["positive"]})
    return above(interval(seed_values(rows), row["statistic"], what=trend["positive"]), 0.0)


def _hardware(result: Result) -> str:
    kinds = []
    for run in result.runs:
        h = run["metadata"]["hardware"]
        memory = f"{number(h['memory_bytes'] / 2**30)} GiB"
        text = f"{h['cpu']}, {number(h['cores'])} cores, {memory}, {', '.join(h['gpus']) or 'no GPU'}"
        if text not in kinds:
            kinds.append(text)
    return "; ".join(kinds)


def _runs(result: Result) -> list[str]:
    metadata = [r["metadata"] for r in result.runs]
    commits = sorted({f"{m['commit'][:12]}{' with uncommitted changes' if m['dirty'] else ''}" for m in metadata})
    versions = sorted({", ".join(f"{k} {v}" for k, v in sorted(m["versions"].items())) for m in metadata})
    hours = sum(m["wall_seconds"] for m in metadata) / 3600
    cpu_hours = sum(m["cpu_seconds"] for m in metadata) / 3600
    return [
        f"* {len(result.runs)} runs, {number(hours)} hours of wall-clock and {number(cpu_hours)} CPU-hours in all",
        *(f"* commit {c}" for c in commits),
        *(f"* {v}" for v in versions),
    ]
