"""Returns and lengths of whole games, for vectors of environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from srl_core.api import EpisodeEnd


class EpisodeTracker:
    """Adds up each agent's undiscounted reward and each environment's steps until its game is over.

    A game is over when its adapter says so: a lost life, or an agent that ends before the others, is no end of a game.
    """

    def __init__(self, num_envs: int, agents: int = 1) -> None:
        self._returns = np.zeros((num_envs, agents))
        self._lengths = np.zeros(num_envs, np.int64)

    def reset(self) -> None:
        """Forget the unfinished games."""
        self._returns[:] = 0
        self._lengths[:] = 0

    def update(
        self,
        reward: np.ndarray,
        stepped: np.ndarray,
        over: np.ndarray,
        info: Callable[[int], Mapping[str, float]] | None = None,
    ) -> list[EpisodeEnd]:
        """Take one tick into account and return the games that it ended.

        `reward` [E * A], unshaped, as the environment gave it; `stepped` bool [E]: the environment made an env step in
        this tick (it was not just reset); `over` bool [E]: its game ended with this step; `info(env)`: further numbers
        of a game that ended.
        """
        self._returns += reward.reshape(self._returns.shape) * stepped[:, None]
        self._lengths += stepped
        if not over.any():
            return []
        ends = [
            EpisodeEnd(env, tuple(self._returns[env].tolist()), int(self._lengths[env]), info(env) if info else {})
            for env in np.flatnonzero(over).tolist()
        ]
        self._returns[over] = 0
        self._lengths[over] = 0
        return ends

    def state_dict(self) -> dict[str, Any]:
        """The unfinished games."""
        return {"returns": self._returns.copy(), "lengths": self._lengths.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._returns[...] = state["returns"]
        self._lengths[...] = state["lengths"]
