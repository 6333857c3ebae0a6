"""What a worker is given: its place in the run and its ends of everything that joins it to the others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from srl_core.api import EnvironmentSpec, PolicySpec, SampleSpec
from srl_core.base.stop import StopFlag
from srl_core.config import Experiment
from srl_core.services.metrics import MetricsWriter, WorkerTable
from srl_core.services.parameters import ParameterService
from srl_core.streams import InferenceLink, SampleLink

COLUMNS = (
    "env_steps_generated",
    "frames",
    "agent_steps",
    "env_steps_consumed",
    "gradient_steps",
    "gradient_samples",
    "updates",
    "skipped_updates",
    "dropped_trajectories",
    "stale_batches",
    "dropped_batches",
    "dropped_reuses",
    "staleness",
    "version",
    "restarts",
    "queue_fill",
    "requests",
    "inference_batches",
    "episodes",
    "return_sum",
    "evaluations",
    "evaluation_return",
    "target_reached",
    "wait_seconds",
    "cpu_seconds",
    "heartbeat",
    "finished",
)
"""Counters of the worker table; each worker fills those that it knows, the others stay 0."""

ACTOR_COLUMNS = ("env_steps_generated", "frames", "agent_steps", "dropped_trajectories", "episodes", "return_sum")
"""Counters that an actor fills."""

TRAINER_COLUMNS = (
    "env_steps_consumed",
    "gradient_steps",
    "gradient_samples",
    "updates",
    "skipped_updates",
    "stale_batches",
    "dropped_batches",
    "dropped_reuses",
)
"""Counters that a trainer saves in its checkpoint."""

CONTROLLER = "controller"
"""Row of the worker table of the controller: its own CPU time, and what earlier parts of a resumed run counted."""


class Route(Protocol):
    """As `launchers.topology.AgentRoute`: workers do not know launchers."""

    @property
    def policy(self) -> str: ...
    @property
    def agents(self) -> tuple[int, ...]: ...
    @property
    def trained(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class RunClock:
    """Training time: seconds since the run began, without the time between a stop and the resume."""

    started: float
    """`time.monotonic()` when this part of the run began; one clock for all processes of a host."""
    before: float = 0.0
    """Training time of the earlier parts."""

    def now(self) -> float:
        return self.before + time.monotonic() - self.started


@dataclass
class Channel:
    """What belongs to one policy: its specs, its streams and its parameters."""

    policy: str
    spec: PolicySpec
    samples_spec: SampleSpec
    parameters: ParameterService
    samples: SampleLink | None = None
    inference: InferenceLink | None = None


@dataclass
class WorkerContext:
    """Handed to a worker's constructor by the launcher."""

    experiment: Experiment
    name: str
    index: int
    policy: str
    environment: EnvironmentSpec
    routes: Sequence[Route]
    channels: Mapping[str, Channel]
    run_dir: Path
    clock: RunClock
    stop: StopFlag
    table: WorkerTable
    metrics: MetricsWriter
    deterministic: bool = False
    """One process, one thread: nothing may depend on time."""
