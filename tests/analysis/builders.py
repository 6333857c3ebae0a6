"""A small result directory, written by hand in the pipeline's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HEAD = "figure,run_id,system,env,algorithm,scale,seed,x_name,x,metric,value,unit\n"
PAPER = {
    "value": 100.0,
    "error": 5.0,
    "unit": "frames/s",
    "source": "2nd",
    "how_read": "table 1",
    "hardware": "a big machine",
}


def row(metric: str, seed: int, value: object, *, system: str = "SRL", x: str = "", x_name: str = "") -> str:
    return f"small,{system}-s{seed},{system},pong,PPO,1,{seed},{x_name},{x},{metric},{value},points\n"


def table_row(metric: str, **changes: Any) -> dict[str, Any]:
    standard = {
        "setting": f"the {metric}",
        "metric": metric,
        "select": {"system": "SRL"},
        "paper": None,
        "rule": {"better": "higher"},
        "best": False,
        "readings": None,
        "statistic": "mean",
        "unit": "points",
    }
    return {**standard, **changes}


def panel(metric: str, x_name: str, **changes: Any) -> dict[str, Any]:
    standard = {"x_label": x_name, "y_label": metric, "goal": None, "goal_label": "", "limit": "", "limit_label": ""}
    return {"metric": metric, "x_name": x_name, "legend": "best", **standard, **changes}


def write_result(directory: Path, rows: list[str], table: list[dict], plot: dict | None = None, seeds: int = 3) -> Path:
    directory.mkdir(parents=True)
    hardware = {"cpu": "Test CPU", "cpu_flags": [], "cores": 2.0, "memory_bytes": 8 * 2**30, "gpus": []}
    metadata = {
        "commit": "0123456789abcdef",
        "dirty": True,
        "versions": {"torch": "2.13.0"},
        "hardware": hardware,
        "wall_seconds": 1800.0,
        "cpu_seconds": 3600.0,
    }
    runs = [
        {"run_id": f"SRL-s{s}", "system": "SRL", "env": "pong", "seed": s, "metadata": metadata} for s in range(seeds)
    ]
    figure = {
        "name": directory.name,
        "title": "A small figure",
        "reference": "Nothing of the paper.",
        "profile": "desk",
        "command": "make reproduce-small",
        "plot": plot or {"kind": "learning", "panels": []},
        "table": table,
        "deviations": ["It is small."],
        "sources": {"2nd": "notes"},
        "thinned": 1,
    }
    (directory / "data.csv").write_text(HEAD + "".join(rows))
    (directory / "runs.json").write_text(json.dumps(runs))
    (directory / "figure.json").write_text(json.dumps(figure))
    return directory
