"""LSTM and GRU over [T, B] whose state restarts inside the sequence."""

from __future__ import annotations

import itertools
from typing import Literal

import torch
from torch import nn

from srl_core.networks.initialisation import orthogonal_recurrent


class Recurrence(nn.Module):
    """One recurrent layer, float32; its state is a tuple of [B, size] (h, and c for the LSTM)."""

    def __init__(self, inputs: int, size: int, kind: Literal["lstm", "gru"]) -> None:
        super().__init__()
        self.layer = nn.LSTM(inputs, size) if kind == "lstm" else nn.GRU(inputs, size)
        self.parts = ("h", "c") if kind == "lstm" else ("h",)
        self.features = size
        orthogonal_recurrent(self.layer)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, ...], first: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """x [T, B, inputs], state before step 0, first bool [T, B] -> outputs [T, B, size], state after the last step.

        Where `first[t, b]` is set, column b starts step t from the zero state. The library's kernel runs over the
        stretches between such steps.
        """
        steps = len(x)
        resets = first.any(1).nonzero().flatten().tolist()
        bounds = sorted({0, steps, *resets})
        outputs = []
        for start, stop in itertools.pairwise(bounds):
            if start in resets:
                keep = ~first[start, :, None]
                state = tuple(torch.where(keep, s, 0.0) for s in state)
            hidden = tuple(s.unsqueeze(0) for s in state)
            if isinstance(self.layer, nn.LSTM):
                y, hidden = self.layer(x[start:stop], hidden)
            else:
                y, h = self.layer(x[start:stop], hidden[0])
                hidden = (h,)
            state = tuple(s.squeeze(0) for s in hidden)
            outputs.append(y)
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs), state
