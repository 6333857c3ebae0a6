"""PopArt: value targets of unit scale whose change of scale preserves outputs (van Hasselt et al. 2016)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

VARIANCE_FLOOR = 1e-2


class PopArt:
    """Running mean and deviation of the value targets: exponential averages with the bias of their start removed."""

    def __init__(self, beta: float) -> None:
        """`beta`: weight of the old average in each update."""
        self.beta = beta
        self.statistics = np.zeros(3)
        """float64: averages of x, of x^2 and of 1, all started from zero."""

    @property
    def mean(self) -> float:
        return float(self.statistics[0] / self.statistics[2]) if self.statistics[2] else 0.0

    @property
    def deviation(self) -> float:
        if not self.statistics[2]:
            return 1.0
        variance = self.statistics[1] / self.statistics[2] - self.mean**2
        return math.sqrt(max(float(variance), VARIANCE_FLOOR))

    def normalise(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / self.deviation

    def denormalise(self, values: np.ndarray) -> np.ndarray:
        return values * self.deviation + self.mean

    def update(self, targets: np.ndarray, head: nn.Linear) -> None:
        """Take in `targets` (any shape; not finite ones are left out) and correct `head`, the layer that gives the
        normalised value, so that its denormalised output stays the same."""
        targets = targets[np.isfinite(targets)].astype(np.float64)
        if not len(targets):
            return
        mean, deviation = self.mean, self.deviation
        moments = np.array([targets.mean(), np.square(targets).mean(), 1.0])
        self.statistics = self.beta * self.statistics + (1.0 - self.beta) * moments
        with torch.no_grad():
            weight = head.weight.double() * (deviation / self.deviation)
            bias = (head.bias.double() * deviation + mean - self.mean) / self.deviation
            head.weight.copy_(weight)
            head.bias.copy_(bias)
