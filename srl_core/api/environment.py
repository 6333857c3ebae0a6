"""Environments: the contract the actor uses (vectors of rows) and the one that authors write (dicts of agents).

The actor only ever sees a `VectorEnvironment`: E copies of an environment with A agents each, flattened to R = E * A
rows (row = env * A + agent), advanced together:

    tick = env.reset(seed)
    while True:
        env.send(policy(tick))      # starts the step; a native environment simulates meanwhile
        tick = env.recv()

Time has one convention, Gymnasium's next-step autoreset: the tick that ends an episode carries its final observation
(`terminated` or `truncated` set, `active` false: nobody acts on it), and the next tick carries the first observation of
the next episode (`first` set). The action sent for an inactive row is ignored. An environment that restarts within
the same tick instead gives the observations it skipped as `final_observation`, so that nothing is lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from srl_core.base.arrays import Arrays, Schema

ACTION_MASK = "action_mask"
"""Observation key of the legal actions: bool [R, sum(nvec)], the masks of all action dimensions one after another."""


@dataclass(frozen=True)
class ActionSpec:
    """Discrete (`nvec` of one or more dimensions) or continuous (`size` dimensions within `low`..`high`).

    Actions travel as int64 [R, len(nvec)] or float32 [R, size]: always two axes.
    """

    nvec: tuple[int, ...] = ()
    size: int = 0
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if bool(self.nvec) == bool(self.size):
            raise ValueError(f"an action is discrete (nvec) or continuous (size), not both or none: {self}")

    @property
    def discrete(self) -> bool:
        return bool(self.nvec)

    @property
    def dims(self) -> int:
        """Length of the action's last axis."""
        return len(self.nvec) or self.size

    @property
    def dtype(self) -> str:
        return "int64" if self.nvec else "float32"


@dataclass(frozen=True)
class EnvironmentSpec:
    """What an actor and a policy must know of a `VectorEnvironment` before it runs."""

    num_envs: int
    agents: tuple[str, ...]
    """Names of the A agents of one environment; routes match them by regular expression. All share the specs below."""
    observation: Schema
    """Per row, without leading axis; may include `action_mask`."""
    action: ActionSpec
    frame_skip: int = 1
    """Simulator frames in one env step."""
    frame_stacks: Mapping[str, int] = field(default_factory=dict)
    """Observation keys whose first axis is a stack of the k newest frames, oldest first; frames from before the
    episode's first observation are zero. Streams may send such a stack's newest frame alone."""

    @property
    def rows(self) -> int:
        return self.num_envs * len(self.agents)


@dataclass(frozen=True)
class EpisodeEnd:
    """A whole game that ended: never a life, never a clipped reward."""

    env: int
    """Index of the environment within its vector."""
    returns: tuple[float, ...]
    """Undiscounted return of each agent, of the unshaped reward."""
    length: int
    """Env steps."""
    info: Mapping[str, float] = field(default_factory=dict)
    """Further numbers, such as `win`."""


@dataclass
class Tick:
    """What one step of a `VectorEnvironment` brought. Its arrays stay as they are until the next `recv`.

    Rewards and flags answer the action sent last; after a reset they are zero.
    """

    observation: Arrays
    """[R, ...] each."""
    reward: np.ndarray
    """float32 [R], as trained on (shaped, clipped)."""
    terminated: np.ndarray
    """bool [R]: this tick ends the row's episode and no value follows."""
    truncated: np.ndarray
    """bool [R]: this tick cuts the row's episode and the value of its final observation follows."""
    active: np.ndarray
    """bool [R]: the agent acts on this observation. False on final observations and for absent agents."""
    first: np.ndarray
    """bool [R]: this observation begins an episode; recurrent state restarts."""
    env_steps: int = 0
    """Env steps made in this tick, all E environments together; a reset is none."""
    episodes: Sequence[EpisodeEnd] = ()
    final_observation: Arrays | None = None
    """Same-step autoreset only: [len(final_rows), ...] each, the final observations that `observation` skips."""
    final_rows: np.ndarray | None = None
    """Same-step autoreset only: the rows of `final_observation`."""


@runtime_checkable
class VectorEnvironment(Protocol):
    """E environments stepped together. See the module's docstring for the loop that uses it."""

    spec: EnvironmentSpec

    def reset(self, seed: int) -> Tick:
        """Start every environment anew; each derives its own seed from `seed` and its index."""
        ...

    def send(self, actions: np.ndarray) -> None:
        """Start one step; `actions` [R, dims] in the dtype of the action spec."""
        ...

    def recv(self) -> Tick:
        """Wait for the step and return what it brought."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Resumable(Protocol):
    """An environment whose exact state can be saved: what bit-exact resume asks for."""

    def state_dict(self) -> dict[str, Any]:
        """Arrays, numbers, strings and nested dicts or lists of them."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


@dataclass
class StepResult:
    """One agent-dict step of a `MultiAgentEnvironment`. An agent without an observation does not act next."""

    observations: dict[str, Mapping[str, np.ndarray]]
    rewards: dict[str, float] = field(default_factory=dict)
    terminated: dict[str, bool] = field(default_factory=dict)
    truncated: dict[str, bool] = field(default_factory=dict)
    info: dict[str, float] = field(default_factory=dict)
    """Numbers of the whole episode, read when it ends."""


class MultiAgentEnvironment(Protocol):
    """One environment of named agents, as authors write it; `envs.adapters` makes a `VectorEnvironment` of it.

    An episode is over when every agent that took part has terminated or truncated. An agent may end early, be absent
    for a while, and appear again later.
    """

    agents: tuple[str, ...]
    observation: Schema
    action: ActionSpec

    def reset(self, seed: int) -> StepResult: ...

    def step(self, actions: Mapping[str, np.ndarray]) -> StepResult:
        """`actions` [dims] for each agent whose observation came last."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class EnvironmentConfig(ABC):
    """Base of all environment configurations; `kind` is the name in the registry."""

    kind: ClassVar[str] = ""

    @abstractmethod
    def build(self, num_envs: int, *, training: bool) -> VectorEnvironment:
        """Make a vector of `num_envs` environments.

        `training` false is for evaluation: whole games, true rewards. Raises `UserError` where a package, a ROM or a
        game is missing.
        """
