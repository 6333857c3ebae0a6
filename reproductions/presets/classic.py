"""Small control tasks: minutes at most, on any machine."""

from __future__ import annotations

from envs.classic import CartPoleConfig, StatelessCartPoleConfig
from envs.gymnasium_vector import GymnasiumConfig
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


def cartpole() -> Experiment:
    """PPO on CartPole: balances the pole for all 500 steps in less than a minute on 2 cores."""
    return Experiment(
        environment=CartPoleConfig(),
        algorithm=PPOConfig(
            # Returns are up to 100 here: unnormalised, the value's gradient would drown the policy's.
            network=NetworkConfig(separate_critic=True),
            popart=True,
            popart_beta=0.99,
            epochs=4,
            minibatch_size=256,
            learning_rate=1e-3,
            gae_lambda=0.95,
            gradient_clip=0.5,
        ),
        name="cartpole",
        trajectory=TrajectoryConfig(sample_steps=32),
        actor=ActorConfig(count=1, envs_per_member=32),
        trainer=TrainerConfig(batch_size=32, checkpoint_seconds=20.0),
        evaluation=EvaluationConfig(interval_seconds=5.0, final=True, episodes=20),
        budget=BudgetConfig(env_steps=300_000, target_return=490.0),
    )


def stateless_cartpole() -> Experiment:
    """PPO with an LSTM on CartPole without velocities: only a memory can balance the pole."""
    return Experiment(
        environment=StatelessCartPoleConfig(),
        algorithm=PPOConfig(
            network=NetworkConfig(hidden=(64,), recurrent="lstm", recurrent_size=64, separate_critic=True),
            popart=True,
            popart_beta=0.99,
            epochs=4,
            minibatch_size=512,
            chunk_steps=32,
            learning_rate=1e-3,
            gae_lambda=0.95,
            gradient_clip=0.5,
        ),
        name="stateless-cartpole",
        trajectory=TrajectoryConfig(sample_steps=64),
        actor=ActorConfig(count=1, envs_per_member=32),
        trainer=TrainerConfig(batch_size=32, checkpoint_seconds=20.0),
        evaluation=EvaluationConfig(interval_seconds=15.0, final=True, episodes=20),
        budget=BudgetConfig(env_steps=1_500_000, target_return=480.0),
    )


def pendulum() -> Experiment:
    """PPO on Pendulum, whose action is continuous: swing up and stay there."""
    return Experiment(
        environment=GymnasiumConfig(env_id="Pendulum-v1"),
        algorithm=PPOConfig(
            gamma=0.95,
            gae_lambda=0.95,
            epochs=10,
            minibatch_size=256,
            learning_rate=1e-3,
            entropy_coefficient=0.0,
            popart=True,
            popart_beta=0.99,
            gradient_clip=0.5,
        ),
        name="pendulum",
        trajectory=TrajectoryConfig(sample_steps=64),
        actor=ActorConfig(count=1, envs_per_member=16),
        trainer=TrainerConfig(batch_size=16, checkpoint_seconds=20.0),
        evaluation=EvaluationConfig(interval_seconds=15.0, final=True, episodes=20),
        budget=BudgetConfig(env_steps=400_000),
    )
