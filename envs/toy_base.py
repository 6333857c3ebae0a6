"""What the small environments with known answers share: random numbers, restarts, ticks and exact resume."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from envs.episodes import EpisodeTracker
from srl_core.api import ActionSpec, EnvironmentSpec, Tick
from srl_core.base.arrays import Arrays, Schema
from srl_core.base.errors import UserError
from srl_core.base.seeding import derive_seed

GOLDEN = 0x9E3779B97F4A7C15


def uniform(seeds: np.ndarray, games: np.ndarray, count: int) -> np.ndarray:
    """Random numbers [n, count] in [0, 1), a function of `seeds` and `games` (int64 [n] each) alone.

    The output function of SplitMix64 (Steele, Lea and Flood 2014) on two rounds of counters.
    """
    x = _mix(seeds.astype(np.uint64) * np.uint64(GOLDEN) + games.astype(np.uint64))
    counters = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return (_mix(x[:, None] + counters) >> np.uint64(11)) * 2.0**-53


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def require(field: str, value: float, least: float) -> None:
    """Raise `UserError` where a configuration's number is too small."""
    if value < least:
        raise UserError(f"environment.{field} is {value}; it must be at least {least}")


class ToyVector(ABC):
    """E environments in NumPy, all agents of one in step. A subclass keeps its state in `state` and says how it moves.

    `state` holds arrays [E, ...], all of which are saved; `age` [E] is the number of steps in the game.
    """

    random_numbers = 0
    """Random numbers that a game needs at its start."""

    def __init__(
        self,
        num_envs: int,
        observation: Schema,
        action: ActionSpec,
        *,
        agents: tuple[str, ...] = ("player",),
        frame_skip: int = 1,
    ) -> None:
        self.spec = EnvironmentSpec(num_envs, agents, observation, action, frame_skip)
        self.age = np.zeros(num_envs, np.int64)
        self.state: Arrays = {}
        self._seeds = np.zeros(num_envs, np.int64)
        self._games = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, bool)
        self._paused = np.zeros(num_envs, bool)
        self._actions = np.zeros((self.spec.rows, action.dims), action.dtype)
        self._tracker = EpisodeTracker(num_envs, len(agents))

    @abstractmethod
    def begin(self, where: np.ndarray, random: np.ndarray) -> None:
        """Set the state of the environments `where` (indices [n]) to a game's start; `random` [n, random_numbers]."""

    @abstractmethod
    def advance(self, actions: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Make one step of the environments `moved` (bool [E]); `age` counts it already. `actions` [E, dims] are those
        of each one's first agent. Returns reward, terminated and truncated [E]; whatever they say elsewhere is ignored.
        """

    @abstractmethod
    def observe(self) -> Arrays:
        """New arrays [E, ...], the same for all agents of an environment."""

    def life_lost(self) -> np.ndarray | None:
        """Bool [E]: the last step ended the agents' episode, though not the game (None: never)."""
        return None

    def reset(self, seed: int) -> Tick:
        n = self.spec.num_envs
        self._seeds[:] = [derive_seed(seed, "environment", i) for i in range(n)]
        self._games[:] = 0
        self._over[:] = self._paused[:] = False
        self._tracker.reset()
        every, none = np.ones(n, bool), np.zeros(n, bool)
        self._restart(every)
        return self._tick(np.zeros(n), none, none, first=every, stepped=none)

    def _restart(self, where: np.ndarray) -> None:
        envs = np.flatnonzero(where)
        if not len(envs):
            return
        self.age[envs] = 0
        self.begin(envs, uniform(self._seeds[envs], self._games[envs], self.random_numbers))
        self._games[envs] += 1

    def send(self, actions: np.ndarray) -> None:
        self._actions[...] = actions

    def recv(self) -> Tick:
        restarted, first = self._over, self._over | self._paused
        moved = ~first
        self.age += moved
        reward, terminated, truncated = self.advance(self._actions[:: len(self.spec.agents)], moved)
        terminated = terminated & moved
        truncated = truncated & moved & ~terminated
        self._over = terminated | truncated
        lost = self.life_lost()
        self._paused = np.zeros_like(moved) if lost is None else lost & moved & ~self._over
        self._restart(restarted)
        return self._tick(reward * moved, terminated | self._paused, truncated, first=first, stepped=moved)

    def _tick(
        self,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        *,
        first: np.ndarray,
        stepped: np.ndarray,
    ) -> Tick:
        agents = len(self.spec.agents)
        return Tick(
            {name: _spread(array, agents) for name, array in self.observe().items()},
            _spread(reward.astype(np.float32), agents),
            _spread(terminated, agents),
            _spread(truncated, agents),
            _spread(~(terminated | truncated), agents),
            _spread(first, agents),
            env_steps=int(stepped.sum()),
            episodes=self._tracker.update(np.repeat(reward, agents), stepped, self._over),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that later ticks depend on, actions sent but not answered included."""
        arrays = {
            "age": self.age,
            "seeds": self._seeds,
            "games": self._games,
            "over": self._over,
            "paused": self._paused,
            "actions": self._actions,
        }
        return {
            **{name: array.copy() for name, array in arrays.items()},
            "state": {name: array.copy() for name, array in self.state.items()},
            "tracker": self._tracker.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.age[...] = state["age"]
        self._seeds[...] = state["seeds"]
        self._games[...] = state["games"]
        self._over = np.array(state["over"], bool)
        self._paused = np.array(state["paused"], bool)
        self._actions[...] = state["actions"]
        for name, array in self.state.items():
            array[...] = state["state"][name]
        self._tracker.load_state_dict(state["tracker"])

    def close(self) -> None:  # noqa: B027  # none of them holds anything
        """Nothing to close."""


def _spread(array: np.ndarray, agents: int) -> np.ndarray:
    """[E, ...] -> new array [E * agents, ...]."""
    return np.repeat(array, agents, axis=0)
