"""Generalised advantage estimation over trajectories that hold several episodes (Schulman et al. 2016, eq. 16)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Trajectories:
    """What followed each of L steps of B trajectories: arrays [L, B], laid out as in `srl_core.api.sample`."""

    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    first: np.ndarray
    valid: np.ndarray

    def usable(self) -> np.ndarray:
        """bool [L, B]: steps whose action can be learned from.

        Left out are steps that are not valid, the last one (nothing is known to follow it), and those whose episode
        was given up: the next step begins another, and no end was recorded.
        """
        usable = self.valid.copy()
        usable[-1] = False
        usable[:-1] &= ~self.first[1:] | self.terminated[:-1] | self.truncated[:-1]
        return usable

    def continues(self) -> np.ndarray:
        """float64 [L - 1, B]: 1 where steps t and t + 1 act in one episode, so that sums may run over both."""
        ended = self.terminated[:-1] | self.truncated[:-1]
        return (self.valid[:-1] & ~ended & self.valid[1:] & ~self.first[1:]).astype(np.float64)

    def errors(self, values: np.ndarray, gamma: float) -> np.ndarray:
        """float64 [L - 1, B]: reward + gamma * V(next) - V, zero for steps that are not usable.

        No value follows a termination; a truncation is followed by the value of its final observation, the next step.
        """
        following = np.where(self.terminated[:-1], 0.0, values[1:])
        return np.where(self.usable()[:-1], self.reward[:-1] + gamma * following - values[:-1], 0.0)


def gae(trajectories: Trajectories, values: np.ndarray, gamma: float, lam: float) -> np.ndarray:
    """Advantages float64 [L, B]; zero for steps that are not usable, such as the last.

    `values` [L, B] in units of the reward. The sum over lambda never crosses the end of an episode.
    """
    values = values.astype(np.float64)
    decay = gamma * lam * trajectories.continues()
    advantages = np.zeros_like(values)
    advantages[:-1] = trajectories.errors(values, gamma)
    for t in range(len(values) - 2, -1, -1):
        # Not a product with zero: what is not finite in one episode stays out of the one before.
        advantages[t] += np.where(decay[t] > 0, decay[t] * advantages[t + 1], 0.0)
    return advantages


def normalise(advantages: np.ndarray, usable: np.ndarray) -> np.ndarray:
    """Zero mean and unit deviation over the usable steps whose advantage is finite; the others do not count."""
    counted = advantages[usable & np.isfinite(advantages)]
    if not len(counted):
        return advantages
    return (advantages - counted.mean()) / (counted.std() + 1e-8)


def explained_variance(values: np.ndarray, targets: np.ndarray, usable: np.ndarray) -> float:
    """1 - Var(targets - values) / Var(targets) over the usable steps with finite targets; 0 where it is undefined."""
    counted = usable & np.isfinite(targets)
    variance = targets[counted].var() if counted.any() else 0.0
    return float(1.0 - (targets - values)[counted].var() / variance) if variance > 0 else 0.0
