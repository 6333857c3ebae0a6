"""What a network is made of; plain data, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srl_core.base.arrays import ArraySpec, Schema
from srl_core.base.errors import UserError

Encoder = Literal["auto", "mlp", "atari_small", "nature"]
Recurrent = Literal["none", "lstm", "gru"]
Activation = Literal["relu", "tanh"]

_WIDEST = 16_384
"""A square layer of it takes 1 GiB."""


@dataclass(frozen=True)
class NetworkConfig:
    """Encoder, optional recurrent layer, and whether the critic has its own of both."""

    encoder: Encoder = "auto"
    """`mlp` takes everything flattened; `atari_small` and `nature` convolve the image and append the other inputs;
    `auto` is `nature` where there is an image, else `mlp`."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the layers of the `mlp` encoder."""
    activation: Activation = "tanh"
    """Of the `mlp` encoder; convolutional encoders use relu."""
    recurrent: Recurrent = "none"
    """Kind of the recurrent layer between encoder and heads."""
    recurrent_size: int = 256
    """Width of the recurrent layer."""
    separate_critic: bool = False
    """Whether the value has an encoder (and recurrent layer) of its own rather than sharing the policy's."""

    def validate(self) -> None:
        """Raise `UserError` for sizes out of range."""
        if not all(1 <= width <= _WIDEST for width in self.hidden):
            raise UserError(f"network.hidden is {list(self.hidden)}; every width must be in 1..{_WIDEST}")
        if not 1 <= self.recurrent_size <= _WIDEST:
            raise UserError(f"network.recurrent_size is {self.recurrent_size}; it must be in 1..{_WIDEST}")

    def resolve_encoder(self, observation: Schema) -> Literal["mlp", "atari_small", "nature"]:
        """The encoder for `observation`; raises `UserError` where it does not fit."""
        images = [name for name, spec in observation.items() if is_image(spec)]
        if self.encoder == "auto":
            return "nature" if images else "mlp"
        if self.encoder != "mlp" and len(images) != 1:
            raise UserError(
                f"network.encoder is {self.encoder!r}, which needs exactly one uint8 image [C, H, W] among the "
                f"observations, but there are {len(images)}; use 'mlp' or 'auto'"
            )
        return self.encoder


def is_image(spec: ArraySpec) -> bool:
    """Whether an observation is a uint8 image [C, H, W]."""
    return len(spec.shape) == 3 and spec.dtype == "uint8"
