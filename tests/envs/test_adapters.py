"""Gymnasium's environments through the adapter: no step lost, none invented, whatever the autoreset mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from envs.adapters import EpisodeTracker, GymnasiumVector, MultiAgentVector
from envs.gymnasium_spaces import ActionCodec
from envs.gymnasium_vector import GymnasiumConfig
from envs.toy import CountingConfig, MemoryConfig, PointConfig
from srl_core.api import ActionSpec, EnvironmentConfig, StepResult, VectorEnvironment
from srl_core.base.arrays import ArraySpec
from srl_core.base.errors import UserError
from srl_core.base.seeding import derive_seed
from tests.envs.collect import collect
from tests.envs.contract import check_vector_environment, play
from tests.envs.gym_counter import Counter, Rich

ENDS = [(10, False), (7, True), (1, False), (3, True)]
"""Length of each environment's episodes, and whether they terminate (else they are truncated)."""
MODES = list(AutoresetMode)
KINDS = ["own", *MODES]


def counters(mode: AutoresetMode, ends=ENDS, kind=SyncVectorEnv, env=Counter, **kwargs) -> GymnasiumVector:
    return GymnasiumVector(kind([partial(env, *end) for end in ends], autoreset_mode=mode, **kwargs))


class OneAgent:
    """`Counter` as an environment of named agents."""

    def __init__(self, limit: int, terminates: bool) -> None:
        self._env = Counter(limit, terminates)
        self.agents: tuple[str, ...] = ("player",)
        self.observation = {"vector": ArraySpec((1,), "float32")}
        self.action = ActionSpec(nvec=(2,))

    def reset(self, seed: int) -> StepResult:
        return StepResult({"player": {"vector": self._env.reset(seed=seed)[0]}})

    def step(self, actions) -> StepResult:
        seen, reward, terminated, truncated, _ = self._env.step(actions["player"])
        one = {"player": {"vector": seen}}
        return StepResult(one, {"player": reward}, {"player": terminated}, {"player": truncated})

    def close(self) -> None: ...


def make(kind: str | AutoresetMode) -> VectorEnvironment:
    if isinstance(kind, AutoresetMode):
        return counters(kind)
    ends = iter(ENDS)
    return MultiAgentVector(lambda: OneAgent(*next(ends)), len(ENDS))


def expected_row(limit: int, terminates: bool, steps: int) -> list[tuple]:
    """The first `steps` steps of a row, written down from the definition."""
    row = []
    while len(row) < steps:
        for t in range(limit):
            last = t == limit - 1
            row.append(((float(t),), 1.0, last and terminates, last and not terminates, t == 0, True))
        row.append(((float(limit),), 0.0, False, False, False, False))  # the final observation, nobody acts on it
    return row[:steps]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_trajectories_do_not_depend_on_the_autoreset_mode(kind) -> None:
    environment = make(kind)
    got = collect(environment, 100)
    for row, (limit, terminates) in zip(got.rows, ENDS, strict=True):
        assert len(row) >= 95
        assert row == expected_row(limit, terminates, len(row))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_game_has_its_whole_return_and_length(kind) -> None:
    got = collect(make(kind), 100)
    per_game = 0 if kind in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED) else 1  # ticks that only reset
    for env, (limit, _) in enumerate(ENDS):
        games = [e for e in got.episodes if e.env == env]
        assert [(e.returns, e.length) for e in games] == [((float(limit),), limit)] * len(games)
        assert len(games) == (100 + per_game) // (limit + per_game)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_env_steps_are_those_the_environments_made(mode: AutoresetMode) -> None:
    environment = counters(mode)
    got = collect(environment, 57)
    assert got.env_steps == sum(environment._env.get_attr("total"))


@pytest.mark.integration
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_processes_of_gymnasium(mode: AutoresetMode) -> None:
    environment = counters(mode, kind=AsyncVectorEnv, ends=ENDS[:2])
    try:
        got = collect(environment, 40)
    finally:
        environment.close()
    for row, (limit, terminates) in zip(got.rows, ENDS[:2], strict=True):
        assert row == expected_row(limit, terminates, len(row))


@pytest.mark.parametrize("steps", [10, 12])
def test_lost_lives_are_not_ends_of_games(steps: int) -> None:
    environment = CountingConfig(steps=steps, life_steps=4).build(3, training=True)
    got = collect(environment, 60)
    assert got.episodes
    assert {(e.returns, e.length) for e in got.episodes} == {((float(steps),), steps)}
    ends = [step[0][0] for step in got.rows[0] if step[2]]
    assert ends[:2] == [3.0, 7.0]  # the actions that lost a life terminated the agent's episode
    if steps == 10:
        assert [step[0][0] for step in got.rows[0] if step[3]][:1] == [9.0]


def test_tracker_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    envs, agents = 4, 3
    tracker = EpisodeTracker(envs, agents)
    sums, lengths = np.zeros((envs, agents)), np.zeros(envs, int)
    for step in range(200):
        reward = rng.normal(size=envs * agents).astype(np.float32)
        stepped = rng.random(envs) < 0.8
        over = stepped & (rng.random(envs) < 0.2)
        got = tracker.update(reward, stepped, over, lambda env: {"env": float(env)})
        for env in range(envs):
            if stepped[env]:
                sums[env] += reward[env * agents : (env + 1) * agents]
                lengths[env] += 1
        assert [e.env for e in got] == [env for env in range(envs) if over[env]]
        for end in got:
            np.testing.assert_allclose(end.returns, sums[end.env])
            assert end.length == lengths[end.env]
            assert end.info == {"env": end.env}
            sums[end.env], lengths[end.env] = 0, 0
        if step == 100:
            saved = tracker.state_dict()
            tracker = EpisodeTracker(envs, agents)
            tracker.load_state_dict(saved)


@dataclass(frozen=True)
class ModeConfig(EnvironmentConfig):
    """A registered environment in a given autoreset mode, or as its own vector environment."""

    env_id: str
    mode: AutoresetMode | None

    def build(self, num_envs: int, *, training: bool) -> VectorEnvironment:
        if self.mode is None:
            return GymnasiumVector(gymnasium.make_vec(self.env_id, num_envs, vectorization_mode="vector_entry_point"))
        make = partial(gymnasium.make, self.env_id)
        return GymnasiumVector(SyncVectorEnv([make] * num_envs, copy=False, autoreset_mode=self.mode))


@pytest.mark.parametrize("mode", [None, *MODES], ids=str)
def test_contract_in_every_mode(mode: AutoresetMode | None) -> None:
    check_vector_environment(ModeConfig("CartPole-v1", mode), 3, steps=100)


def test_pendulum_is_gymnasiums_pendulum() -> None:
    """Observations and rewards equal those of the bare environments with the derived seeds."""
    environment = GymnasiumConfig("Pendulum-v1", max_episode_steps=15, kwargs='{"g": 5.0}').build(2, training=True)
    tick = environment.reset(3)
    bare = [gymnasium.make("Pendulum-v1", max_episode_steps=15, g=5.0) for _ in range(2)]
    seen = [e.reset(seed=derive_seed(3, "environment", i))[0] for i, e in enumerate(bare)]
    np.testing.assert_array_equal(tick.observation["vector"], seen)
    rng = np.random.default_rng(0)
    for step in range(40):
        actions = rng.normal(size=(2, 1)).astype(np.float32)
        environment.send(actions)
        tick = environment.recv()
        if step % 16 == 15:
            seen, reward = [e.reset()[0] for e in bare], [0, 0]
        else:
            torque = 2 * np.clip(actions, -1, 1)
            seen, reward, *_ = zip(*[e.step(a) for e, a in zip(bare, torque, strict=True)], strict=True)
        np.testing.assert_array_equal(tick.observation["vector"], seen)
        np.testing.assert_allclose(tick.reward, np.array(reward, np.float32))
        assert tick.truncated.tolist() == [step % 16 == 14] * 2


BUILDERS: dict[str, Callable[[int], VectorEnvironment]] = {
    "pendulum": lambda n: GymnasiumConfig("Pendulum-v1", max_episode_steps=6).build(n, training=True),
    "memory": lambda n: MemoryConfig().build(n, training=True),
    "point": lambda n: PointConfig(dims=2).build(n, training=True),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_an_environments_stream_does_not_depend_on_how_many_there_are(name: str) -> None:
    histories = []
    for n in (2, 5):
        environment = BUILDERS[name](n)
        tick = environment.reset(8)
        seen = [tick.observation["vector"].copy()]
        for _ in range(30):
            environment.send(np.zeros((n, environment.spec.action.dims), environment.spec.action.dtype))
            seen.append(environment.recv().observation["vector"].copy())
        histories.append(np.array(seen))
    np.testing.assert_array_equal(histories[0], histories[1][:, :2])
    assert not np.array_equal(histories[1][:, 2], histories[1][:, 3])


def test_actions_in_the_space_s_own_terms() -> None:
    box = ActionCodec(spaces.Box(np.array([[-2, 0], [1, -1]]), np.array([[2, 10], [3, 1]]), dtype=np.float32))
    assert box.spec == ActionSpec(size=4)
    got = box.decode(np.array([[-1, -1, -1, -1], [0, 0, 0, 0], [9, 1, 0.5, -9]], np.float32))
    np.testing.assert_allclose(got, [[[-2, 0], [1, -1]], [[0, 5], [2, 0]], [[2, 10], [2.5, -1]]])
    assert got.dtype == np.float32
    discrete = ActionCodec(spaces.Discrete(3, start=-1))
    assert discrete.spec == ActionSpec(nvec=(3,))
    assert discrete.decode(np.array([[0], [2]])).tolist() == [-1, 1]
    multi = ActionCodec(spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[0, 1], [0, 0]])))
    assert multi.spec == ActionSpec(nvec=(2, 3, 4, 5))
    assert multi.decode(np.array([[1, 2, 3, 4]])).tolist() == [[[1, 3], [3, 4]]]
    binary = ActionCodec(spaces.MultiBinary(3))
    assert binary.spec == ActionSpec(nvec=(2, 2, 2))
    assert binary.decode(np.array([[1, 0, 1]])).tolist() == [[1, 0, 1]]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_dict_observations_with_images_and_masks(mode: AutoresetMode) -> None:
    environment = counters(mode, [(4, True), (6, False)], env=Rich)
    assert environment.spec.observation == {
        "action_mask": ArraySpec((2,), "bool"),
        "camera": ArraySpec((3, 6, 8), "uint8"),
        "inner.exact": ArraySpec((1,), "float32"),
        "inner.which": ArraySpec((5,), "float32"),
    }
    tick = environment.reset(0)
    finals = 0
    for _ in range(30):
        seen = [(row, {n: a[row] for n, a in tick.observation.items()}) for row in range(2)]
        for place, row in enumerate([] if tick.final_rows is None else tick.final_rows):
            assert tick.final_observation is not None
            final = {n: a[place] for n, a in tick.final_observation.items()}
            assert final["inner.exact"][0] == np.float32([4 / 3, 2][row])
            finals += 1
            seen.append((row, final))
        for _, one in seen:
            n = round(float(one["inner.exact"][0]) * 3)
            camera = (np.arange(6 * 8 * 3).reshape(6, 8, 3) + n).astype(np.uint8).transpose(2, 0, 1)
            np.testing.assert_array_equal(one["camera"], camera)
            assert one["inner.which"].tolist() == np.eye(5)[n % 5].tolist()
            assert one["action_mask"].tolist() == [True, n % 2 == 1]
        environment.send(np.zeros((2, 1), np.int64))
        tick = environment.recv()
    assert (finals > 0) == (mode is not AutoresetMode.NEXT_STEP)


def test_names_of_plain_observations() -> None:
    vector = GymnasiumConfig("FrozenLake-v1").build(2, training=True)
    assert vector.spec.observation == {"vector": ArraySpec((16,), "float32")}
    ticks = play(vector, vector.reset(0), 20, np.random.default_rng(0))
    assert all((t.observation["vector"].sum(1) == 1).all() for t in ticks)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (GymnasiumConfig("Pendulm-v1"), "env_id is 'Pendulm-v1'"),
        (GymnasiumConfig("Pendulum-v1", kwargs="[1]"), r"kwargs is '\[1\]'; it must be a JSON object"),
        (GymnasiumConfig("Pendulum-v1", kwargs="{g: 1}"), "kwargs is .*JSON object"),
        (GymnasiumConfig("Pendulum-v1", kwargs='{"gravity": 1}'), "kwargs is .*gravity"),
        (GymnasiumConfig("Pendulum-v1", max_episode_steps=-1), "max_episode_steps is -1"),
        (GymnasiumConfig("Blackjack-v1"), "observation space .* is Tuple"),
    ],
)
def test_bad_configurations_are_named(config: GymnasiumConfig, message: str) -> None:
    with pytest.raises(UserError, match=message):
        config.build(2, training=True)


def test_unusable_vectors_are_refused() -> None:
    with pytest.raises(UserError, match="finite bounds"):
        ActionCodec(spaces.Box(-np.inf, np.inf, (2,)))
    vector = SyncVectorEnv([partial(Counter, 3, True)])
    del vector.metadata["autoreset_mode"]
    with pytest.raises(UserError, match="autoreset_mode"):
        GymnasiumVector(vector)
