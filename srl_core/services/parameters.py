"""The parameter service: versions of a policy's parameters, from one trainer to any number of readers.

Versions are integers that only grow. Readers get whole versions, never a mixture, and never an older one after a newer
one. `latest` names the newest version; other tags name a copy that stays until the tag is moved.
"""

from __future__ import annotations

import fcntl
import os
import platform
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from srl_core.api.streams import Stopped
from srl_core.base.arrays import Arrays, Schema, block_nbytes, block_views, check, schema_from_json, schema_to_json
from srl_core.base.errors import RunError, UserError
from srl_core.base.shared import SharedBlock
from srl_core.base.stop import StopFlag

LATEST = "latest"

_POLL_SECONDS = 0.01
_HEADER = 64
"""Bytes of a cell's counters."""
_RETRIES = 1000
"""Copies that may be overtaken in a row; each needs two publications within the time of one copy."""


class ParameterService(Protocol):
    """One policy's parameters. One process publishes; any may read, and tag (one process a tag)."""

    def publish(self, version: int, parameters: Mapping[str, np.ndarray], tags: Sequence[str] = ()) -> None:
        """Make a copy of `parameters` the newest version, and move `tags` to it.

        `ValueError` where `version` is not larger than the newest one or negative.
        """
        ...

    def read(self, tag: str = LATEST, newer_than: int = -1) -> tuple[int, Arrays] | None:
        """Version and parameters that `tag` names, the caller's own; None where that is at most `newer_than`."""
        ...

    def version(self, tag: str = LATEST) -> int:
        """The version that `tag` names, -1 where it names none; cheap enough to ask before every batch."""
        ...

    def tag(self, name: str, source: int | str) -> None:
        """Point `name` at the version that is, or that the tag is called, `source`.

        `ValueError` for the name `latest` and where the version is not kept any more.
        """
        ...

    def wait_first(self, timeout: float, stop: StopFlag) -> None:
        """Wait until something has been published; `TimeoutError` after `timeout` seconds, `Stopped` by the flag."""
        deadline = time.monotonic() + timeout
        while self.version() < 0:
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no parameters were published within {timeout} s")
            if stop.wait(_POLL_SECONDS):
                raise Stopped


class InMemoryParameters(ParameterService):
    """For one process."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Arrays]] = {}
        self._lock = threading.Lock()

    def publish(self, version: int, parameters: Mapping[str, np.ndarray], tags: Sequence[str] = ()) -> None:
        copied = {name: np.array(array) for name, array in parameters.items()}
        with self._lock:
            check_newer(version, self.version())
            for tag in (LATEST, *map(check_tag, tags)):
                self._kept[tag] = (version, copied)

    def read(self, tag: str = LATEST, newer_than: int = -1) -> tuple[int, Arrays] | None:
        version, kept = self._kept.get(tag, (-1, {}))
        if version <= newer_than:
            return None
        return version, {name: array.copy() for name, array in kept.items()}

    def version(self, tag: str = LATEST) -> int:
        return self._kept.get(tag, (-1, {}))[0]

    def tag(self, name: str, source: int | str) -> None:
        with self._lock:
            for tag, kept in self._kept.items():
                if source in (tag, kept[0]):
                    self._kept[check_tag(name)] = kept
                    return
        raise not_kept(source, [(tag, kept[0]) for tag, kept in self._kept.items()])


class SharedMemoryParameters(ParameterService):
    """For all processes of one host, without a lock between the writer and the readers.

    Made by the process that starts the others; they inherit its descriptors and `open` it. Each tag has a cell: a
    header of counters and two slots, which hold the tag's versions in turn. With g counting the writes of a cell,
    write g goes to slot g % 2:

        writer: begun = g;  copy into the slot;  version of the slot = v;  done = g
        reader: g = done;  copy from the slot of g;  what was copied is whole if begun < g + 2

    since only write g + 2 touches that slot again. A writer that dies in the middle leaves the last whole version in
    place. Stores must become visible in program order, as x86-64 guarantees between processes.
    """

    def __init__(self, schema: Schema, tags: Sequence[str], block: SharedBlock) -> None:
        self._schema, self._block = schema, block
        size = block_nbytes(schema, ())
        self._cells = {
            tag: _Cell(block.buffer, i * (_HEADER + 2 * size), schema, size) for i, tag in enumerate((LATEST, *tags))
        }
        self._lock = threading.Lock()

    @classmethod
    def create(cls, schema: Schema, tags: Sequence[str] = ()) -> SharedMemoryParameters:
        """Room for parameters of `schema` under `latest` and each of `tags`; `UserError` where memory is short."""
        if platform.machine() not in ("x86_64", "AMD64"):
            raise UserError(f"shared-memory parameters need an x86-64 machine, this one is {platform.machine()}")
        tags = [check_tag(tag) for tag in dict.fromkeys(tags)]
        return cls(schema, tags, SharedBlock.create("srl-parameters", _nbytes(schema, len(tags))))

    def descriptor(self) -> dict[str, Any]:
        """What `open` needs, as JSON data; valid in processes that inherit `fds()` under the same numbers."""
        tags = [tag for tag in self._cells if tag != LATEST]
        return {"fd": self._block.fd, "schema": schema_to_json(self._schema), "tags": tags}

    def fds(self) -> list[int]:
        return [self._block.fd]

    @classmethod
    def open(cls, descriptor: Mapping[str, Any]) -> SharedMemoryParameters:
        schema, tags = schema_from_json(descriptor["schema"]), [str(tag) for tag in descriptor["tags"]]
        return cls(schema, tags, SharedBlock.open(int(descriptor["fd"]), _nbytes(schema, len(tags))))

    def publish(self, version: int, parameters: Mapping[str, np.ndarray], tags: Sequence[str] = ()) -> None:
        check(parameters, self._schema, ())
        cells = [self._cell(check_tag(tag)) for tag in tags]
        latest = self._cells[LATEST]
        with self._writing(latest):
            check_newer(version, latest.version())
            latest.write(version, parameters)
        for cell in cells:
            with self._writing(cell):
                cell.write(version, parameters)

    def read(self, tag: str = LATEST, newer_than: int = -1) -> tuple[int, Arrays] | None:
        cell = self._cell(tag)
        if cell.version() <= newer_than:
            return None
        return cell.read()

    def version(self, tag: str = LATEST) -> int:
        return self._cell(tag).version()

    def tag(self, name: str, source: int | str) -> None:
        target = self._cell(check_tag(name))
        for tag, cell in self._cells.items():
            if source not in (tag, cell.version()):
                continue
            version, parameters = cell.read()
            if source in (tag, version) and version >= 0:
                with self._writing(target):
                    target.write(version, parameters)
                return
        raise not_kept(source, [(tag, cell.version()) for tag, cell in self._cells.items()])

    def close(self) -> None:
        self._block.close()

    def _cell(self, tag: str) -> _Cell:
        if tag not in self._cells:
            raise ValueError(f"unknown tag {tag!r}; this service was made for {', '.join(self._cells)}")
        return self._cells[tag]

    @contextmanager
    def _writing(self, cell: _Cell) -> Iterator[None]:
        """Keep other writers of the cell out; the kernel frees the lock of a process that dies."""
        with self._lock:
            fcntl.lockf(self._block.fd, fcntl.LOCK_EX, 1, cell.offset, os.SEEK_SET)
            try:
                yield
            finally:
                fcntl.lockf(self._block.fd, fcntl.LOCK_UN, 1, cell.offset, os.SEEK_SET)


class _Cell:
    """The two slots of one tag; header: writes begun, writes done, version of either slot."""

    def __init__(self, buffer: memoryview, offset: int, schema: Schema, size: int) -> None:
        self.offset = offset
        self._header = buffer[offset : offset + _HEADER].cast("q")
        slots = offset + _HEADER
        self._slots = [block_views(buffer, slots, schema, ()), block_views(buffer, slots + size, schema, ())]

    def version(self) -> int:
        """-1 where nothing was written yet."""
        return self._look(copy=False)[0]

    def read(self) -> tuple[int, Arrays]:
        """(-1, {}) where nothing was written yet."""
        return self._look(copy=True)

    def write(self, version: int, parameters: Mapping[str, np.ndarray]) -> None:
        header = self._header
        count = header[1] + 1
        header[0] = count
        for name, array in self._slots[count % 2].items():
            array[...] = parameters[name]
        header[2 + count % 2] = version
        header[1] = count

    def _look(self, *, copy: bool) -> tuple[int, Arrays]:
        header = self._header
        for _ in range(_RETRIES):
            done = header[1]
            if done == 0:
                return -1, {}
            version = header[2 + done % 2]
            copied = {name: array.copy() for name, array in self._slots[done % 2].items()} if copy else {}
            if header[0] < done + 2:
                return version, copied
            os.sched_yield()
        raise RunError(f"parameters were replaced {_RETRIES} times in a row while they were copied: publish less often")


def _nbytes(schema: Schema, tags: int) -> int:
    return (1 + tags) * (_HEADER + 2 * block_nbytes(schema, ()))


def check_newer(version: int, newest: int) -> None:
    """Raise `ValueError` unless `version` may follow `newest`."""
    if version <= newest or version < 0:
        raise ValueError(f"version {version} cannot be published: the newest is {newest}, and versions only grow")


def check_tag(name: str) -> str:
    """`name`, or `ValueError` where only publishing may move it."""
    if name == LATEST:
        raise ValueError("the tag 'latest' moves by publishing alone")
    return name


def not_kept(source: int | str, kept: list[tuple[str, int]]) -> ValueError:
    """The error for a `source` that is neither a tag nor the version of one."""
    known = ", ".join(f"{tag} = {version}" for tag, version in kept) or "nothing was published"
    return ValueError(f"parameters {source!r} are not kept ({known})")
