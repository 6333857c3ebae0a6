"""What one field cannot know: values out of range and fields that contradict each other."""

from __future__ import annotations

import re

from srl_core.base.errors import UserError
from srl_core.config.experiment import Experiment

_AT_LEAST = {
    "trajectory.sample_steps": 1,
    "trajectory.bootstrap_steps": 1,
    "trajectory.burn_in_steps": 0,
    "actor.count": 1,
    "actor.ring_size": 1,
    "actor.envs_per_member": 1,
    "actor.inference_splits": 0,
    "actor.pull_seconds": 0,
    "policy_worker.count": 1,
    "policy_worker.max_batch_size": 1,
    "policy_worker.pull_seconds": 0,
    "trainer.batch_size": 1,
    "trainer.sample_reuse": 1,
    "trainer.queue_size": 1,
    "trainer.max_staleness": 0,
    "trainer.publish_every": 1,
    "trainer.checkpoint_seconds": 0,
    "trainer.checkpoint_keep": 1,
    "trainer.threads": 1,
    "trainer.max_skipped": 1,
    "evaluation.interval_seconds": 0,
    "evaluation.episodes": 1,
    "evaluation.envs": 1,
    "streams.slots": 1,
    "budget.env_steps": 0,
    "budget.seconds": 0,
    "budget.updates": 0,
    "logging.interval_seconds": 0.1,
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def validate(experiment: Experiment) -> None:
    """Raise `UserError` for the first thing that cannot work; nothing has been started or written yet."""
    for path, least in _AT_LEAST.items():
        group, name = path.split(".")
        value = getattr(getattr(experiment, group), name)
        if value != value or value < least:
            raise UserError(f"{path} is {value}; it must be at least {least}")
    if not 0 <= experiment.seed < 2**31:
        raise UserError(f"seed is {experiment.seed}; it must be in 0..2147483647")
    if not _NAME.fullmatch(experiment.name):
        raise UserError(f"name is {experiment.name!r}; it must be made of letters, digits, '.', '_' and '-'")
    _check_routes(experiment)
    _check_batches(experiment)
    trajectory = experiment.trajectory
    experiment.algorithm.validate(trajectory.sample_steps, trajectory.burn_in_steps)


def _check_routes(experiment: Experiment) -> None:
    if not experiment.routes:
        raise UserError("routes is empty; at least one route is needed")
    for i, route in enumerate(experiment.routes):
        try:
            re.compile(route.agents)
        except re.error as error:
            raise UserError(f"routes[{i}].agents is {route.agents!r}, not a regular expression: {error}") from None
        if not _NAME.fullmatch(route.policy):
            raise UserError(f"routes[{i}].policy is {route.policy!r}; it must be letters, digits, '.', '_' and '-'")
    if not any(route.train for route in experiment.routes):
        raise UserError("no route has train=true; there would be nothing to learn from")


def _check_batches(experiment: Experiment) -> None:
    trajectory, trainer, actor = experiment.trajectory, experiment.trainer, experiment.actor
    if trajectory.cut != "chunks" and trajectory.burn_in_steps:
        raise UserError(
            f"trajectory.burn_in_steps is {trajectory.burn_in_steps}; it must be 0 with cut={trajectory.cut}"
        )
    if actor.inference_splits > actor.ring_size:
        raise UserError(
            f"actor.inference_splits is {actor.inference_splits}; it must be at most ring_size {actor.ring_size}"
        )
    # Samples wait on the stream until a batch is complete; a batch larger than all slots together would never be,
    # where every slot is held until its batch is assembled. The trainer copies and releases, so only a bounded batch
    # that no memory could hold is impossible: refuse what is out of proportion before anything is allocated.
    cells = trainer.batch_size * (trajectory.sample_steps + trajectory.bootstrap_steps + trajectory.burn_in_steps)
    if cells > 2**31:
        raise UserError(
            f"trainer.batch_size is {trainer.batch_size}; {cells} steps can never be gathered into one batch"
        )
    if trainer.max_staleness == 0 and trainer.sample_reuse > 1:
        raise UserError(
            f"trainer.max_staleness is 0, but trainer.sample_reuse is {trainer.sample_reuse}; "
            "a batch is one version old at its second use, so it must be at least 1"
        )
