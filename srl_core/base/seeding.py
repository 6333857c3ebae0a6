"""One seed derives all others: by a path of words and numbers, never by addition."""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(root: int, *path: str | int) -> int:
    """A 31-bit seed that depends on `root` and every element of `path`, the same on all machines and versions.

    31 bits because simulators such as ALE take a signed 32-bit seed.
    """
    text = "/".join([str(int(root)), *(f"{type(p).__name__[0]}{p}" for p in path)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") >> 1


def generator(root: int, *path: str | int) -> np.random.Generator:
    """A NumPy generator seeded with `derive_seed(root, *path)`."""
    return np.random.Generator(np.random.PCG64(derive_seed(root, *path)))
