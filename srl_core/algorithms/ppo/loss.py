"""PPO's losses, step by step: tensors [M] in, tensors [M] out; the caller takes the mean over valid steps."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F


def policy_loss(
    log_ratio: torch.Tensor, advantage: torch.Tensor, clip: float, dual_clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The negated clipped surrogate (Schulman et al. 2017, eq. 7), and bool: whether the ratio left the clip range.

    With `dual_clip` c, surrogates at negative advantages A are at least c * A (Ye et al. 2020, eq. 5).
    """
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip, 1.0 + clip)
    surrogate = torch.minimum(ratio * advantage, clipped * advantage)
    if dual_clip is not None:
        surrogate = torch.where(advantage < 0, torch.maximum(surrogate, dual_clip * advantage), surrogate)
    return -surrogate, clipped != ratio


def value_loss(
    value: torch.Tensor,
    target: torch.Tensor,
    old_value: torch.Tensor,
    kind: Literal["huber", "mse"],
    delta: float,
    clip: float | None,
) -> torch.Tensor:
    """Half the squared error or the Huber loss; with `clip`, the larger of that and the loss of the clipped value."""

    def error(prediction: torch.Tensor) -> torch.Tensor:
        if kind == "mse":
            return 0.5 * F.mse_loss(prediction, target, reduction="none")
        return F.huber_loss(prediction, target, reduction="none", delta=delta)

    loss = error(value)
    if clip is not None:
        loss = torch.maximum(loss, error(old_value + (value - old_value).clamp(-clip, clip)))
    return loss
