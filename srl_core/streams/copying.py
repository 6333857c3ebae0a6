"""Copying dictionaries of arrays into memory that was made for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from srl_core.base.arrays import Arrays


def copy_into(targets: Sequence[tuple[str, np.ndarray]], arrays: Mapping[str, np.ndarray]) -> None:
    """Copy each of `arrays` into the target of its name.

    Raises `ValueError` unless names, shapes and dtypes are those of the targets: nothing is cast or broadcast.
    """
    if len(arrays) != len(targets):
        raise _mismatch(targets, arrays)
    try:
        for name, target in targets:
            array = arrays[name]
            if array.shape != target.shape or array.dtype != target.dtype:
                raise _mismatch(targets, arrays)
            target[...] = array
    except KeyError:
        raise _mismatch(targets, arrays) from None


def _mismatch(targets: Sequence[tuple[str, np.ndarray]], arrays: Mapping[str, np.ndarray]) -> ValueError:
    names = {name for name, _ in targets}
    if arrays.keys() != names:
        missing, extra = sorted(names - arrays.keys()), sorted(arrays.keys() - names)
        return ValueError(f"array names differ from the schema: missing {missing}, unexpected {extra}")
    for name, target in targets:
        array = arrays[name]
        if array.shape != target.shape or array.dtype != target.dtype:
            return ValueError(
                f"{name} is {array.dtype.name}{list(array.shape)}, expected {target.dtype.name}{list(target.shape)}"
            )
    raise AssertionError("the arrays fit")


def copies(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """C-contiguous copies."""
    return {name: np.array(array, order="C") for name, array in arrays.items()}
