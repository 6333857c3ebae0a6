"""Copying dictionaries of arrays into memory that was made for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

import numpy as np

from srl_core.base.arrays import Arrays, Schema, block_nbytes, block_views

Target = tuple[str, np.ndarray, tuple[int, ...], np.dtype]
"""Name, memory, and the memory's shape and dtype, which are quicker to compare when they are at hand."""


def targets_of(arrays: Mapping[str, np.ndarray]) -> list[Target]:
    """Targets for `copy_into`."""
    return [(name, array, array.shape, array.dtype) for name, array in arrays.items()]


def copy_into(targets: Sequence[Target], arrays: Mapping[str, np.ndarray]) -> None:
    """Copy each of `arrays` into the target of its name.

    Raises `ValueError` unless names, shapes and dtypes are those of the targets: nothing is cast or broadcast.
    """
    if len(arrays) != len(targets):
        raise _mismatch(targets, arrays)
    try:
        for name, target, shape, dtype in targets:
            array = arrays[name]
            if array.shape != shape or (array.dtype is not dtype and array.dtype != dtype):
                raise _mismatch(targets, arrays)
            target[...] = array
    except KeyError:
        raise _mismatch(targets, arrays) from None


class Layout:
    """The arrays of `block_views` with all arithmetic done before: for memory that is new with every message."""

    def __init__(self, schema: Schema, leading: Mapping[str, tuple[int, ...]] | tuple[int, ...]) -> None:
        self.nbytes = block_nbytes(schema, leading)
        example = block_views(np.zeros(self.nbytes, np.uint8).data, 0, schema, leading)
        start = _address(next(iter(example.values())))
        self._fields = [(name, a.shape, a.dtype, _address(a) - start) for name, a in example.items()]

    def views(self, buffer: memoryview | bytes, offset: int) -> Arrays:
        """Views of `buffer` from byte `offset` on; read-only where it is."""
        return {name: np.ndarray(shape, dtype, buffer, offset + at) for name, shape, dtype, at in self._fields}


class BlockFinder:
    """Recognises arrays that lie in one block already, so that one copy serves for all of them.

    A trajectory builder sends the same arrays again and again. When those objects come a second time in a row, having
    passed `copy_into` the first time, their addresses are compared with the layout of `block_views`; from then on they
    are known by identity. (An array's shape or dtype must not be reassigned in place meanwhile.)
    """

    def __init__(self, layout: Arrays) -> None:
        """`layout`: arrays as `block_views` lays them out."""
        self._names = tuple(layout)
        start = _address(next(iter(layout.values())))
        self._offsets = [_address(array) - start for array in layout.values()]
        self._nbytes = self._offsets[-1] + next(reversed(layout.values())).nbytes
        self._arrays: tuple[np.ndarray | None, ...] = (None,) * len(layout)
        self._looked = False
        self._block: np.ndarray | None = None

    def find(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
        """uint8 view of the block that holds exactly `arrays`, or None where it is not known to be one."""
        if len(arrays) == len(self._names) and all(map(is_, map(arrays.get, self._names), self._arrays)):
            if not self._looked:
                self._looked, self._block = True, self._look()
            return self._block
        self._arrays, self._looked, self._block = tuple(map(arrays.get, self._names)), False, None
        return None

    def forget(self) -> None:
        """What was looked at last is not to be trusted."""
        self._arrays = (None,) * len(self._names)

    def _look(self) -> np.ndarray | None:
        start = _address(self._arrays[0])
        for array, offset in zip(self._arrays, self._offsets, strict=True):
            if array is None or _address(array) != start + offset or not array.flags.c_contiguous:
                return None
        root: Any = self._arrays[0]
        while isinstance(root, np.ndarray) and root.base is not None:
            root = root.base
        memory = np.frombuffer(root, np.uint8)
        begin = start - _address(memory)
        return memory[begin : begin + self._nbytes] if 0 <= begin <= len(memory) - self._nbytes else None


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]


def _mismatch(targets: Sequence[Target], arrays: Mapping[str, np.ndarray]) -> ValueError:
    names = {name for name, *_ in targets}
    if arrays.keys() != names:
        missing, extra = sorted(names - arrays.keys()), sorted(arrays.keys() - names)
        return ValueError(f"array names differ from the schema: missing {missing}, unexpected {extra}")
    for name, _, shape, dtype in targets:
        array = arrays[name]
        if array.shape != shape or array.dtype != dtype:
            return ValueError(f"{name} is {array.dtype.name}{list(array.shape)}, expected {dtype.name}{list(shape)}")
    raise AssertionError("the arrays fit")


def copies(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """C-contiguous copies."""
    return {name: np.array(array, order="C") for name, array in arrays.items()}
