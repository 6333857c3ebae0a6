"""What every launcher does before it starts workers: check, probe, and build what the workers share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from srl_core.api import EnvironmentSpec, PolicySpec
from srl_core.base.arrays import Arrays, Schema
from srl_core.base.errors import UserError
from srl_core.base.run_directory import RunDirectory
from srl_core.config import Experiment, config_hash, to_json, validate
from srl_core.launchers.topology import AgentRoute, Placement, agent_routes, placements
from srl_core.services.checkpoints import Checkpoints


@dataclass
class Prepared:
    """All that is known before the first worker starts."""

    experiment: Experiment
    environment: EnvironmentSpec
    routes: list[AgentRoute]
    workers: list[Placement]
    policies: dict[str, PolicySpec]
    parameter_schemas: dict[str, Schema]
    initial: dict[str, tuple[int, Arrays]]
    """Version and parameters that each policy starts from: new, or those of its newest checkpoint."""
    before: float
    """Training time [s] of earlier parts of the run."""
    counters: dict[str, dict[str, float]]
    """Counters of earlier parts, by worker."""


def probe(experiment: Experiment) -> tuple[EnvironmentSpec, list[AgentRoute]]:
    """Check the configuration and build one environment to learn its shapes; nothing is written or started."""
    validate(experiment)
    environment = experiment.environment.build(1, training=True)
    try:
        spec = environment.spec
    finally:
        environment.close()
    spec = dataclasses.replace(spec, num_envs=experiment.actor.envs_per_member)
    return spec, agent_routes(experiment, spec.agents)


def prepare(experiment: Experiment, run: RunDirectory) -> Prepared:
    """Probe, build each policy once, and read the newest checkpoints of a run that goes on."""
    spec, routes = probe(experiment)
    _check_device(experiment.trainer.device)
    policies, schemas, initial, counters = {}, {}, {}, {}
    before = 0.0
    for route in routes:
        policy = experiment.algorithm.build_policy(spec, device="cpu", seed=experiment.seed)
        policies[route.policy] = policy.spec
        schemas[route.policy] = policy.parameter_schema()
        version = 0
        found = Checkpoints(run.path / "checkpoints" / route.policy, keep=experiment.trainer.checkpoint_keep).load_latest()
        if found is not None:
            _, state = found
            algorithm = experiment.algorithm.build(spec, device="cpu", seed=experiment.seed)
            algorithm.load_state_dict(state["algorithm"])
            policy, version = algorithm.policy, int(state["version"])
            before = max(before, float(state["t"]))
        initial[route.policy] = (version, policy.read_parameters())
    for name, row in run.counters().items():
        counters[name] = row
    return Prepared(
        experiment, spec, routes, placements(experiment, routes), policies, schemas, initial, before, counters
    )


def _check_device(device: str) -> None:
    import torch

    try:
        torch.zeros(1, device=device)
    except Exception as error:
        raise UserError(f"trainer.device is {device!r}, which this machine does not offer: {error}") from None


def open_run(experiment: Experiment, run_dir: Path, *, resume: bool) -> RunDirectory:
    """Create the run directory, or open the one that `resume` continues."""
    if resume and (run_dir / "config.json").exists():
        return RunDirectory.open(run_dir)
    return RunDirectory.create(run_dir, to_json(experiment), config_hash=config_hash(experiment), seed=experiment.seed)


def worker_names(workers: Sequence[Placement]) -> list[str]:
    """Names of all workers, in the order in which they start."""
    return [worker.name for worker in workers]
