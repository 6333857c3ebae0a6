"""Plain dense encoder."""

from __future__ import annotations

import torch
from torch import nn

from srl_core.networks.config import Activation
from srl_core.networks.initialisation import orthogonal


class Mlp(nn.Module):
    """float32 [M, inputs] -> [M, features]; an activation follows every layer."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], activation: Activation) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip((inputs, *hidden), hidden, strict=False))
        self.activation = torch.tanh if activation == "tanh" else torch.relu
        self.features = hidden[-1] if hidden else inputs
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            orthogonal(layer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.activation(layer(x))
        return x
