"""Every value that cannot work is refused by name, and schedules are what their names say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from srl_core.algorithms.ppo.config import PPOConfig
from srl_core.base.errors import UserError
from srl_core.networks.config import NetworkConfig

BAD = [
    ("gamma", -0.1),
    ("gamma", 1.1),
    ("gamma", math.nan),
    ("gae_lambda", 1.5),
    ("gae_lambda", -1.0),
    ("popart_beta", 2.0),
    ("popart_beta", 1.0),
    ("clip", 0.0),
    ("clip", math.inf),
    ("dual_clip", 1.0),
    ("dual_clip", math.nan),
    ("value_clip", 0.0),
    ("value_clip", -1.0),
    ("huber_delta", 0.0),
    ("value_weight", -0.5),
    ("entropy_coefficient", -0.1),
    ("entropy_coefficient", math.nan),
    ("entropy_final", -0.1),
    ("entropy_schedule_steps", -1),
    ("learning_rate", 0.0),
    ("learning_rate", math.nan),
    ("learning_rate_final", -1.0),
    ("learning_rate_anneal_steps", -1),
    ("adam_eps", 0.0),
    ("weight_decay", -1e-6),
    ("gradient_clip", 0.0),
    ("epochs", 0),
    ("minibatch_size", 0),
    ("chunk_steps", 0),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_bad_value_is_named(name: str, value: float) -> None:
    with pytest.raises(UserError, match=rf"^algorithm\.{name} is {value}; it must"):
        replace(PPOConfig(), **{name: value}).validate(20, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entropy_schedule": "linear"}, r"entropy_schedule_steps is 0; it must be at least 1 for a linear"),
        (
            {"entropy_schedule": "exponential", "entropy_schedule_steps": 5},
            r"entropy_final is 0\.0; it must be above 0",
        ),
        ({"network": NetworkConfig(recurrent="lstm"), "chunk_steps": 3}, r"chunk_steps is 3; it must divide .* 20"),
        ({"network": NetworkConfig(recurrent="gru"), "minibatch_size": 9}, r"minibatch_size is 9; .* one chunk.* 10"),
        ({"network": NetworkConfig(hidden=(4, 0))}, r"network\.hidden is \[4, 0\]"),
        ({"network": NetworkConfig(recurrent_size=0)}, r"network\.recurrent_size is 0"),
    ],
)
def test_values_that_contradict_each_other_are_named(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(PPOConfig(), **changes).validate(20, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dual_clip": None, "value_clip": 0.2},
        {"gamma": 0.0, "gae_lambda": 1.0},
        {"chunk_steps": 3},  # feed-forward networks are not trained on chunks
        {"network": NetworkConfig(recurrent="lstm"), "chunk_steps": 20, "minibatch_size": 20},
    ],
)
def test_what_can_work_is_accepted(changes: dict) -> None:
    replace(PPOConfig(), **changes).validate(20, 0)


def test_schedules_begin_end_and_stay() -> None:
    config = PPOConfig(
        entropy_coefficient=0.08,
        entropy_final=0.02,
        entropy_schedule_steps=10,
        learning_rate=1e-3,
        learning_rate_final=1e-4,
        learning_rate_anneal_steps=10,
    )
    assert [config.entropy_at(step) for step in (0, 5, 10**6)] == [0.08, 0.08, 0.08]
    linear, exponential = (replace(config, entropy_schedule=kind) for kind in ("linear", "exponential"))
    assert [linear.entropy_at(step) for step in (0, 5, 10, 11)] == pytest.approx([0.08, 0.05, 0.02, 0.02])
    assert [exponential.entropy_at(step) for step in (0, 5, 10, 11)] == pytest.approx([0.08, 0.04, 0.02, 0.02])
    assert [config.learning_rate_at(step) for step in (0, 5, 10, 11)] == pytest.approx([1e-3, 5.5e-4, 1e-4, 1e-4])
    assert replace(config, learning_rate_anneal_steps=0).learning_rate_at(99) == 1e-3
