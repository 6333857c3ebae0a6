"""CartPole against Gymnasium's."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from envs.classic import CartPoleConfig, StatelessCartPoleConfig
from srl_core.base.errors import UserError


def test_physics_rewards_and_ends_are_gymnasiums() -> None:
    ours = CartPoleConfig(max_steps=40).build(3, training=True)
    tick = ours.reset(7)
    rng = np.random.default_rng(0)
    plain = [gymnasium.make("CartPole-v1", max_episode_steps=40) for _ in range(3)]
    length = np.zeros(3, int)
    ended = 0
    for step in range(400):
        for i in np.flatnonzero(tick.first):
            plain[i].reset(seed=0)
            plain[i].unwrapped.state = ours.state_dict()["state"][i]  # type: ignore[attr-defined]
            length[i] = 0
        actions = np.where(rng.random((3, 1)) < 0.1, rng.integers(0, 2, (3, 1)), step % 2)
        playing = tick.active
        ours.send(actions)
        tick = ours.recv()
        finished = {e.env: e for e in tick.episodes}
        for i in np.flatnonzero(playing):
            observation, reward, terminated, truncated, _ = plain[i].step(int(actions[i, 0]))
            length[i] += 1
            np.testing.assert_allclose(tick.observation["vector"][i], observation, rtol=1e-6, atol=1e-7)
            assert (tick.reward[i], tick.terminated[i]) == (reward, terminated)
            assert tick.truncated[i] == (truncated and not terminated)
            if terminated or truncated:
                ended += 1
                assert finished[i].length == finished[i].returns[0] == length[i]
    assert ended > 10


def test_stateless_hides_the_velocities() -> None:
    whole, part = CartPoleConfig().build(4, training=True), StatelessCartPoleConfig().build(4, training=True)
    for environment in (whole, part):
        environment.reset(1)
        environment.send(np.ones((4, 1), np.int64))
    np.testing.assert_array_equal(whole.recv().observation["vector"][:, [0, 2]], part.recv().observation["vector"])


def test_bad_length_is_named() -> None:
    with pytest.raises(UserError, match=r"environment\.max_steps is 0"):
        CartPoleConfig(max_steps=0).build(1, training=True)
