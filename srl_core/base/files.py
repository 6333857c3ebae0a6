"""Files that are either the old or the new one, never half of it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from srl_core.base.errors import UserError


def write_atomic(path: Path, data: bytes) -> None:
    """Make `path` a file of exactly `data`, durable when this returns; raises `OSError` and then changes nothing.

    A reader, also one after a crash or a power cut, finds the old content or the new one.
    """
    temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.tmp"
    try:
        write_synced(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_directory(path: Path) -> None:
    """Wait until the names in `path` are on the disk: without it a rename may be forgotten by a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_json(path: Path, data: Any) -> None:
    """Atomically write `data` as indented JSON; NaN and infinities are refused with `ValueError`."""
    write_atomic(path, (json.dumps(data, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Parse a JSON file; `UserError` where it is missing, unreadable or not JSON."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None
