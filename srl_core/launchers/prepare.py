"""What every launcher does before it starts workers: check, probe, and build what the workers share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from srl_core.api import EnvironmentSpec, PolicySpec
from srl_core.base.arrays import Arrays, Schema, block_nbytes
from srl_core.base.errors import UserError
from srl_core.base.hardware import available_memory
from srl_core.base.run_directory import RunDirectory
from srl_core.config import Experiment, to_json, validate
from srl_core.launchers.finish import record_early_end
from srl_core.launchers.topology import AgentRoute, Placement, agent_routes, placements
from srl_core.services.checkpoints import Checkpoints
from srl_core.services.metrics import WorkerTable
from srl_core.workers.context import COLUMNS, CONTROLLER, TRAINER_COLUMNS
from srl_core.workers.plan import sample_spec


@dataclass
class Prepared:
    """All that is known before the first worker starts."""

    experiment: Experiment
    run: RunDirectory
    environment: EnvironmentSpec
    routes: list[AgentRoute]
    workers: list[Placement]
    policies: dict[str, PolicySpec]
    parameter_schemas: dict[str, Schema]
    initial: dict[str, tuple[int, Arrays]]
    """Version and parameters that each policy starts from: new, or those of its newest checkpoint."""
    counted: dict[str, dict[str, float]]
    """What each policy's trainer had counted at that checkpoint."""


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


def prepare(experiment: Experiment, run_dir: Path, *, resume: bool) -> Prepared:
    """Probe, open the run directory, build each policy once, and read the newest checkpoints of a run that goes on.

    Whatever is wrong with the experiment is found before the run directory is written.
    """
    spec, routes = probe(experiment)
    _check_device(experiment.trainer.device)
    trained = {r.policy: experiment.algorithm.build_policy(spec, device="cpu", seed=experiment.seed) for r in routes}
    for policy in trained.values():
        _check_memory(experiment, spec, policy.spec)
    config = to_json(experiment)
    if not resume and (run_dir / "metadata.json").exists():
        raise UserError(f"{run_dir} holds a run already; resume it or choose another directory")
    run = RunDirectory.create(run_dir, config, seed=experiment.seed)
    try:
        initial, counted = {}, {}
        for route in routes:
            policy, version = trained[route.policy], 0
            directory = run.checkpoints / route.policy
            found = Checkpoints(directory, keep=experiment.trainer.checkpoint_keep).load_latest()
            if found is not None:
                _, state = found
                if state["published"] is None:
                    algorithm = experiment.algorithm.build(spec, device="cpu", seed=experiment.seed)
                    algorithm.load_state_dict(state["algorithm"])
                    policy = algorithm.policy
                else:
                    policy.write_parameters(state["published"])
                version = int(state["version"])
                counted[route.policy] = {name: float(state["counters"][name]) for name in TRAINER_COLUMNS}
            initial[route.policy] = (version, policy.read_parameters())
        return Prepared(
            experiment=experiment,
            run=run,
            environment=spec,
            routes=routes,
            workers=placements(experiment, routes),
            policies={name: policy.spec for name, policy in trained.items()},
            parameter_schemas={name: policy.parameter_schema() for name, policy in trained.items()},
            initial=initial,
            counted=counted,
        )
    except BaseException as error:
        record_early_end(run, error)
        run.close()
        raise


def make_table(prepared: Prepared) -> WorkerTable:
    """The worker table, with what earlier parts of the run have counted in a row of its own."""
    table = WorkerTable.create([CONTROLLER, *(w.name for w in prepared.workers)], list(COLUMNS))
    # What trainers count comes back with their checkpoint, so that it agrees with the parameters. It is here from the
    # start: a trainer that restored it later would look as if it had just trained on all of it.
    for name, value in prepared.run.counts.items():
        if name in COLUMNS and name not in TRAINER_COLUMNS:
            table.row(CONTROLLER).set(name, value)
    for worker in prepared.workers:
        if worker.kind == "trainer":
            for name, value in prepared.counted.get(worker.policy, {}).items():
                table.row(worker.name).set(name, value)
    table.row(CONTROLLER).set("cpu_seconds", prepared.run.cpu_seconds)
    return table


def _check_memory(experiment: Experiment, environment: EnvironmentSpec, policy: PolicySpec) -> None:
    """The batches that a trainer may hold: those that wait, the one in use, and the next one being assembled."""
    samples = sample_spec(experiment, policy, environment)
    trainer = experiment.trainer
    batch = block_nbytes(samples.schema, samples.leading(trainer.batch_size))
    available = available_memory()
    if batch > available or batch * (trainer.queue_size + 2) > available:
        raise UserError(
            f"trainer.batch_size is {trainer.batch_size} and trainer.queue_size {trainer.queue_size}: up to "
            f"{trainer.queue_size + 2} batches of {batch} bytes need more memory than the {available} bytes available"
        )


def _check_device(device: str) -> None:
    if device == "cpu":
        return  # always there, and some algorithms need no torch
    import torch

    try:
        torch.zeros(1, device=device)
    except Exception as error:
        raise UserError(f"trainer.device is {device!r}, which this machine does not offer: {error}") from None
