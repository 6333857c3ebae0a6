"""The null environment counts what it says it counts."""

from __future__ import annotations

import time

import numpy as np
import pytest

from envs.null import NullConfig


@pytest.mark.parametrize("stacked", [False, True])
def test_numbers_stacks_and_episodes(stacked: bool) -> None:
    environment = NullConfig(shape=(3, 2, 4), frame_stack=stacked, agents=2, episode_steps=5).build(2, training=True)
    tick = environment.reset(1)
    steps = episodes = expected = 0
    for _ in range(13):
        environment.send(np.zeros((4, 1), np.int64))
        tick = environment.recv()
        expected = 0 if tick.first.any() else expected + 1
        frames = tick.observation["frame"].reshape(4, 3, 8).view(np.int64)[:, :, 0]
        newest = frames[:, -1] if stacked else frames[:, 0]
        assert (newest == expected).all()
        if stacked:
            np.testing.assert_array_equal(frames[0], np.maximum([expected - 2, expected - 1, expected], 0))
        steps += tick.env_steps
        episodes += len(tick.episodes)
        assert tick.truncated.all() == (expected == 5)
        assert (tick.active != tick.truncated).all()
    assert (steps, episodes) == (2 * 11, 2 * 2)


@pytest.mark.parametrize("kind", ["sleep", "compute"])
def test_a_step_takes_its_time(kind: str) -> None:
    environment = NullConfig(shape=(8,), step_seconds=0.02, step_kind=kind).build(1, training=True)  # type: ignore[arg-type]
    environment.reset(1)
    began, spent = time.perf_counter(), time.process_time()
    for _ in range(5):
        environment.send(np.zeros((1, 1), np.int64))
        environment.recv()
    assert time.perf_counter() - began >= 0.1
    # How much it computes is up to the machine, which others may use; one that sleeps takes next to nothing.
    assert (time.process_time() - spent > 0.01) == (kind == "compute")


def test_it_fails_when_told() -> None:
    environment = NullConfig(fail_after=3).build(1, training=True)
    environment.reset(1)
    environment.recv()
    environment.recv()
    with pytest.raises(RuntimeError, match="told to fail at step 3"):
        environment.recv()
