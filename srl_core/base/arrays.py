"""Flat dictionaries of arrays with a schema, and their layout in one block of bytes.

Everything that crosses a stream is a flat `dict[str, np.ndarray]`; nesting is spelled with dots in the name
(`observation.frame`). A `Schema` says, for each name, the shape without leading axes and the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Arrays = dict[str, np.ndarray]

ALIGNMENT = 64
"""Bytes: each array of a block starts on a cache line."""


@dataclass(frozen=True)
class ArraySpec:
    """Shape (without leading axes such as time or batch) and dtype name of one array."""

    shape: tuple[int, ...]
    dtype: str

    def nbytes(self, leading: tuple[int, ...] = ()) -> int:
        """Bytes of an array of shape `leading + shape`."""
        return math.prod(leading) * math.prod(self.shape) * np.dtype(self.dtype).itemsize


Schema = dict[str, ArraySpec]


def schema_of(arrays: Mapping[str, np.ndarray], leading: int) -> Schema:
    """The schema of `arrays` whose first `leading` axes are not part of it."""
    return {name: ArraySpec(tuple(a.shape[leading:]), a.dtype.name) for name, a in arrays.items()}


def zeros(schema: Schema, leading: tuple[int, ...]) -> Arrays:
    """New arrays of shape `leading + spec.shape`, filled with zeros."""
    return {name: np.zeros(leading + spec.shape, spec.dtype) for name, spec in schema.items()}


def check(arrays: Mapping[str, np.ndarray], schema: Schema, leading: tuple[int, ...]) -> None:
    """Raise `ValueError` unless `arrays` has exactly the names, dtypes and shapes that `schema` states."""
    if arrays.keys() != schema.keys():
        missing, extra = sorted(schema.keys() - arrays.keys()), sorted(arrays.keys() - schema.keys())
        raise ValueError(f"array names differ from the schema: missing {missing}, unexpected {extra}")
    for name, spec in schema.items():
        array, expected = arrays[name], leading + spec.shape
        if array.shape != expected or array.dtype.name != spec.dtype:
            raise ValueError(f"{name} is {array.dtype.name}{list(array.shape)}, expected {spec.dtype}{list(expected)}")


def schema_to_json(schema: Schema) -> dict[str, list[object]]:
    """`{"name": [dtype, [shape]]}`, in the schema's order."""
    return {name: [spec.dtype, list(spec.shape)] for name, spec in schema.items()}


def schema_from_json(data: Mapping[str, list]) -> Schema:
    """Inverse of `schema_to_json`; raises `ValueError` for dtypes that could hold objects."""
    schema: Schema = {}
    for name, (dtype, shape) in data.items():
        if np.dtype(dtype).kind not in "biuf":
            raise ValueError(f"{name}: dtype {dtype!r} is not a number type")
        schema[name] = ArraySpec(tuple(int(n) for n in shape), np.dtype(dtype).name)
    return schema


def block_nbytes(schema: Schema, leading: Mapping[str, tuple[int, ...]] | tuple[int, ...]) -> int:
    """Bytes of a block that holds all arrays of `schema`, each aligned; `leading` as in `block_views`."""
    total = 0
    for name, spec in schema.items():
        lead = leading if isinstance(leading, tuple) else leading[name]
        total += -(-spec.nbytes(lead) // ALIGNMENT) * ALIGNMENT
    return total


def block_views(
    buffer: memoryview, offset: int, schema: Schema, leading: Mapping[str, tuple[int, ...]] | tuple[int, ...]
) -> Arrays:
    """Arrays that are views into `buffer` from byte `offset` on, one after another, each aligned.

    `leading` is the leading shape of all arrays, or one for each name where they differ.
    """
    views: Arrays = {}
    for name, spec in schema.items():
        lead = leading if isinstance(leading, tuple) else leading[name]
        nbytes = spec.nbytes(lead)
        views[name] = np.frombuffer(buffer, np.uint8, nbytes, offset).view(spec.dtype).reshape(lead + spec.shape)
        offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return views


def with_prefix(prefix: str, schema: Mapping[str, ArraySpec]) -> Schema:
    """`{"a": s}` -> `{"prefix.a": s}`."""
    return {f"{prefix}.{name}": spec for name, spec in schema.items()}


def take_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> Arrays:
    """The arrays under `prefix.`, without it."""
    start = prefix + "."
    return {name[len(start) :]: a for name, a in arrays.items() if name.startswith(start)}
