"""How a run ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class RunResult:
    """Returned by every launcher."""

    run_dir: Path
    status: Literal["completed", "interrupted"]
    counts: dict[str, float]
    """Totals of the whole run: env_steps_generated, env_steps_consumed, frames, agent_steps, gradient_steps, ..."""
    exit_code: int
    """0; 130 after Ctrl-C, 143 after SIGTERM."""
