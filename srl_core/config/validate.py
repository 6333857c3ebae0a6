"""What one field cannot know: values out of range and fields that contradict each other."""

from __future__ import annotations

import math
import operator
import re

from srl_core.base.errors import UserError
from srl_core.config.experiment import Experiment

_RANGES: dict[str, tuple[float, float]] = {
    "trajectory.sample_steps": (1, math.inf),
    "trajectory.bootstrap_steps": (1, math.inf),
    "trajectory.burn_in_steps": (0, math.inf),
    "actor.count": (1, 10_000),
    "actor.ring_size": (1, 1_000),
    "actor.envs_per_member": (1, 100_000),
    "actor.inference_splits": (0, math.inf),
    "actor.pull_seconds": (0, math.inf),
    "policy_worker.count": (1, 1_000),
    "policy_worker.max_batch_size": (1, 10_000_000),
    "policy_worker.pull_seconds": (0, math.inf),
    "trainer.batch_size": (1, math.inf),
    "trainer.sample_reuse": (1, math.inf),
    "trainer.queue_size": (1, math.inf),
    "trainer.max_staleness": (0, math.inf),
    "trainer.publish_every": (1, math.inf),
    "trainer.checkpoint_seconds": (0, math.inf),
    "trainer.checkpoint_keep": (1, math.inf),
    "trainer.threads": (1, 1_000),
    "trainer.max_skipped": (1, math.inf),
    "evaluation.interval_seconds": (0, math.inf),
    "evaluation.episodes": (1, 1_000_000),
    "evaluation.envs": (1, 100_000),
    "streams.slots": (1, math.inf),
    "budget.env_steps": (0, math.inf),
    "budget.seconds": (0, math.inf),
    "budget.updates": (0, math.inf),
    "budget.target_return": (-math.inf, math.inf),
    "logging.interval_seconds": (0.1, math.inf),
    "seed": (0, 2**31 - 1),
}
"""Least and most of each number. What is made so many times (processes, environments, threads) has an upper bound, so
that a slip of the keyboard is not a machine out of memory; what memory bounds is checked against the machine's."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NAME_RULE = "made of up to 100 letters, digits, '.', '_' and '-', a letter or digit first"
"""Names become names of files."""


def validate(experiment: Experiment) -> None:
    """Raise `UserError` for the first thing that cannot work; nothing has been started or written yet."""
    for path, (least, most) in _RANGES.items():
        value = operator.attrgetter(path)(experiment)
        if not least <= value <= most:  # NaN is in no range
            rule = f"at most {most}" if value > most else "a number" if least == -math.inf else f"at least {least}"
            raise UserError(f"{path} is {value}; it must be {rule}")
    if not _NAME.fullmatch(experiment.name):
        raise UserError(f"name is {experiment.name!r}; it must be {_NAME_RULE}")
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
            raise UserError(f"routes[{i}].policy is {route.policy!r}; it must be {_NAME_RULE}")
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
