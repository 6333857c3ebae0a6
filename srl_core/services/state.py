"""Nested state as JSON beside a flat set of arrays, without loss.

What JSON does not have is an object with one key that begins with `$`:

    {"$array": name}   an array of the flat set        {"$int": "123"}    an integer beyond 53 bits
    {"$float": "nan"}  nan, inf, -inf                  {"$dict": [[k, v]]} a dict with integer keys or a `$` key
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from srl_core.base.arrays import Arrays

_EXACT = 2**53
"""Integers up to here are the same number in every JSON reader."""


def encode(state: Any) -> tuple[Any, Arrays]:
    """JSON data and the arrays that it names; `TypeError`, naming the place, for a value of another type."""
    arrays: Arrays = {}
    return _encode(state, "", arrays), arrays


def decode(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Inverse of `encode`, apart from tuples and NumPy scalars, which come back as lists and plain numbers.

    Arrays are writable copies. `ValueError` for data that `encode` cannot have written.
    """
    if isinstance(tree, list):
        return [decode(v, arrays) for v in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) == 1 and (key := next(iter(tree))).startswith("$"):
        value = tree[key]
        if key == "$array" and isinstance(value, str) and value in arrays:
            return arrays[value].copy()
        if key == "$int" and isinstance(value, str):
            return int(value)
        if key == "$float" and value in ("nan", "inf", "-inf"):
            return float(value)
        if key == "$dict" and isinstance(value, list) and all(_is_item(item) for item in value):
            return {k: decode(v, arrays) for k, v in value}
        raise ValueError(f"{key} {value!r} cannot be decoded")
    return {k: decode(v, arrays) for k, v in tree.items()}


def _is_item(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], str | int)


def _encode(value: Any, path: str, arrays: Arrays) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, np.ndarray):
        return {"$array": _keep(value, path, arrays)}
    if isinstance(value, list | tuple):
        return [_encode(v, _join(path, i), arrays) for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if type(key) not in (str, int):
                raise TypeError(f"state {path or 'itself'} has the key {key!r}; keys must be text or integers")
        encoded = [(key, _encode(v, _join(path, key), arrays)) for key, v in value.items()]
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return dict(encoded)
        return {"$dict": [[key, v] for key, v in encoded]}
    raise TypeError(
        f"state {path or 'itself'} is a {type(value).__module__}.{type(value).__name__}; "
        "only arrays, numbers, texts, None, lists and dicts can be saved"
    )


def _keep(array: np.ndarray, path: str, arrays: Arrays) -> str:
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(f"state {path or 'itself'} is an array of {array.dtype}, which cannot be saved")
    name = path or "array"
    while name in arrays or name == "__metadata__":  # a/b may be a key as well as a path
        name += "'"
    arrays[name] = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    return name


def _join(path: str, key: str | int) -> str:
    return f"{path}/{key}" if path else str(key)
