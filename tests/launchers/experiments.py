"""Small experiments that the launchers' tests share."""

from __future__ import annotations

from dataclasses import replace

from envs.null import NullConfig
from reproductions.presets.classic import cartpole
from srl_core.algorithms.null.config import NullAlgorithmConfig
from srl_core.config import (
    ActorConfig,
    BudgetConfig,
    EvaluationConfig,
    Experiment,
    LoggingConfig,
    TrainerConfig,
    TrajectoryConfig,
)


def small_cartpole(**changes) -> Experiment:
    """CartPole with few environments, one thread's worth of work, and a checkpoint after every update."""
    base = cartpole()
    return replace(
        base,
        actor=replace(base.actor, count=2, envs_per_member=4, ring_size=1, inference="inline", pull_seconds=0.0),
        trajectory=TrajectoryConfig(sample_steps=16),
        trainer=replace(base.trainer, batch_size=8, queue_size=2, sample_reuse=1, checkpoint_seconds=0.0),
        evaluation=EvaluationConfig(),
        budget=BudgetConfig(updates=20),
        **changes,
    )


def null_run(**changes) -> Experiment:
    """Null environments and a null algorithm: only the dataflow, without torch."""
    settings = {
        "actor": ActorConfig(count=2, envs_per_member=8),
        "trajectory": TrajectoryConfig(sample_steps=8),
        "trainer": TrainerConfig(batch_size=16, checkpoint_seconds=600),
        "budget": BudgetConfig(updates=100),
        "logging": LoggingConfig(interval_seconds=0.5),
    }
    return Experiment(NullConfig(shape=(4, 8, 8)), NullAlgorithmConfig(), name="null", **{**settings, **changes})
