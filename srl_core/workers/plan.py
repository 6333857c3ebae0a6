"""The plan: what the controller hands to each process, as JSON and inherited file descriptors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_core.api import ActionSpec, EnvironmentSpec, PolicySpec, SampleSpec
from srl_core.base.arrays import ArraySpec, schema_from_json, schema_to_json
from srl_core.base.stop import StopFlag
from srl_core.config import Experiment, experiment_from_json, to_json
from srl_core.services.metrics import MetricsWriter, WorkerTable
from srl_core.services.parameters import SharedMemoryParameters
from srl_core.streams import open_inference_link, open_sample_link
from srl_core.workers.context import Channel, Route, RunClock, WorkerContext


@dataclass(frozen=True)
class PlannedRoute:
    """A route as it arrives in a process."""

    policy: str
    agents: tuple[int, ...]
    trained: tuple[int, ...]


def sample_spec(experiment: Experiment, policy: PolicySpec, environment: EnvironmentSpec) -> SampleSpec:
    """The samples of one policy, as the experiment cuts them."""
    trajectory = experiment.trajectory
    return SampleSpec.make(
        policy,
        sample_steps=trajectory.sample_steps,
        bootstrap_steps=trajectory.bootstrap_steps,
        burn_in_steps=trajectory.burn_in_steps,
        frame_stacks=environment.frame_stacks,
    )


def write_plan(
    *,
    experiment: Experiment,
    environment: EnvironmentSpec,
    routes: Sequence[Route],
    channels: Mapping[str, Channel],
    table: WorkerTable,
    stop: StopFlag,
    clock: RunClock,
    run_dir: Path,
) -> int:
    """Write the plan into an anonymous file and return its descriptor, for processes to inherit."""
    plan = {
        "experiment": to_json(experiment),
        "environment": {
            "num_envs": environment.num_envs,
            "agents": list(environment.agents),
            "observation": schema_to_json(environment.observation),
            "action": to_json(environment.action),
            "frame_skip": environment.frame_skip,
            "frame_stacks": dict(environment.frame_stacks),
        },
        "routes": [{"policy": r.policy, "agents": list(r.agents), "trained": list(r.trained)} for r in routes],
        "channels": {
            name: {
                "observation": schema_to_json(c.spec.observation),
                "state": schema_to_json(c.spec.state),
                "action": [c.spec.action.dtype, list(c.spec.action.shape)],
                "parameters": c.parameters.descriptor(),  # type: ignore[attr-defined]
                "samples": c.samples.descriptor() if c.samples else None,
                "inference": c.inference.descriptor() if c.inference else None,
            }
            for name, c in channels.items()
        },
        "table": table.descriptor(),
        "stop": stop.fileno(),
        "started": clock.started,
        "before": clock.before,
        "run_dir": str(run_dir),
    }
    fd = os.memfd_create("plan")
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(json.dumps(plan).encode())
    return fd


def read_plan(fd: int) -> dict[str, Any]:
    """The JSON that `write_plan` wrote."""
    size = os.fstat(fd).st_size
    return json.loads(os.pread(fd, size, 0))


def open_context(plan: Mapping[str, Any], *, name: str, kind: str, index: int, policy: str) -> WorkerContext:
    """Attach this process to everything that the plan describes and its kind of worker uses."""
    experiment = experiment_from_json(plan["experiment"])
    stop = StopFlag(plan["stop"])
    data = plan["environment"]
    environment = EnvironmentSpec(
        num_envs=data["num_envs"],
        agents=tuple(data["agents"]),
        observation=schema_from_json(data["observation"]),
        action=ActionSpec(**{**data["action"], "nvec": tuple(data["action"]["nvec"])}),
        frame_skip=data["frame_skip"],
        frame_stacks=data["frame_stacks"],
    )
    channels = {}
    for channel, c in plan["channels"].items():
        dtype, shape = c["action"]
        spec = PolicySpec(
            schema_from_json(c["observation"]), schema_from_json(c["state"]), ArraySpec(tuple(shape), dtype)
        )
        needs_samples = c["samples"] is not None and kind in ("actor", "trainer")
        needs_inference = c["inference"] is not None and kind in ("actor", "policy")
        channels[channel] = Channel(
            channel,
            spec,
            sample_spec(experiment, spec, environment),
            SharedMemoryParameters.open(c["parameters"]),
            open_sample_link(c["samples"], stop) if needs_samples else None,
            open_inference_link(c["inference"], stop) if needs_inference else None,
        )
    run_dir = Path(plan["run_dir"])
    return WorkerContext(
        experiment=experiment,
        name=name,
        index=index,
        policy=policy,
        environment=environment,
        routes=[PlannedRoute(r["policy"], tuple(r["agents"]), tuple(r["trained"])) for r in plan["routes"]],
        channels=channels,
        run_dir=run_dir,
        clock=RunClock(plan["started"], plan["before"]),
        stop=stop,
        table=WorkerTable.open(plan["table"]),
        metrics=MetricsWriter(run_dir, name, wandb_project=experiment.logging.wandb_project),
    )
