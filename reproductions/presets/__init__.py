"""Presets: plain functions that return an experiment, by the name that `srl run` takes.

The first line of a function's docstring is what `srl list` shows.
"""

from srl_core.base.registry import Registry

PRESETS = Registry(
    "preset",
    {
        "cartpole": "reproductions.presets.classic:cartpole",
        "pendulum": "reproductions.presets.classic:pendulum",
        "pong": "reproductions.presets.atari:pong",
        "stateless-cartpole": "reproductions.presets.classic:stateless_cartpole",
    },
)
