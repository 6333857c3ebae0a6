"""PPO on Atari games, from a test of seconds to a cluster."""

from __future__ import annotations

from dataclasses import replace

from envs.atari import AtariConfig
from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.config import (
    ActorConfig,
    BudgetConfig,
    EvaluationConfig,
    Experiment,
    TrainerConfig,
    TrajectoryConfig,
)
from srl_core.networks.config import NetworkConfig


def atari_ppo(game: str = "Pong", profile: str = "desk") -> Experiment:
    """PPO on an Atari game.

    `profile` is smoke (seconds), desk (2-4 cores), node (32 cores) or cluster (128 cores and a GPU).
    """
    desk = Experiment(
        environment=AtariConfig(game=game),
        algorithm=PPOConfig(
            network=NetworkConfig(encoder="atari_small"),
            learning_rate=5e-4,
            gae_lambda=0.95,
            entropy_coefficient=0.01,
            # Each step is trained on once: many small gradient steps learn several times as much from it as few large
            # ones, for a tenth more CPU time.
            minibatch_size=64,
            gradient_clip=0.5,
        ),
        name=f"{game.lower()}-ppo",
        trajectory=TrajectoryConfig(sample_steps=32),
        actor=ActorConfig(count=3, envs_per_member=16),
        trainer=TrainerConfig(batch_size=32, queue_size=1),
        evaluation=EvaluationConfig(interval_seconds=90.0, final=True, episodes=10, envs=10),
        budget=BudgetConfig(seconds=1680.0),
    )
    if profile == "desk":
        return desk
    if profile == "smoke":
        return replace(
            desk,
            actor=replace(desk.actor, count=2),
            evaluation=EvaluationConfig(interval_seconds=2.0, final=True, episodes=1, envs=1),
            budget=BudgetConfig(env_steps=20_000),
        )
    larger = replace(
        desk,
        algorithm=replace(desk.algorithm, network=NetworkConfig(encoder="nature"), minibatch_size=2048),
        evaluation=replace(desk.evaluation, interval_seconds=60.0, envs=20, episodes=20),
        budget=BudgetConfig(seconds=900.0),
    )
    if profile == "node":
        return replace(
            larger,
            actor=replace(desk.actor, count=28),
            trainer=replace(desk.trainer, batch_size=256, threads=4),
        )
    if profile == "cluster":
        return replace(
            larger,
            actor=replace(desk.actor, count=120, envs_per_member=32),
            trainer=replace(desk.trainer, batch_size=1024, threads=4, device="cuda"),
        )
    raise ValueError(f"profile is {profile!r}; it must be smoke, desk, node or cluster")


def pong() -> Experiment:
    """PPO on Atari Pong from its picture, for half an hour on 2 cores."""
    return replace(atari_ppo("Pong", "desk"), name="pong")
