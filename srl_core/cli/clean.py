"""Remove what dead runs have left: half-written files go, and runs that were killed get their true status."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from srl_core.base.errors import UserError
from srl_core.base.run_directory import RunDirectory, is_live
from srl_core.cli.run import RUNS

_HALF_WRITTEN = (".*.tmp", "checkpoints/*/.saving-*")
"""Names under which files and checkpoints are written before they get their own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where runs are."""
    parser.add_argument("--runs-dir", type=Path, default=RUNS, help="directory of run directories (default: runs)")


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Look at every run below the directory, however deep; live ones are left alone."""
    del rest
    found = sorted(path.parent for path in options.runs_dir.rglob("metadata.json"))
    live = 0
    for path in found:
        if is_live(path):
            live += 1
            print(f"{path}: running, left alone")
            continue
        try:
            run = RunDirectory.claim(path)
        except UserError as error:
            print(f"{path}: left alone: {error}")
            continue
        try:
            _tidy(run)
        finally:
            run.close()
    print(f"{len(found)} runs looked at, {live} of them running")
    return 0


def _tidy(run: RunDirectory) -> None:
    """Nobody else holds the run."""
    if run.metadata["status"] == "running":
        if any(run.checkpoints.glob("*/*/manifest.json")):
            run.finish("interrupted")
            print(f"{run.path}: was killed; now marked interrupted, go on with `srl resume {run.path}`")
        else:
            run.finish("failed", "its process was killed before the first checkpoint")
            print(f"{run.path}: was killed before its first checkpoint; now marked failed")
    for left_over in [path for pattern in _HALF_WRITTEN for path in run.path.glob(pattern)]:
        if left_over.is_dir():
            shutil.rmtree(left_over)
        else:
            left_over.unlink()
        print(f"{left_over}: removed")
