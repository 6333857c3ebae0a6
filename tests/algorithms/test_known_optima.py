"""PPO reaches optima that are known in closed form, through the deterministic launcher."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envs.toy import BanditConfig, ChainConfig, MemoryConfig
from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.api import EnvironmentConfig
from srl_core.config import ActorConfig, BudgetConfig, EvaluationConfig, Experiment, TrainerConfig, TrajectoryConfig
from srl_core.launchers import run_experiment
from srl_core.networks.config import NetworkConfig
from srl_core.services.metrics import read_records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # seconds, but for a machine that others use too

PPO = PPOConfig(
    network=NetworkConfig(hidden=(32,)),
    gamma=0.95,
    gae_lambda=0.9,
    learning_rate=5e-3,
    entropy_coefficient=0.01,
    epochs=4,
    minibatch_size=128,
)
LSTM = replace(PPO, network=NetworkConfig(hidden=(32,), recurrent="lstm", recurrent_size=32), chunk_steps=16)


def final_return(environment: EnvironmentConfig, algorithm: PPOConfig, updates: int, path: Path) -> float:
    """Mean return of greedy games after training."""
    experiment = Experiment(
        environment,
        algorithm,
        trajectory=TrajectoryConfig(sample_steps=16),
        actor=ActorConfig(count=1, envs_per_member=32),
        trainer=TrainerConfig(batch_size=32, checkpoint_seconds=600),
        evaluation=EvaluationConfig(final=True, episodes=400, envs=100, greedy=True),
        budget=BudgetConfig(updates=updates),
    )
    run_experiment(experiment, path, launcher="inline")
    return list(read_records(path / "metrics.jsonl", "evaluation"))[-1]["return_mean"]


def test_chain(tmp_path: Path) -> None:
    assert final_return(ChainConfig(states=5), PPO, 40, tmp_path / "run") == 1.0


def test_bandit_with_illegal_actions(tmp_path: Path) -> None:
    environment = BanditConfig()
    found = final_return(environment, PPO, 60, tmp_path / "run")
    assert found == pytest.approx(environment.optimal_return(), abs=0.06)  # over the masks of 400 games: 3 deviations


def test_memory_is_solved_with_a_recurrent_network_alone(tmp_path: Path) -> None:
    environment = MemoryConfig(symbols=3, delay=3)
    assert final_return(environment, LSTM, 120, tmp_path / "lstm") == 1.0
    assert final_return(environment, PPO, 60, tmp_path / "mlp") < 0.6  # 1 / 3 without memory
