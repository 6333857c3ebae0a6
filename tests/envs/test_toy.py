"""The toy environments' optima, reached by the policies that are known to be optimal."""

from __future__ import annotations

import numpy as np
import pytest

from envs import ENVIRONMENTS
from envs.toy import BanditConfig, ChainConfig, CountingConfig, MemoryConfig, PointConfig
from envs.toy_base import uniform
from srl_core.api import EnvironmentConfig, EpisodeEnd, Tick
from srl_core.api.environment import ACTION_MASK
from srl_core.base.errors import UserError


def games(config: EnvironmentConfig, act, *, ticks: int, envs: int = 64) -> list[EpisodeEnd]:
    """The games of `ticks` steps in which `act(tick)` gives the actions."""
    environment = config.build(envs, training=True)
    tick: Tick = environment.reset(0)
    ended: list[EpisodeEnd] = []
    for _ in range(ticks):
        environment.send(np.asarray(act(tick), environment.spec.action.dtype).reshape(environment.spec.rows, -1))
        tick = environment.recv()
        ended += tick.episodes
    return ended


def mean_return(episodes: list[EpisodeEnd]) -> float:
    return float(np.mean([e.returns for e in episodes]))


def test_chain_value_is_the_discounted_return_of_going_right() -> None:
    config = ChainConfig(states=4, max_steps=9)
    environment = config.build(1, training=True)
    environment.reset(0)
    for state in range(4):
        seen, total, steps = np.eye(4)[state], 0.0, 0
        tick = environment.reset(0)
        for _ in range(state):
            environment.send(np.array([[1]]))
            tick = environment.recv()
        assert tick.observation["vector"][0].tolist() == seen.tolist()
        while not tick.terminated[0]:
            environment.send(np.array([[1]]))
            tick = environment.recv()
            total += 0.9**steps * tick.reward[0]
            steps += 1
        assert total == pytest.approx(config.optimal_value(state, 0.9))


def test_chain_is_truncated_where_nobody_goes_right() -> None:
    ended = games(ChainConfig(max_steps=9), lambda tick: np.zeros(64), ticks=40)
    assert {(e.returns, e.length) for e in ended} == {((0.0,), 9)}


def best_legal(tick: Tick) -> np.ndarray:
    mask = tick.observation[ACTION_MASK]
    return np.stack([2 - mask[:, 2::-1].argmax(1), 3 - mask[:, :2:-1].argmax(1)], 1)


def test_bandit_optimum() -> None:
    config = BanditConfig(choices=(3, 4))
    ended = games(config, best_legal, ticks=400)
    assert len(ended) == 200 * 64
    spread = np.sqrt((1 / 3 * 2 / 3 / 9 + 1 / 4 * 3 / 4 / 16) / len(ended))  # of a mean of two scaled Bernoullis
    assert mean_return(ended) == pytest.approx(config.optimal_return(), abs=5 * spread)
    assert config.optimal_return() == pytest.approx((3 + 3 + 2) / 9 + (4 + 4 + 4 + 3) / 16)


def test_bandit_refuses_illegal_actions() -> None:
    environment = BanditConfig().build(2, training=True)
    tick = environment.reset(0)
    mask = tick.observation[ACTION_MASK]
    assert (~mask[:, :3]).sum(1).tolist() == (~mask[:, 3:]).sum(1).tolist() == [1, 1]
    environment.send(np.stack([mask[:, :3].argmin(1), mask[:, 3:].argmax(1)], 1))
    with pytest.raises(ValueError, match="illegal"):
        environment.recv()


@pytest.mark.parametrize("delay", [0, 1, 5])
def test_memory_pays_for_remembering(delay: int) -> None:
    config = MemoryConfig(symbols=3, delay=delay)
    kept = np.zeros(64, np.int64)

    def remember(tick: Tick) -> np.ndarray:
        seen = tick.observation["vector"]
        kept[tick.first] = seen[tick.first, :3].argmax(1)
        if delay:
            assert not seen[~tick.first, :3].any()
            assert not seen[tick.first, 3].any()
        return kept

    ended = games(config, remember, ticks=60)
    assert {(e.returns, e.length) for e in ended} == {((1.0,), delay + 1)}
    guessed = games(config, lambda tick: np.ones(64), ticks=600)
    spread = np.sqrt(2 / 9 / len(guessed))
    assert mean_return(guessed) == pytest.approx(1 / 3, abs=5 * spread)


def test_point_optimum() -> None:
    config = PointConfig(dims=2, speed=0.3, steps=5)
    starts: list[np.ndarray] = []

    def straight(tick: Tick) -> np.ndarray:
        position = tick.observation["vector"]
        if tick.first.all():
            starts.append(position.copy())
        return -position / config.speed

    ended = games(config, straight, ticks=6 * 200)
    assert len(ended) == 200 * 64
    start = np.abs(np.concatenate(starts)[: len(ended)])
    expected = -sum(np.maximum(0, start - t * 0.3).sum(1) for t in range(1, 6))
    np.testing.assert_allclose([e.returns[0] for e in ended], expected, atol=1e-6)
    spread = expected.std() / np.sqrt(len(ended))
    assert config.optimal_return() == pytest.approx(expected.mean(), abs=5 * spread)


@pytest.mark.parametrize("end", ["terminate", "truncate"])
def test_counting(end) -> None:
    config = CountingConfig(steps=6, end=end, agents=2, frame_skip=4)
    environment = config.build(3, training=True)
    assert environment.spec.frame_skip == 4
    assert environment.spec.agents == ("player_0", "player_1")
    tick = environment.reset(0)
    total = 0
    for n in range(1, 29):
        environment.send(np.zeros((6, 1), np.int64))
        tick = environment.recv()
        total += tick.env_steps
        assert tick.observation["vector"].ravel().tolist() == [n % 7] * 6
        assert tick.terminated.all() == tick.terminated.any() == (n % 7 == 6 and end == "terminate")
        assert tick.truncated.all() == tick.truncated.any() == (n % 7 == 6 and end == "truncate")
        assert [(e.returns, e.length) for e in tick.episodes] == [((6.0, 6.0), 6)] * (3 * (n % 7 == 6))
    assert total == 3 * 4 * 6


def test_random_numbers_are_uniform_and_unrelated() -> None:
    n = 20_000
    numbers = uniform(np.full(n, 12345), np.arange(n), 2)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert ((counts - 2 * n / 20) ** 2 / (2 * n / 20)).sum() < 45  # chi-square, 19 degrees: 0.1 % beyond 43.8
    assert abs(np.corrcoef(numbers.T)[0, 1]) < 5 / np.sqrt(n)
    assert abs(np.corrcoef(numbers[1:, 0], numbers[:-1, 0])[0, 1]) < 5 / np.sqrt(n)
    other = uniform(np.full(n, 12346), np.arange(n), 2)
    assert abs(np.corrcoef(numbers[:, 0], other[:, 0])[0, 1]) < 5 / np.sqrt(n)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (ChainConfig(states=0), "states"),
        (BanditConfig(choices=(3, 1)), "choices"),
        (MemoryConfig(delay=-1), "delay"),
        (PointConfig(steps=0), "steps"),
        (CountingConfig(agents=0), "agents"),
    ],
)
def test_bad_fields_are_named(config: EnvironmentConfig, field: str) -> None:
    with pytest.raises(UserError, match=rf"environment\.{field} is .*must be at least"):
        config.build(1, training=True)


@pytest.mark.parametrize("name", ENVIRONMENTS.names())
def test_names_are_the_kinds(name: str) -> None:
    assert ENVIRONMENTS.get(name).kind == name
