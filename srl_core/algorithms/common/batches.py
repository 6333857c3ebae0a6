"""From a sample batch to the tensors of one minibatch.

A step is named by its flat index t * B + b. Feed-forward networks train on any set of steps; recurrent ones on chunks
of consecutive steps, named by an index matrix [chunk, n].
"""

from __future__ import annotations

import numpy as np
import torch

from srl_core.api.sample import SampleBatch
from srl_core.base.arrays import take_prefix
from srl_core.networks.images import ImageBuffer

ROUND_TO = 16
"""Minibatches of steps are padded to a multiple of this: each new size costs the kernels' set-up."""


def frame_ages(first: np.ndarray, stack: int) -> np.ndarray:
    """int64 [L, B]: steps since the episode's first observation, at most `stack` - 1, which is also the age of steps
    whose episode began before the sample."""
    ages = np.empty(first.shape, np.int64)
    age = np.full(first.shape[1], stack - 1)
    for t in range(len(first)):
        age = np.where(first[t], 0, np.minimum(age + 1, stack - 1))
        ages[t] = age
    return ages


class Steps:
    """The steps of one batch as tensors on `device`; `images` converts the image observation named `image`."""

    def __init__(
        self, batch: SampleBatch, device: torch.device, image: str | None = None, images: ImageBuffer | None = None
    ) -> None:
        self.length, self.columns = batch.spec.length, batch.columns
        self._device = device
        self._image, self._images = image, images
        self._stacks: dict[str, tuple[int, np.ndarray]] = {}
        self._observation: dict[str, torch.Tensor] = {}
        first = batch.arrays["first"]
        for name, array in take_prefix(batch.arrays, "observation").items():
            stack = batch.spec.stacks.get(f"observation.{name}", 1)
            if stack > 1:
                self._stacks[name] = stack, frame_ages(first, stack).ravel()
            elif name == image:  # its channels are planes that all belong to one step
                self._stacks[name] = 1, np.empty(0)
            self._observation[name] = self._tensor(array.reshape(-1, *array.shape[2:]))
        self._state = {
            name: self._tensor(array.reshape(-1, *array.shape[2:]))
            for name, array in take_prefix(batch.arrays, "state").items()
        }
        self._first = self._tensor(first.ravel())

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        if not array.flags.writeable:
            array = array.copy()
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def observation(self, index: np.ndarray) -> dict[str, torch.Tensor]:
        """Observations [M, ...] of the steps `index` (int64 [M]), stacks put together; valid until the next call."""
        rows = torch.from_numpy(index).to(self._device)
        return {
            name: self._stacked(name, index) if name in self._stacks else array.index_select(0, rows)
            for name, array in self._observation.items()
        }

    def _stacked(self, name: str, index: np.ndarray) -> torch.Tensor:
        """The stack of step t is frames t .. t + k - 1, zero where they are older than the episode."""
        frames, (stack, ages) = self._observation[name], self._stacks[name]
        if name == self._image and self._images is not None:
            if stack == 1:
                planes = frames.flatten(0, 1)
                rows = index[:, None] * frames.shape[1] + np.arange(frames.shape[1])
                return self._images.gather(planes, rows, np.zeros(rows.shape, bool))
            if frames.dim() == 3:
                return self._images.gather(frames, *self._frame_rows(index, stack, ages))
        rows, empty = self._frame_rows(index, stack, ages)
        stacked = frames[torch.from_numpy(rows).to(self._device)]
        if empty.any():
            stacked[torch.from_numpy(empty).to(self._device)] = 0
        return stacked

    def _frame_rows(self, index: np.ndarray, stack: int, ages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        offsets = np.arange(stack)
        return index[:, None] + offsets * self.columns, offsets[::-1] > ages[index][:, None]

    def state(self, index: np.ndarray) -> dict[str, torch.Tensor]:
        """Stored recurrent state [M, ...] before the steps `index`."""
        rows = torch.from_numpy(index).to(self._device)
        return {name: array.index_select(0, rows) for name, array in self._state.items()}

    def first(self, index: np.ndarray) -> torch.Tensor:
        """bool, in the shape of `index`."""
        return self._first[torch.from_numpy(index).to(self._device)]


def step_minibatches(usable: np.ndarray, size: int, random: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """The usable steps in random order as minibatches of about `size`: pairs (index int64 [M], weight bool [M]).

    `usable` bool [L, B]. The steps are shared out evenly over round(usable / size) minibatches, so that none is small.
    Each is padded with steps of weight zero to a multiple of `ROUND_TO`.
    """
    order = random.permutation(np.flatnonzero(usable))
    if not len(order):
        return []
    parts = np.array_split(order, max(1, round(len(order) / size)))
    padded = -(-len(parts[0]) // ROUND_TO) * ROUND_TO
    return [(np.resize(part, padded), np.arange(padded) < len(part)) for part in parts]


def chunk_minibatches(
    usable: np.ndarray, start: int, steps: int, chunk: int, size: int, random: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Chunks in random order as minibatches of about `size` steps: pairs (index int64 [chunk, n], weight bool alike).

    Chunks cut steps `start` .. `start + steps` of every column (`usable` bool [L, B]); those without a usable step are
    left out.
    """
    columns = usable.shape[1]
    begin = np.arange(start, start + steps, chunk)
    heads = (begin[:, None] * columns + np.arange(columns)).ravel()
    index = heads + np.arange(chunk)[:, None] * columns
    weight = usable.ravel()[index]
    order = random.permutation(np.flatnonzero(weight.any(0)))
    if not len(order):
        return []
    parts = np.array_split(order, max(1, round(len(order) * chunk / size)))
    return [(index[:, part], weight[:, part]) for part in parts]
