"""The little that contracts compute."""

from __future__ import annotations

import numpy as np
import pytest

from srl_core.api import ActionSpec, EnvironmentSpec, PolicySpec, SampleBatch, SampleSpec
from srl_core.api.streams import concatenate, rows_of
from srl_core.base.arrays import ArraySpec

POLICY = PolicySpec(
    observation={"frame": ArraySpec((4, 2, 3), "uint8"), "x": ArraySpec((5,), "float32")},
    state={"h": ArraySpec((7,), "float32")},
    action=ArraySpec((2,), "int64"),
)


def test_actions_are_discrete_or_continuous() -> None:
    assert ActionSpec(nvec=(3, 4)).dims == 2
    assert ActionSpec(nvec=(3, 4)).dtype == "int64"
    assert ActionSpec(size=3).dims == 3
    assert not ActionSpec(size=3).discrete
    for wrong in ({}, {"nvec": (2,), "size": 1}):
        with pytest.raises(ValueError, match="not both or none"):
            ActionSpec(**wrong)  # type: ignore[arg-type]


def test_rows_are_environments_times_agents() -> None:
    assert EnvironmentSpec(3, ("a", "b"), {}, ActionSpec(nvec=(2,))).rows == 6


def test_requests_and_replies_carry_the_recurrent_state_and_the_noise() -> None:
    assert POLICY.request["noise"] == ArraySpec((2,), "float32")
    assert POLICY.request["state.h"] == POLICY.reply["state.h"] == ArraySpec((7,), "float32")
    assert POLICY.reply["version"].dtype == "int64"
    assert {"observation.frame", "observation.x", "first"} <= POLICY.request.keys()


def test_stacked_frames_travel_once() -> None:
    spec = SampleSpec.make(POLICY, sample_steps=6, bootstrap_steps=2, burn_in_steps=3, frame_stacks={"frame": 4})
    arrays = spec.empty(5)
    assert spec.length == 11
    assert arrays["observation.frame"].shape == (11 + 3, 5, 2, 3)
    assert arrays["observation.x"].shape == (11, 5, 5)
    whole = SampleSpec.make(POLICY, sample_steps=6).empty(5)
    assert whole["observation.frame"].shape == (7, 5, 4, 2, 3)
    with pytest.raises(ValueError, match="is said to stack 3 frames"):
        SampleSpec.make(POLICY, sample_steps=6, frame_stacks={"frame": 3})


def test_a_batch_counts_its_own_steps_only() -> None:
    spec = SampleSpec.make(POLICY, sample_steps=4, bootstrap_steps=1, burn_in_steps=2)
    arrays = spec.empty(3)
    arrays["env_steps"][:] = 0.5
    arrays["version"][:] = np.arange(7)[:, None]
    batch = SampleBatch(arrays, spec)
    assert batch.columns == 3
    assert batch.env_steps() == 4 * 3 * 0.5
    assert batch.oldest_version() == -1  # nothing is valid
    arrays["valid"][3:] = True
    assert batch.oldest_version() == 3  # neither the burn-in nor what is not valid counts
    assert batch.sample_part("version")[:, 0].tolist() == [2, 3, 4, 5]


def test_requests_are_joined_along_their_rows() -> None:
    parts = [{"a": np.full((n, 2), n)} for n in (1, 3)]
    joined = concatenate(parts)
    assert rows_of(joined) == 4
    assert joined["a"][:, 0].tolist() == [1, 3, 3, 3]
    assert rows_of({}) == 0
