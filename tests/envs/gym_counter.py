"""Gymnasium environments of which every number is known."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Counter(gymnasium.Env):
    """Observes the number of steps made and pays 1 for each; ends after `limit` steps."""

    observation_space = spaces.Box(0, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, limit: int, terminates: bool) -> None:
        self.limit, self.terminates = limit, terminates
        self.count = self.total = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.count = 0
        return np.array([0], np.float32), {}

    def step(self, action):
        assert self.count < self.limit, "a step after the end"
        self.count += 1
        self.total += 1
        over = self.count == self.limit
        return np.array([self.count], np.float32), 1.0, over and self.terminates, over and not self.terminates, {}


class Rich(Counter):
    """The same, with a nested dict of an image, a one-hot number and legal actions as its observation."""

    observation_space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (6, 8, 3), np.uint8),
            "inner": spaces.Dict({"which": spaces.Discrete(5, start=1), "exact": spaces.Box(-9, 9, (), np.float64)}),
            "action_mask": spaces.MultiBinary(2),
        }
    )

    def _see(self) -> dict[str, Any]:
        n = self.count
        camera = (np.arange(6 * 8 * 3).reshape(6, 8, 3) + n).astype(np.uint8)
        inner = {"which": np.int64(1 + n % 5), "exact": np.array(n / 3)}
        return {"camera": camera, "inner": inner, "action_mask": np.array([1, n % 2], np.int8)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return self._see(), {}

    def step(self, action):
        _, *rest = super().step(action)
        return self._see(), *rest
