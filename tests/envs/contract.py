"""The environment contract as one function: what every `VectorEnvironment` must keep, whatever it simulates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from srl_core.api import EnvironmentConfig, EnvironmentSpec, Tick, VectorEnvironment
from srl_core.api.environment import ACTION_MASK, Resumable
from srl_core.base.arrays import check
from srl_core.base.seeding import generator

Play = list[Tick]


def random_actions(spec: EnvironmentSpec, tick: Tick, rng: np.random.Generator) -> np.ndarray:
    """Legal random actions [R, dims] in the action spec's dtype."""
    action = spec.action
    if not action.discrete:
        return rng.uniform(action.low, action.high, (spec.rows, action.size)).astype(np.float32)
    mask = tick.observation.get(ACTION_MASK)
    if mask is None:
        return rng.integers(0, action.nvec, (spec.rows, action.dims))
    parts = np.split(rng.random(mask.shape) * mask, np.cumsum(action.nvec)[:-1], axis=1)
    return np.stack([part.argmax(1) for part in parts], axis=1).astype(np.int64)  # a random one of the legal actions


def copy_tick(tick: Tick) -> Tick:
    """A copy that later steps cannot change."""
    arrays = {name: np.array(getattr(tick, name)) for name in ("reward", "terminated", "truncated", "active", "first")}
    return replace(tick, observation={name: np.array(a) for name, a in tick.observation.items()}, **arrays)


def assert_same(a: Tick, b: Tick) -> None:
    """Equal bit for bit."""
    assert a.observation.keys() == b.observation.keys()
    for name in a.observation:
        np.testing.assert_array_equal(a.observation[name], b.observation[name], err_msg=name)
    for name in ("reward", "terminated", "truncated", "active", "first"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert a.env_steps == b.env_steps
    assert list(a.episodes) == list(b.episodes)


def play(environment: VectorEnvironment, tick: Tick, steps: int, rng: np.random.Generator) -> Play:
    """Copies of the ticks of `steps` random steps that follow `tick`."""
    ticks = []
    for _ in range(steps):
        environment.send(random_actions(environment.spec, tick, rng))
        tick = environment.recv()
        ticks.append(copy_tick(tick))
    return ticks


def check_vector_environment(
    config: EnvironmentConfig,
    num_envs: int,
    *,
    steps: int = 60,
    seeded: bool = True,
    games: bool = True,
) -> None:
    """Play `steps` random steps and assert the contract.

    `seeded`: different seeds differ (not so for a deterministic environment); `games`: at least one whole game must end
    within `steps`, for otherwise much of the contract goes unchecked.
    """
    environment = config.build(num_envs, training=True)
    try:
        ticks = _check_steps(environment, num_envs, steps)
        assert not games or any(tick.episodes for tick in ticks), f"no game ended within {steps} steps"
        _check_seeds(environment, ticks, seeded)
        if isinstance(environment, Resumable):
            _check_resume(config, environment, num_envs, steps)
    finally:
        environment.close()


def _check_arrays(spec: EnvironmentSpec, tick: Tick) -> None:
    check(tick.observation, spec.observation, (spec.rows,))
    assert tick.reward.dtype == np.float32
    for name in ("reward", "terminated", "truncated", "active", "first"):
        array = getattr(tick, name)
        assert array.shape == (spec.rows,), name
        assert name == "reward" or array.dtype == np.bool_, name
    assert not (tick.terminated & tick.truncated).any(), "an episode ends in one way"


def _check_steps(environment: VectorEnvironment, num_envs: int, steps: int) -> Play:
    """The flags and counts of every tick; returns copies of all ticks, the reset's first."""
    spec = environment.spec
    agents = len(spec.agents)
    assert spec.num_envs == num_envs
    rng = generator(0, "actions")
    tick = environment.reset(11)
    _check_arrays(spec, tick)
    assert tick.env_steps == 0
    assert not tick.reward.any()
    assert not (tick.terminated | tick.truncated).any()
    np.testing.assert_array_equal(tick.active, tick.first)
    assert tick.active.reshape(num_envs, agents).any(1).all()
    running = tick.first.copy()  # rows within an episode
    lengths = np.zeros(num_envs, np.int64)
    ticks = [copy_tick(tick)]
    for _ in range(steps):
        before = ticks[-1]
        actions = random_actions(spec, tick, rng)
        environment.send(actions)
        assert_same(tick, before)  # nothing changes until recv
        tick = environment.recv()
        _check_arrays(spec, tick)
        ended = tick.terminated | tick.truncated
        assert not (ended & ~running).any(), "an episode ended that had not begun"
        skipped = tick.final_rows is not None
        if tick.final_rows is not None:
            assert tick.final_observation is not None
            np.testing.assert_array_equal(np.flatnonzero(ended), tick.final_rows)
            check(tick.final_observation, spec.observation, (len(tick.final_rows),))
        else:
            assert not (tick.active & ended).any(), "nobody acts on a final observation"
            assert not (tick.first & ended).any(), "a final observation does not begin an episode"
        _check_stacks(spec, before, tick)
        continues = running & ~ended
        assert not (tick.first & continues).any(), "an episode began within another"
        np.testing.assert_array_equal(tick.active & ~continues, tick.first & tick.active)
        running = continues | tick.first
        assert not (tick.active & ~running).any()
        # Environments in which nobody took an action, because the game was over, were reset and made no step.
        over = np.zeros(num_envs, bool)
        over[[e.env for e in before.episodes]] = before.final_rows is None
        stepped = ~over
        rows_over = np.repeat(over, agents)
        assert not tick.reward[rows_over].any(), "a reset pays nothing"
        assert (tick.first | ~tick.active)[rows_over].all(), "a game began without `first`"
        assert tick.first.reshape(num_envs, agents)[over].any(1).all()
        assert tick.env_steps <= stepped.sum()
        if agents == 1:  # a row that did not act made no step, unless the game runs on without it
            assert tick.env_steps >= before.active.sum()
        lengths += stepped
        for episode in tick.episodes:
            assert len(episode.returns) == agents
            assert 0 < episode.length <= lengths[episode.env]
            lengths[episode.env] = 0
            rows = slice(episode.env * agents, (episode.env + 1) * agents)
            assert ended[rows].any(), "a game ended but no agent's episode did"
            assert skipped or not tick.active[rows].any()
        ticks.append(copy_tick(tick))
    return ticks


def _check_stacks(spec: EnvironmentSpec, before: Tick, tick: Tick) -> None:
    """A stack moves on by one frame, and holds nothing from before the episode's first observation."""
    goes_on = before.active & ~tick.first
    for name in spec.frame_stacks:
        old, new = before.observation[name], tick.observation[name]
        np.testing.assert_array_equal(new[goes_on, :-1], old[goes_on, 1:])
        assert not new[tick.first, :-1].any(), "frames of an earlier episode in the stack"


def _check_seeds(environment: VectorEnvironment, ticks: Play, seeded: bool) -> None:
    steps = len(ticks) - 1
    tick = environment.reset(11)
    assert_same(copy_tick(tick), ticks[0])
    for a, b in zip(play(environment, tick, steps, generator(0, "actions")), ticks[1:], strict=True):
        assert_same(a, b)
    tick = environment.reset(12)
    other = [copy_tick(tick), *play(environment, tick, steps, generator(0, "actions"))]
    differs = any(
        not np.array_equal(a.observation[name], b.observation[name])
        for a, b in zip(ticks, other, strict=True)
        for name in a.observation
    )
    assert differs or not seeded, "seeds 11 and 12 give the same observations"


def _check_resume(config: EnvironmentConfig, environment: VectorEnvironment, num_envs: int, steps: int) -> None:
    """A fresh environment goes on exactly where a saved one was, between `send` and `recv`."""
    assert isinstance(environment, Resumable)
    rng = generator(1, "actions")
    tick = environment.reset(13)
    for _ in range(steps // 2):
        environment.send(random_actions(environment.spec, tick, rng))
        tick = environment.recv()
    environment.send(random_actions(environment.spec, tick, rng))
    saved = environment.state_dict()
    other = config.build(num_envs, training=True)
    assert isinstance(other, Resumable)
    try:
        other.reset(99)
        tick = copy_tick(environment.recv())
        expected = play(environment, tick, steps, generator(2, "actions"))
        other.load_state_dict(saved)
        resumed = copy_tick(other.recv())
        assert_same(resumed, tick)
        for a, b in zip(play(other, resumed, steps, generator(2, "actions")), expected, strict=True):
            assert_same(a, b)
    finally:
        other.close()
