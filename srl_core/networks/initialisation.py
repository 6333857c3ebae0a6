"""Orthogonal initialisation, as usual for PPO (Andrychowicz et al. 2021, Huang et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

HIDDEN_GAIN = math.sqrt(2.0)
POLICY_GAIN = 0.01
VALUE_GAIN = 1.0


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Initial weights made in here depend on `seed` alone: not on the number of threads, which changes sums.

    Torch's global generator is left as it was.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def orthogonal(layer: nn.Linear | nn.Conv2d, gain: float = HIDDEN_GAIN) -> None:
    """Orthogonal weights of `gain`, zero biases; random numbers come from torch's global generator."""
    nn.init.orthogonal_(layer.weight, gain)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)


def orthogonal_recurrent(layer: nn.RNNBase) -> None:
    """Orthogonal weights of gain 1 for each gate, zero biases."""
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if "bias" in name:
                parameter.zero_()
                continue
            for gate in parameter.split(layer.hidden_size):
                nn.init.orthogonal_(gate)
