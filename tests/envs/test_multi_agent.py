"""Agents that end at different times, are absent, and come back."""

from __future__ import annotations

import numpy as np
import pytest

from envs.multi_agent import MultiAgentVector
from envs.toy_agents import AGENTS, ScriptedAgents, ScriptedAgentsConfig
from srl_core.api import ActionSpec, StepResult
from srl_core.api.environment import ACTION_MASK
from srl_core.base.arrays import ArraySpec
from srl_core.base.errors import RunError
from srl_core.base.seeding import derive_seed
from tests.envs.collect import collect

GAME = 13
"""Ticks of a scripted game: 12 steps and the reset."""


def run(environment, ticks: int) -> list:
    seen = [environment.reset(0)]
    for _ in range(ticks):
        environment.send(np.zeros((environment.spec.rows, environment.spec.action.dims), np.int64))
        seen.append(environment.recv())
    return seen


def steps(name: str, parts: list[tuple[list[int], str, int]]) -> list[tuple]:
    """A row's steps, written down from the script: the acting times of each episode, how it ends, and when."""
    agent, row = float(AGENTS.index(name)), []
    for times, end, at in parts:
        for t in times:
            last = t == times[-1]
            # Acting on the observation made after t steps is paid by step t + 1, and by what comes until the next one.
            following = at if last else times[times.index(t) + 1]
            reward = float(sum(range(t + 1, following + 1)))
            first = t == times[0]
            row.append(((agent, float(t)), reward, last and end == "term", last and end == "trunc", first, True))
        row.append(((agent, float(at)), 0.0, False, False, False, False))
    return row


def test_one_trajectory_for_each_of_an_agents_episodes() -> None:
    games = 5
    got = collect(ScriptedAgentsConfig().build(2, training=True), games * GAME, sample_steps=1)
    expected = [
        steps("early", [([0, 1, 2], "term", 3), ([8, 9, 10, 11], "term", 12)]),
        steps("middle", [([0, 1, 3, 4], "trunc", 5)]),
        steps("late", [(list(range(8)), "term", 8)]),
    ]
    for row, history in enumerate(got.rows):
        want = expected[row % 3] * games
        assert len(want) - 1 <= len(history) <= len(want)  # the last step is still to be completed
        assert history == want[: len(history)]
    assert got.env_steps == 2 * games * 12 == sum(e.length for e in got.episodes)


def test_flags_of_every_tick() -> None:
    ticks = run(ScriptedAgentsConfig().build(1, training=True), 2 * GAME)
    acts = {0: [0, 1, 2, 8, 9, 10, 11], 1: [0, 1, 3, 4], 2: list(range(8))}
    for n, tick in enumerate(ticks):
        t = n % GAME
        assert tick.active.tolist() == [t in acts[row] for row in range(3)]
        assert tick.first.tolist() == [t in (0, 8), t == 0, t == 0]
        assert tick.terminated.tolist() == [t in (3, 12), False, t == 8]
        assert tick.truncated.tolist() == [False, t == 5, False]
        assert tick.env_steps == (0 if t == 0 else 1)
        absent = ~(tick.active | tick.terminated | tick.truncated)
        assert not tick.observation["vector"][absent].any()
        assert [e.length for e in tick.episodes] == ([12] if t == 12 else [])


def test_returns_are_of_the_whole_game() -> None:
    ticks = run(ScriptedAgentsConfig().build(2, training=True), 2 * GAME)
    episodes = [e for tick in ticks for e in tick.episodes]
    assert [e.env for e in episodes] == [0, 1, 0, 1]
    assert {(e.returns, e.length, e.info["steps"]) for e in episodes} == {((48.0, 15.0, 36.0), 12, 12.0)}


class Turns:
    """Two players take turns; a game's first step tells its seed, its last one pays both."""

    def __init__(self) -> None:
        self.agents: tuple[str, ...] = ("a", "b")
        self.observation = {"seed": ArraySpec((1,), "int64"), ACTION_MASK: ArraySpec((3,), "bool")}
        self.action = ActionSpec(nvec=(3,))
        self.seeds: list[int] = []
        self.taken: list[tuple[str, int]] = []

    def _see(self) -> dict[str, np.ndarray]:
        mask = np.arange(3) != self.turn % 3
        return {"seed": np.array([self.seeds[-1]]), ACTION_MASK: mask}

    def reset(self, seed: int) -> StepResult:
        self.seeds.append(seed)
        self.turn = 0
        return StepResult({"a": self._see()})

    def step(self, actions) -> StepResult:
        self.taken += [(name, int(action[0])) for name, action in actions.items()]
        self.turn += 1
        if self.turn < 4:
            return StepResult({"ab"[self.turn % 2]: self._see()})
        both = {"a": True, "b": True}
        return StepResult({"b": self._see()}, {"a": 1.0, "b": -1.0}, {"a": True}, {"b": True, "a": False} | both)

    def close(self) -> None:
        self.closed = True


def test_absent_players_keep_their_episode() -> None:
    made: list[Turns] = []

    def factory() -> Turns:
        made.append(Turns())
        return made[-1]

    environment = MultiAgentVector(factory, 2)
    tick = environment.reset(4)
    for turn in range(11):
        t = turn % 5
        if t < 4:
            assert tick.active.tolist() == [t % 2 == 0, t % 2 == 1] * 2
            assert tick.first.tolist() == [t == 0, t == 1] * 2
            row = t % 2
            assert tick.observation[ACTION_MASK][row].tolist() == [i != t % 3 for i in range(3)]
            assert not tick.observation[ACTION_MASK][1 - row].any()
            assert tick.observation["seed"][row, 0] == derive_seed(derive_seed(4, "environment", 0), "game", turn // 5)
        else:
            assert not tick.active.any()
            assert tick.terminated.tolist() == [True, False] * 2  # terminated wins over truncated
            assert tick.truncated.tolist() == [False, True] * 2
            assert tick.reward.tolist() == [1, -1, 1, -1]
            assert [(e.env, e.returns, e.length) for e in tick.episodes] == [(0, (1, -1), 4), (1, (1, -1), 4)]
        environment.send(np.array([[0], [1], [2], [0]]))
        tick = environment.recv()
    assert made[0].taken[:4] == [("a", 0), ("b", 1), ("a", 0), ("b", 1)]
    assert made[1].taken[:4] == [("a", 2), ("b", 0), ("a", 2), ("b", 0)]
    assert len(set(made[0].seeds + made[1].seeds)) == 6
    environment.close()
    assert all(e.closed for e in made)


class Broken(ScriptedAgents):
    """Returns what it is told to."""

    def __init__(self, result: StepResult) -> None:
        super().__init__()
        self.result = result

    def step(self, actions) -> StepResult:
        return self.result


SEEN = {"vector": np.zeros(2, np.float32)}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (StepResult({}, truncated={"late": True}), "'late' of environment 0 was truncated without a final observation"),
        (StepResult({"late": {"vec": np.zeros(2)}}), r"has the entries \['vec'\]; it must have \['vector'\]"),
        (StepResult({"nobody": SEEN}), "'nobody'.*early, middle, late"),
        (StepResult({}, {"nobody": 1.0}), "'nobody'.*early, middle, late"),
    ],
)
def test_an_environment_that_breaks_its_contract_is_told_so(result: StepResult, message: str) -> None:
    environment = MultiAgentVector(lambda: Broken(result), 1)
    environment.reset(0)
    environment.send(np.zeros((3, 1), np.int64))
    with pytest.raises(RunError, match=message):
        environment.recv()


def test_an_agent_cannot_end_twice() -> None:
    environment = MultiAgentVector(lambda: Broken(StepResult({"late": SEEN}, terminated={"early": True})), 1)
    environment.reset(0)
    environment.send(np.zeros((3, 1), np.int64))
    assert environment.recv().terminated.tolist() == [True, False, False]
    environment.send(np.zeros((3, 1), np.int64))
    with pytest.raises(RunError, match="'early' of environment 0 ended without having acted"):
        environment.recv()


def test_rewards_after_an_agents_end_count_for_the_game_alone() -> None:
    class Late(ScriptedAgents):
        def step(self, actions) -> StepResult:
            result = super().step(actions)
            result.rewards.setdefault("middle", 100.0)  # also in the steps in which it no longer plays
            return result

    ticks = run(MultiAgentVector(Late, 1), 12)
    assert sum(tick.reward[1] for tick in ticks) == 15
    assert ticks[-1].episodes[0].returns == (48, 15 + 700, 36)
