"""Copying dictionaries of arrays into memory that was made for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from srl_core.base.arrays import Arrays

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
