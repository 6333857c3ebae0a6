"""Bringing uint8 images into the encoder's dtype and memory format, in buffers that are used again."""

from __future__ import annotations

import numpy as np
import torch

PIECE = 128
"""Images packed at a time, so that they stay in the cache."""
PACKED = 4
"""Planes that fit an int32."""


class ImageBuffer:
    """One buffer for the images of one encoder; what it returns is valid until its next use.

    A buffer of its own matters: allocations of this size are given back to the system and cost page faults each time.
    """

    def __init__(self, shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device) -> None:
        self._shape = shape
        self._dtype = dtype
        self._device = device
        self._contiguous = torch.empty(0)
        self._channels_last = torch.empty(0)
        self._packed = torch.empty(0)
        height_width = shape[1] * shape[2]
        self._piece = torch.empty((PIECE, height_width), dtype=torch.uint8, device=device)
        self._wide = torch.empty((PIECE, height_width), dtype=torch.int32, device=device)

    def load(self, images: torch.Tensor) -> torch.Tensor:
        """uint8 [M, C, H, W] -> the same in the encoder's dtype, contiguous."""
        count = len(images)
        if count > len(self._contiguous):
            self._contiguous = torch.empty((count, *self._shape), dtype=self._dtype, device=self._device)
        return self._contiguous[:count].copy_(images)

    def gather(self, planes: torch.Tensor, rows: np.ndarray, empty: np.ndarray) -> torch.Tensor:
        """Images put together from single planes, in the encoder's dtype, channels-last.

        `planes` uint8 [P, H, W]; `rows` int64 [M, C] says which plane each channel of each image is; where `empty`
        (bool [M, C]) is set, the channel is zero instead.
        """
        count, channels = rows.shape
        height, width = planes.shape[1:]
        flat = planes.view(len(planes), height * width)
        if count > len(self._packed):
            size = (count, height, width, channels)
            self._channels_last = torch.empty(size, dtype=self._dtype, device=self._device)
            self._packed = torch.empty(size, dtype=torch.uint8, device=self._device)
        bytes_ = self._packed[:count].view(count, height * width, channels)
        index = torch.from_numpy(np.ascontiguousarray(rows.T)).to(self._device)
        for start in range(0, count, PIECE):
            stop = min(start + PIECE, count)
            piece, wide = self._piece[: stop - start], self._wide[: stop - start]
            for c in range(channels):
                torch.index_select(flat, 0, index[c, start:stop], out=piece)
                zero = np.flatnonzero(empty[start:stop, c])
                if len(zero):
                    piece.index_fill_(0, torch.from_numpy(zero).to(self._device), 0)
                if channels != PACKED:
                    bytes_[start:stop, :, c].copy_(piece)
                    continue
                # Interleaving bytes one by one is slow; as four shifted bytes of an integer they vectorise.
                words = bytes_[start:stop].view(torch.int32).squeeze(-1)
                if c == 0:
                    words.copy_(piece)
                else:
                    words.bitwise_or_(wide.copy_(piece).bitwise_left_shift_(8 * c))
        return self._channels_last[:count].copy_(self._packed[:count]).permute(0, 3, 1, 2)
