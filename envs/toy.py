"""Small environments whose best possible result is known, for tests of adapters, algorithms and rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from envs.toy_base import ToyVector, require
from srl_core.api import ActionSpec, EnvironmentConfig
from srl_core.api.environment import ACTION_MASK
from srl_core.base.arrays import Arrays, ArraySpec


@dataclass(frozen=True)
class ChainConfig(EnvironmentConfig):
    """Walk to the right end of a chain: action 1 goes right, action 0 left, and only the last step right pays 1.

    From state s of n the optimal discounted value is discount ** (n - 1 - s); the optimal return is 1.
    """

    kind: ClassVar[str] = "chain"

    states: int = 5
    """States [states] of the chain; stepping right from the last one terminates the episode."""
    max_steps: int = 50
    """Length [env steps] at which an episode is truncated."""

    def optimal_value(self, state: int, discount: float) -> float:
        """Of a state 0 .. states - 1."""
        return discount ** (self.states - 1 - state)

    def build(self, num_envs: int, *, training: bool) -> ChainVector:
        require("states", self.states, 1)
        require("max_steps", self.max_steps, 1)
        return ChainVector(self, num_envs)


class ChainVector(ToyVector):
    """Observation: the state, one-hot float32 [states]."""

    def __init__(self, config: ChainConfig, num_envs: int) -> None:
        super().__init__(num_envs, {"vector": ArraySpec((config.states,), "float32")}, ActionSpec(nvec=(2,)))
        self._config = config
        self._one_hot = np.eye(config.states + 1, config.states, dtype=np.float32)
        self.state = {"position": np.zeros(num_envs, np.int64)}

    def begin(self, where: np.ndarray, random: np.ndarray) -> None:
        self.state["position"][where] = 0

    def advance(self, actions: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        position = self.state["position"]
        position[moved] = np.maximum(position + np.where(actions[:, 0] == 1, 1, -1), 0)[moved]
        done = position == self._config.states
        return done.astype(float), done, self.age >= self._config.max_steps

    def observe(self) -> Arrays:
        return {"vector": self._one_hot[self.state["position"]]}


@dataclass(frozen=True)
class BanditConfig(EnvironmentConfig):
    """One step with several discrete choices; in each, one action drawn at random is illegal.

    Action a of a dimension with n actions pays (a + 1) / n, so the best is the highest legal one, and the optimal
    return is sum over dimensions of 1 - 1 / n ** 2: the highest action is missing in one of n cases and costs 1 / n.
    An illegal action raises `ValueError`.
    """

    kind: ClassVar[str] = "bandit"

    choices: tuple[int, ...] = (3, 4)
    """Number of actions in each dimension, at least 2."""

    def optimal_return(self) -> float:
        """Expected over the masks."""
        return sum(1 - 1 / n**2 for n in self.choices)

    def build(self, num_envs: int, *, training: bool) -> BanditVector:
        require("choices", min(self.choices, default=0), 2)
        return BanditVector(self, num_envs)


class BanditVector(ToyVector):
    """Observations: a constant 1, and the mask."""

    def __init__(self, config: BanditConfig, num_envs: int) -> None:
        self._nvec = np.array(config.choices, np.int64)
        width = sum(config.choices)
        observation = {"vector": ArraySpec((1,), "float32"), ACTION_MASK: ArraySpec((width,), "bool")}
        super().__init__(num_envs, observation, ActionSpec(nvec=config.choices))
        self.random_numbers = len(config.choices)
        self._start: np.ndarray = np.cumsum(self._nvec) - self._nvec
        self.state = {"mask": np.ones((num_envs, width), bool)}

    def begin(self, where: np.ndarray, random: np.ndarray) -> None:
        illegal = self._start + (random * self._nvec).astype(np.int64)
        self.state["mask"][where] = True
        self.state["mask"][where[:, None], illegal] = False

    def advance(self, actions: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        legal = np.all(np.take_along_axis(self.state["mask"], self._start + actions, 1), axis=1, keepdims=True)[:, 0]
        if not legal[moved].all():
            env = int(np.flatnonzero(moved & ~legal)[0])
            raise ValueError(f"action {actions[env].tolist()} of environment {env} is illegal")
        return ((actions + 1) / self._nvec).sum(1), moved, np.zeros_like(moved)

    def observe(self) -> Arrays:
        mask = self.state["mask"]
        return {"vector": np.ones((len(mask), 1), np.float32), ACTION_MASK: mask}


@dataclass(frozen=True)
class MemoryConfig(EnvironmentConfig):
    """A symbol is shown at the first step and asked for `delay` steps later; naming it then pays 1.

    The optimal return is 1. Without memory the best is 1 / symbols.
    """

    kind: ClassVar[str] = "memory"

    symbols: int = 4
    """Number of symbols, and of actions."""
    delay: int = 4
    """Steps [env steps] from the symbol to the question; 0 asks at once."""

    def build(self, num_envs: int, *, training: bool) -> MemoryVector:
        require("symbols", self.symbols, 2)
        require("delay", self.delay, 0)
        return MemoryVector(self, num_envs)


class MemoryVector(ToyVector):
    """Observation float32 [symbols + 1]: the symbol one-hot at the first step, and whether it is asked for."""

    random_numbers = 1

    def __init__(self, config: MemoryConfig, num_envs: int) -> None:
        observation = {"vector": ArraySpec((config.symbols + 1,), "float32")}
        super().__init__(num_envs, observation, ActionSpec(nvec=(config.symbols,)))
        self._config = config
        self.state = {"symbol": np.zeros(num_envs, np.int64)}

    def begin(self, where: np.ndarray, random: np.ndarray) -> None:
        self.state["symbol"][where] = random[:, 0] * self._config.symbols

    def advance(self, actions: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        over = self.age > self._config.delay
        return (over & (actions[:, 0] == self.state["symbol"])).astype(float), over, np.zeros_like(moved)

    def observe(self) -> Arrays:
        vector = np.zeros((len(self.age), self._config.symbols + 1), np.float32)
        shown = np.flatnonzero(self.age == 0)
        vector[shown, self.state["symbol"][shown]] = 1
        vector[:, -1] = self.age == self._config.delay
        return {"vector": vector}


@dataclass(frozen=True)
class PointConfig(EnvironmentConfig):
    """Move a point to the origin; each step costs its distance, summed over the dimensions.

    The start is uniform in -1..1 in each dimension, and an action in -1..1 moves the point by `speed` times it. Going
    straight at full speed leaves max(0, |start| - t * speed) after t steps, and (1 - t * speed) ** 2 / 2 of it on
    average. So the optimal return is -dims * sum over t = 1..steps of max(0, 1 - t * speed) ** 2 / 2.
    """

    kind: ClassVar[str] = "point"

    dims: int = 1
    """Dimensions of the space."""
    speed: float = 0.25
    """Greatest movement in one step, in each dimension."""
    steps: int = 8
    """Length [env steps] at which an episode is truncated."""

    def optimal_return(self) -> float:
        """Expected over the starts."""
        return -self.dims * sum(max(0.0, 1 - t * self.speed) ** 2 / 2 for t in range(1, self.steps + 1))

    def build(self, num_envs: int, *, training: bool) -> PointVector:
        require("dims", self.dims, 1)
        require("steps", self.steps, 1)
        return PointVector(self, num_envs)


class PointVector(ToyVector):
    """Observation: the position, float32 [dims]."""

    def __init__(self, config: PointConfig, num_envs: int) -> None:
        super().__init__(num_envs, {"vector": ArraySpec((config.dims,), "float32")}, ActionSpec(size=config.dims))
        self._config = config
        self.random_numbers = config.dims
        self.state = {"position": np.zeros((num_envs, config.dims))}

    def begin(self, where: np.ndarray, random: np.ndarray) -> None:
        self.state["position"][where] = 2 * random - 1

    def advance(self, actions: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        position = self.state["position"]
        position[moved] += self._config.speed * np.clip(actions, -1, 1)[moved]
        return -np.abs(position).sum(1), np.zeros_like(moved), self.age >= self._config.steps

    def observe(self) -> Arrays:
        return {"vector": self.state["position"].astype(np.float32)}


@dataclass(frozen=True)
class CountingConfig(EnvironmentConfig):
    """Counts its steps and pays 1 for each, whatever the action: every return is `steps`.

    The value after t steps is the discounted sum of steps - t ones if the end terminates, and 1 / (1 - discount) if it
    truncates.
    """

    kind: ClassVar[str] = "counting"

    steps: int = 10
    """Length [env steps] of a game."""
    end: Literal["terminate", "truncate"] = "truncate"
    """How it ends."""
    life_steps: int = 0
    """Every so many steps [env steps] a life is lost: the episode terminates, but the game goes on. 0: never."""
    agents: int = 1
    """Agents [agents], which all see and get the same."""
    frame_skip: int = 1
    """Frames [frames] that one env step is said to be."""

    def build(self, num_envs: int, *, training: bool) -> CountingVector:
        require("steps", self.steps, 1)
        require("life_steps", self.life_steps, 0)
        require("agents", self.agents, 1)
        return CountingVector(self, num_envs)


class CountingVector(ToyVector):
    """Observation: the number of steps made, float32 [1]."""

    def __init__(self, config: CountingConfig, num_envs: int) -> None:
        super().__init__(
            num_envs,
            {"vector": ArraySpec((1,), "float32")},
            ActionSpec(nvec=(2,)),
            agents=("player",) if config.agents == 1 else tuple(f"player_{i}" for i in range(config.agents)),
            frame_skip=config.frame_skip,
        )
        self._config = config

    def begin(self, where: np.ndarray, random: np.ndarray) -> None:
        """The age is all the state there is."""

    def advance(self, actions: np.ndarray, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        over, never = self.age >= self._config.steps, np.zeros_like(moved)
        terminates = self._config.end == "terminate"
        return np.ones(len(over)), over if terminates else never, never if terminates else over

    def life_lost(self) -> np.ndarray | None:
        return self.age % self._config.life_steps == 0 if self._config.life_steps else None

    def observe(self) -> Arrays:
        return {"vector": self.age[:, None].astype(np.float32)}
