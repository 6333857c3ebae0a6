"""Counters of all workers in one table of shared memory: each worker writes its row, anybody reads all of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from srl_core.base.shared import SharedBlock

HEARTBEAT = "heartbeat"
"""Column that every table has: `time.monotonic()` of the worker's last sign of life, 0 before the first."""

_LINE = 8
"""Cells of a cache line; rows are padded to whole ones, so that writers of two rows do not slow each other down."""


class Row:
    """One worker's cells; only that worker may write. float64, so counts are exact up to 2**53."""

    def __init__(self, cells: memoryview[float], index: Mapping[str, int]) -> None:
        self._cells, self._index = cells, index

    def add(self, column: str, amount: float) -> None:
        self._cells[self._index[column]] += amount

    def set(self, column: str, value: float) -> None:
        self._cells[self._index[column]] = value

    def get(self, column: str) -> float:
        return self._cells[self._index[column]]

    def values(self) -> dict[str, float]:
        return {column: self._cells[i] for column, i in self._index.items()}

    def beat(self) -> None:
        """Give a sign of life."""
        self.set(HEARTBEAT, time.monotonic())


class WorkerTable:
    """Rows by worker, columns by counter. Unknown names of either raise `KeyError`."""

    def __init__(self, workers: Sequence[str], columns: Sequence[str], block: SharedBlock) -> None:
        self._block = block
        self._index = {column: i for i, column in enumerate(columns)}
        used = block.buffer[: _nbytes(workers, columns)]
        cells = used.cast("d")
        width = len(cells) // max(len(workers), 1)
        self._rows = {w: Row(cells[i * width : (i + 1) * width], self._index) for i, w in enumerate(workers)}
        self._cells = np.frombuffer(used, np.float64).reshape(len(workers), width)

    @classmethod
    def create(cls, workers: Sequence[str], columns: Sequence[str]) -> WorkerTable:
        """A table of zeros with these columns and `heartbeat`. `ValueError` where a name comes twice."""
        columns = [*columns] if HEARTBEAT in columns else [*columns, HEARTBEAT]
        for names in (workers, columns):
            if len(set(names)) != len(names):
                raise ValueError(f"a name comes twice: {', '.join(names)}")
        return cls(workers, columns, SharedBlock.create("srl-counters", _nbytes(workers, columns)))

    def descriptor(self) -> dict[str, Any]:
        """What `open` needs, as JSON data; valid in processes that inherit `fds()` under the same numbers."""
        return {"fd": self._block.fd, "workers": list(self._rows), "columns": list(self._index)}

    def fds(self) -> list[int]:
        return [self._block.fd]

    @classmethod
    def open(cls, descriptor: Mapping[str, Any]) -> WorkerTable:
        workers, columns = [*map(str, descriptor["workers"])], [*map(str, descriptor["columns"])]
        return cls(workers, columns, SharedBlock.open(int(descriptor["fd"]), _nbytes(workers, columns)))

    def rows(self) -> list[str]:
        """Names of all workers."""
        return list(self._rows)

    def row(self, worker: str) -> Row:
        return self._rows[worker]

    def column(self, column: str) -> np.ndarray:
        """A copy of one column: float64 [workers], in the order of `rows`."""
        return self._cells[:, self._index[column]].copy()

    def total(self, column: str) -> float:
        """Sum over all workers."""
        return float(self._cells[:, self._index[column]].sum())

    def close(self) -> None:
        self._block.close()


def _nbytes(workers: Sequence[str], columns: Sequence[str]) -> int:
    return len(workers) * (-(-len(columns) // _LINE) * _LINE) * 8
