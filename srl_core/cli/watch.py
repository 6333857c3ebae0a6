"""Follow a run that another terminal has started: its progress, line by line, until it ends."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srl_core.base.run_directory import RunDirectory, find_run, is_live
from srl_core.cli.run import RUNS

_LOOK_SECONDS = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    parser.add_argument("run", metavar="RUN", help="a run's directory, or its name under runs/")


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the newest record, then new ones as they are written; an ended run's files at the end."""
    del rest
    path = find_run(options.run, RUNS)
    directory = RunDirectory.open(path)
    from srl_core.cli.live import duration, progress_line
    from srl_core.cli.training import outcome

    for record in follow(directory.metrics, lambda: is_live(path)):
        if record.get("kind") == "progress":
            print(progress_line(record, record.get("bottleneck", "-"), 10_000), flush=True)
        elif record.get("kind") == "evaluation":
            print(
                f"{duration(record['t'])} | evaluation of version {record['version']}: mean return "
                f"{record['return_mean']:.2f} in {record['episodes']} games",
                flush=True,
            )
    print(outcome(path))
    return 0


def follow(path: Path, alive) -> Iterator[dict[str, Any]]:
    """Records of a growing file, whole lines only, until `alive()` is false and all is read."""
    position = 0
    while True:
        ending = not alive()  # asked before reading: what is written last is still read
        if path.exists():
            with path.open("rb") as file:
                file.seek(position)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # half a line: its rest is still to come
                    position += len(line)
                    try:
                        record = json.loads(line)
                    except ValueError:  # cut short by a kill
                        continue
                    if isinstance(record, dict):
                        yield record
        if ending:
            return
        time.sleep(_LOOK_SECONDS)
