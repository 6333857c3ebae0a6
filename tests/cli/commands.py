"""The command line as its users have it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def srl(*arguments: str | Path, cwd: Path, timeout: float = 100, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run `srl`, or Python `code` that may call it, and return what it said."""
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "srl_core.cli"]
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "COLUMNS": "100"},
        check=False,
    )


TINY = (
    "--launcher",
    "inline",
    "budget.env_steps=3000",
    "actor.envs_per_member=8",
    "--trainer.batch_size",
    "8",
    "evaluation.interval_seconds=0",
    "evaluation.episodes=2",
    "logging.interval_seconds=0.2",
)
"""A CartPole run of a second."""
