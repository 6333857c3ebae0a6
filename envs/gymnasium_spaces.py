"""Gymnasium's spaces in terms of the environment contract: observations to flat arrays, actions back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_core.api import ActionSpec
from srl_core.api.environment import ACTION_MASK
from srl_core.base.arrays import Arrays, ArraySpec, Schema
from srl_core.base.errors import UserError

Convert = Callable[[np.ndarray], np.ndarray]


class ObservationCodec:
    """Batches of observations of `space` [n, ...] -> flat arrays [n, ...] as `schema` says.

    * Entries of a `Dict` keep their names, nested ones joined by dots. The only entry of a plain space is named `frame`
      if it is an image (uint8 with two or three axes), else `vector`.
    * Images become [C, H, W]; a last axis of 1, 3 or 4 behind larger ones is taken for the channels.
    * float64 becomes float32, `Discrete` one-hot float32, and a scalar a vector of one.
    * `action_mask` becomes bool [sum(nvec)].
    """

    def __init__(self, space: spaces.Space) -> None:
        self._entries: list[tuple[str, tuple[str, ...], Convert]] = []
        self.schema: Schema = {}
        for path, leaf in _leaves(space, ()):
            spec, convert = _leaf(leaf, path)
            name = ".".join(path)
            if not path:
                name = "frame" if len(spec.shape) == 3 and spec.dtype == "uint8" else "vector"
            self.schema[name] = spec
            self._entries.append((name, path, convert))

    def encode(self, observation: Any) -> Arrays:
        """A batch as vector environments give it: an array, or a dict of arrays."""
        return {name: convert(_at(observation, path)) for name, path, convert in self._entries}

    def encode_list(self, observations: Sequence[Any]) -> Arrays:
        """Single observations, one after another."""
        return {
            name: convert(np.stack([_at(observation, path) for observation in observations]))
            for name, path, convert in self._entries
        }


def _at(observation: Any, path: tuple[str, ...]) -> np.ndarray:
    for key in path:
        observation = observation[key]
    return np.asarray(observation)


def _leaves(space: spaces.Space, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], spaces.Space]]:
    if isinstance(space, spaces.Dict):
        return [leaf for key, sub in space.spaces.items() for leaf in _leaves(sub, (*path, key))]
    return [(path, space)]


def _leaf(space: spaces.Space, path: tuple[str, ...]) -> tuple[ArraySpec, Convert]:
    if path and path[-1] == ACTION_MASK:
        return _reshaped((math.prod(space.shape or ()),), "bool")
    if isinstance(space, spaces.Discrete):
        one_hot, start = np.eye(int(space.n), dtype=np.float32), int(space.start)
        return ArraySpec((int(space.n),), "float32"), lambda a: one_hot[a.astype(np.int64) - start]
    if isinstance(space, spaces.Box):
        shape, dtype = space.shape, space.dtype.name
        if dtype == "uint8" and len(shape) == 2:
            return _reshaped((1, *shape), dtype)
        if dtype == "uint8" and len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) > 4:
            return ArraySpec((shape[2], *shape[:2]), dtype), lambda a: np.moveaxis(a, -1, 1)
        return _reshaped(shape or (1,), "float32" if dtype == "float64" else dtype)
    if isinstance(space, (spaces.MultiBinary, spaces.MultiDiscrete)):
        return _reshaped(space.shape, space.dtype.name)  # type: ignore[union-attr]
    raise UserError(
        f"observation space {'.'.join(path)!r} is {space}; it must be Box, Discrete, MultiDiscrete, MultiBinary "
        "or a Dict of these"
    )


def _reshaped(shape: tuple[int, ...], dtype: str) -> tuple[ArraySpec, Convert]:
    return ArraySpec(shape, dtype), lambda a: a.astype(dtype, copy=False).reshape(len(a), *shape)


class ActionCodec:
    """Actions [n, dims] of the contract -> batches of actions of `space`.

    Continuous actions of a policy lie in -1..1: they are clipped to that and scaled to the space's low..high.
    """

    def __init__(self, space: spaces.Space) -> None:
        self.decode: Convert
        if isinstance(space, spaces.Discrete):
            start = int(space.start)
            self.spec = ActionSpec(nvec=(int(space.n),))
            self.decode = lambda a: a[:, 0] + start
        elif isinstance(space, spaces.MultiDiscrete):
            shape, origin = space.shape, space.start.ravel()
            self.spec = ActionSpec(nvec=tuple(int(n) for n in space.nvec.ravel()))
            self.decode = lambda a: (a + origin).reshape(len(a), *shape)
        elif isinstance(space, spaces.MultiBinary):
            shape = space.shape
            self.spec = ActionSpec(nvec=(2,) * math.prod(shape))
            self.decode = lambda a: a.astype(np.int8).reshape(len(a), *shape)
        elif isinstance(space, spaces.Box) and space.is_bounded():
            shape, dtype = space.shape, space.dtype
            low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
            self.spec = ActionSpec(size=math.prod(shape))
            middle, half = (low + high) / 2, (high - low) / 2
            self.decode = lambda a: (np.clip(a, -1, 1) * half + middle).astype(dtype).reshape(len(a), *shape)
        else:
            raise UserError(
                f"action space is {space}; it must be Discrete, MultiDiscrete, MultiBinary or a Box with finite bounds"
            )


def batch_of(observation: Any, rows: np.ndarray) -> Any:
    """Rows of a batched observation, copied."""
    if isinstance(observation, Mapping):
        return {key: batch_of(value, rows) for key, value in observation.items()}
    return np.asarray(observation)[rows]
