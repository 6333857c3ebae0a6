"""Every environment keeps the contract."""

from __future__ import annotations

import pytest

from envs.atari import AtariConfig
from envs.classic import CartPoleConfig, StatelessCartPoleConfig
from envs.gymnasium_vector import GymnasiumConfig
from envs.null import NullConfig
from envs.toy import BanditConfig, ChainConfig, CountingConfig, MemoryConfig, PointConfig
from envs.toy_agents import ScriptedAgentsConfig
from tests.envs.contract import check_vector_environment

SEEDED = {
    "bandit": BanditConfig(),
    "memory": MemoryConfig(),
    "point": PointConfig(dims=2),
    "pendulum": GymnasiumConfig("Pendulum-v1", max_episode_steps=20),
    "frozen_lake": GymnasiumConfig("FrozenLake-v1"),
    "cartpole": CartPoleConfig(),
    "stateless_cartpole": StatelessCartPoleConfig(),
}
"""Environments in which chance plays a part; new ones go here or below."""

DETERMINISTIC = {
    "chain": ChainConfig(max_steps=20),
    "counting_truncates": CountingConfig(steps=7, agents=3, frame_skip=4),
    "counting_terminates": CountingConfig(steps=7, end="terminate"),
    "counting_lives": CountingConfig(steps=11, life_steps=4),
    "scripted_agents": ScriptedAgentsConfig(),
    "null": NullConfig(shape=(2, 3, 3), agents=2, episode_steps=9),
    "null_stacked": NullConfig(shape=(4, 3, 3), frame_stack=True, episode_steps=9),
}


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("name", SEEDED)
def test_seeded(name: str, num_envs: int) -> None:
    check_vector_environment(SEEDED[name], num_envs)


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_deterministic(name: str, num_envs: int) -> None:
    check_vector_environment(DETERMINISTIC[name], num_envs, seeded=False)


@pytest.mark.parametrize("config", [AtariConfig("Breakout", max_frames=2000), AtariConfig("Pong", max_frames=400)])
def test_atari(config: AtariConfig) -> None:
    """Enough steps for lost lives in one game and truncation in the other."""
    pytest.importorskip("ale_py")
    check_vector_environment(config, 2, steps=300 if config.game == "Breakout" else 120)
