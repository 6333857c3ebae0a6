"""Convolutional encoders of the Atari literature, in float32 or bfloat16.

The pixels come in unscaled: the factor 1/255 is folded into the first convolution's weights, of which
there are far fewer. Training runs channels-last (its backward pass is up to three times as fast in float32), so the
features are flattened in the order height, width, channel; `prepare_for_acting` reorders the dense layer for
contiguous images, which is what requests bring.
"""

from __future__ import annotations

from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import nn

from srl_core.base.errors import UserError
from srl_core.networks.initialisation import orthogonal

PIXEL_SCALE = 1.0 / 255.0
LAYERS: dict[str, tuple[tuple[tuple[int, int, int], ...], int]] = {
    # ((channels, kernel, stride), ...), dense width
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),  # Mnih et al. 2015
    "atari_small": (((16, 8, 4), (32, 4, 2)), 256),  # Mnih et al. 2013
}


class ImageEncoder(nn.Module):
    """Pixels 0..255 [M, C, H, W] in `dtype`, channels-last -> float32 [M, features], after a relu."""

    def __init__(
        self, shape: tuple[int, int, int], architecture: Literal["nature", "atari_small"], dtype: torch.dtype
    ) -> None:
        super().__init__()
        layers, self.features = LAYERS[architecture]
        channels, height, width = shape
        self.dtype = dtype
        self.convolutions = nn.ModuleList()
        for out, kernel, stride in layers:
            convolution = nn.Conv2d(channels, out, kernel, stride)
            orthogonal(convolution)
            self.convolutions.append(convolution)
            channels, height, width = out, (height - kernel) // stride + 1, (width - kernel) // stride + 1
            if height < 1 or width < 1:
                raise UserError(f"network.encoder is {architecture!r}, but images {list(shape)} are too small for it")
        self.grid = (height, width, channels)
        self.dense = nn.Linear(height * width * channels, self.features)
        orthogonal(self.dense)
        self.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self.acting = False

    def _layers(self) -> list[nn.Conv2d]:
        return cast(list[nn.Conv2d], self.convolutions)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = not self.acting
        for layer in self._layers():
            weight = layer.weight * PIXEL_SCALE if scale else layer.weight
            scale = False
            x = F.conv2d(x, weight.to(self.dtype), _bias(layer).to(self.dtype), layer.stride).relu_()
        if not self.acting:
            x = x.permute(0, 2, 3, 1)
        x = F.linear(x.flatten(1), self.dense.weight.to(self.dtype), self.dense.bias.to(self.dtype))
        return x.relu_().float()

    @torch.no_grad()
    def prepare_for_acting(self, source: ImageEncoder) -> None:
        """Take the weights of `source`, scaled, cast and ordered once rather than in every call.

        From then on the encoder takes contiguous images, and its parameters are no longer those of `source`.
        """
        self.acting = True
        for i, (mine, theirs) in enumerate(zip(self._layers(), source._layers(), strict=True)):
            weight = theirs.weight * PIXEL_SCALE if i == 0 else theirs.weight
            mine.weight.data = weight.to(self.dtype).contiguous()
            _bias(mine).data = _bias(theirs).to(self.dtype)
        height, width, channels = self.grid
        dense = source.dense.weight.view(self.features, height * width, channels).transpose(1, 2)
        self.dense.weight.data = dense.to(self.dtype).reshape(self.features, -1)
        self.dense.bias.data = source.dense.bias.to(self.dtype)


def _bias(layer: nn.Conv2d) -> torch.Tensor:
    assert layer.bias is not None
    return layer.bias
