"""Environments: adapters, built-in classics, and small ones with known answers."""

from __future__ import annotations

from srl_core.base.registry import Registry

ENVIRONMENTS = Registry(
    "environment",
    {
        "atari": "envs.atari:AtariConfig",
        "cartpole": "envs.classic:CartPoleConfig",
        "stateless_cartpole": "envs.classic:StatelessCartPoleConfig",
        "null": "envs.null:NullConfig",
        "gymnasium": "envs.gymnasium_vector:GymnasiumConfig",
        "chain": "envs.toy:ChainConfig",
        "bandit": "envs.toy:BanditConfig",
        "memory": "envs.toy:MemoryConfig",
        "point": "envs.toy:PointConfig",
        "counting": "envs.toy:CountingConfig",
        "scripted_agents": "envs.toy_agents:ScriptedAgentsConfig",
    },
)
"""Name to configuration class; each is imported only when it is asked for."""
