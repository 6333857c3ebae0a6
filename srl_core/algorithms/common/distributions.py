"""Action distributions over batches: sampling from given noise, log-probability, entropy, masks.

Every function is pure and works row by row; results are float32. Legal actions come as a bool mask [M, sum(nvec)]
(None: all legal). A row in which a dimension has no legal action belongs to a dead agent: its log-probability and
entropy are zero in that dimension and no gradient flows, whatever the action.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch

from srl_core.api.environment import ActionSpec

ILLEGAL = -1e30
"""Logit of an illegal action: its probability is exactly zero, and zero times its logarithm is not NaN."""
HALF_STEP = 2.0**-25
"""Half the spacing of float32 noise: keeps it inside (0, 1)."""


class Distribution(Protocol):
    """Distribution of an action given M rows of parameters [M, outputs]."""

    outputs: int
    """Parameters for each row, given by the policy head."""

    def sample(
        self, parameters: torch.Tensor, noise: torch.Tensor, mask: torch.Tensor | None, *, greedy: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Actions [M, dims] and their log-probabilities [M]; `noise` float32 [M, dims] uniform in [0, 1).

        `greedy` takes the mode.
        """
        ...

    def evaluate(
        self, parameters: torch.Tensor, action: torch.Tensor, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities [M] of `action` [M, dims], and entropies [M]."""
        ...


class MultiCategorical(torch.nn.Module):
    """Independent categorical dimensions of `nvec` actions each; one dimension is the plain categorical."""

    def __init__(self, nvec: tuple[int, ...]) -> None:
        super().__init__()
        self.outputs = sum(nvec)
        self._dims, self._width = len(nvec), max(nvec)
        self._even = min(nvec) == self._width
        index, exists, start = [], [], 0
        for n in nvec:  # uneven dimensions are padded to the widest, so that all are handled at once
            index += [*range(start, start + n), *([0] * (self._width - n))]
            exists += [*([True] * n), *([False] * (self._width - n))]
            start += n
        self.register_buffer("_index", torch.tensor(index), persistent=False)
        self.register_buffer("_exists", torch.tensor(exists).view(self._dims, self._width), persistent=False)
        self._index: torch.Tensor
        self._exists: torch.Tensor

    def _spread(self, flat: torch.Tensor) -> torch.Tensor:
        """[M, sum(nvec)] -> [M, dims, width]."""
        if not self._even:
            flat = flat.index_select(1, self._index)
        return flat.view(-1, self._dims, self._width)

    def _log_probabilities(
        self, logits: torch.Tensor, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Normalised logits [M, dims, width], and which of them are legal (None: all)."""
        spread = self._spread(logits)
        legal = None if self._even else self._exists.expand_as(spread)
        if mask is not None:
            legal = self._spread(mask) if legal is None else legal & self._spread(mask)
        if legal is not None:
            spread = torch.where(legal, spread, ILLEGAL)
        return torch.log_softmax(spread, -1), legal

    def sample(
        self, parameters: torch.Tensor, noise: torch.Tensor, mask: torch.Tensor | None, *, greedy: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        log_p, legal = self._log_probabilities(parameters, mask)
        if greedy:
            action = log_p.argmax(-1)
        else:
            # Inverse of the cumulative distribution. `argmax` gives the first of equals: the first possible action
            # whose cumulative probability exceeds the noise, or, where rounding leaves none, the first possible one.
            p = log_p.exp()
            action = ((p > 0) * (1 + (p.cumsum(-1) > noise.unsqueeze(-1)))).argmax(-1)
        return action, self._of_action(log_p, action, legal)

    def evaluate(
        self, parameters: torch.Tensor, action: torch.Tensor, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        log_p, legal = self._log_probabilities(parameters, mask)
        terms = log_p.exp() * log_p
        if mask is not None and legal is not None:
            terms = torch.where(legal & legal.any(-1, keepdim=True), terms, 0.0)
        return self._of_action(log_p, action, legal if mask is not None else None), -terms.sum((1, 2))

    def _of_action(self, log_p: torch.Tensor, action: torch.Tensor, legal: torch.Tensor | None) -> torch.Tensor:
        chosen = log_p.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        if legal is not None:
            chosen = torch.where(legal.any(-1), chosen, 0.0)
        return chosen.squeeze(1) if self._dims == 1 else chosen.sum(1)


class DiagonalGaussian(torch.nn.Module):
    """Independent normal dimensions; the head gives the means, the log standard deviations are free parameters.

    Actions are not squashed or clipped: their log-probability is that of the action itself, and what acts on it clips.
    """

    def __init__(self, size: int, initial_log_std: float = 0.0) -> None:
        super().__init__()
        self.outputs = size
        self.log_std = torch.nn.Parameter(torch.full((size,), initial_log_std))

    def sample(
        self, parameters: torch.Tensor, noise: torch.Tensor, mask: torch.Tensor | None, *, greedy: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if greedy:
            action = parameters
        else:
            z = torch.special.ndtri(noise.double() + HALF_STEP).float()
            action = parameters + z * self.log_std.exp()
        return action, self.evaluate(parameters, action, mask)[0]

    def evaluate(
        self, parameters: torch.Tensor, action: torch.Tensor, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        z = (action - parameters) * (-self.log_std).exp()
        constant = self.log_std.sum() + 0.5 * math.log(2 * math.pi) * self.outputs
        log_prob = -0.5 * z.square().sum(1) - constant
        return log_prob, (constant + 0.5 * self.outputs).expand(len(parameters))


def distribution_for(action: ActionSpec) -> MultiCategorical | DiagonalGaussian:
    """The distribution over actions of `action`."""
    return MultiCategorical(action.nvec) if action.discrete else DiagonalGaussian(action.size)
