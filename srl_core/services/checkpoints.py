"""Checkpoints: nested state in a directory of its own, which is whole or not there, and is checked when it is read.

    checkpoints/000000001200/
        arrays.safetensors   every array, bit for bit
        state.json           the nesting, with numbers and texts; arrays by name
        manifest.json        format, step, and size and SHA-256 of the two files above

A directory appears under its name only when all of it is on the disk. Where the newest cannot be read, the one before
it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.numpy

from srl_core.base.errors import RunError, UserError
from srl_core.base.files import sync_directory, write_synced
from srl_core.services.state import decode, encode

FORMAT = 1

_ARRAYS, _STATE, _MANIFEST = "arrays.safetensors", "state.json", "manifest.json"
_NAME = re.compile(r"(\d{12})(?:-(\d+))?")
_TEMPORARY = ".saving-"
_LARGEST_MANIFEST = 65536
"""Bytes."""

_log = logging.getLogger(__name__)


class DamagedCheckpoint(Exception):
    """A checkpoint that is not what was written; the message says which file and why."""


class Checkpoints:
    """The checkpoints in one directory: written by one process, read by any."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        """`keep` newest ones stay; the directory is made by the first `save`."""
        self._directory, self._keep = directory, keep

    def save(self, step: int, state: Mapping[str, Any]) -> Path:
        """Write `state` as the newest checkpoint, durably, and return its directory.

        `state` is nested dicts (text or integer keys), lists and tuples (read back as lists) of arrays, numbers of any
        size, texts, booleans and None. Checkpoints of this step or later ones are removed: a run that went back to an
        older one has left them behind. Raises `OSError` (a full disk, say), after which all others are as before, and
        `TypeError` for a value of another type.
        """
        tree, arrays = encode(state)
        files = {_ARRAYS: safetensors.numpy.save(arrays), _STATE: json.dumps(tree, allow_nan=False).encode()}
        manifest = {
            "format": FORMAT,
            "step": step,
            "files": {n: {"bytes": len(d), "sha256": hashlib.sha256(d).hexdigest()} for n, d in files.items()},
        }
        files[_MANIFEST] = (json.dumps(manifest, indent=2) + "\n").encode()
        self._directory.mkdir(parents=True, exist_ok=True)
        for left_over in self._directory.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(left_over)
        others = self._list()
        path = self._directory / self._free_name(step, others)
        temporary = self._directory / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            temporary.mkdir()
            for name, data in files.items():
                write_synced(temporary / name, data)
            sync_directory(temporary)
            temporary.rename(path)
        except BaseException:
            with contextlib.suppress(OSError):
                shutil.rmtree(temporary)
            raise
        sync_directory(self._directory)
        earlier = [other for other in others if _key(other)[0] < step]
        kept = earlier[max(0, len(earlier) - self._keep + 1) :]
        for other in others:
            if other not in kept:  # under another name first: nobody takes what is left of it for a checkpoint
                shutil.rmtree(other.rename(self._directory / f"{_TEMPORARY}{secrets.token_hex(8)}"))
        return path

    def load_latest(self) -> tuple[int, Any] | None:
        """Step and state of the newest checkpoint that is whole; None where there is no checkpoint at all.

        Logs a warning for each damaged one that it passes over; `RunError` where none can be read, `UserError` where
        the newest was written in a newer format.
        """
        damaged: set[Path] = set()
        while found := [path for path in self._list() if path not in damaged]:
            try:
                return _read(found[-1])
            except DamagedCheckpoint as error:
                if found[-1].exists():  # else the writing process has replaced it by a newer one: look again
                    _log.warning("checkpoint passed over: %s", error)
                    damaged.add(found[-1])
        if damaged:
            raise RunError(f"no checkpoint in {self._directory} can be read: {len(damaged)} are damaged")
        return None

    def load(self, path: Path) -> tuple[int, Any]:
        """Step and state of the checkpoint at `path`; `UserError` where it is none, damaged, or of a newer format."""
        try:
            return _read(path)
        except DamagedCheckpoint as error:
            raise UserError(f"checkpoint {path} cannot be read: {error}") from None

    def _list(self) -> list[Path]:
        """All checkpoints, oldest first."""
        if not self._directory.is_dir():
            return []
        return sorted((p for p in self._directory.iterdir() if _NAME.fullmatch(p.name)), key=_key)

    @staticmethod
    def _free_name(step: int, others: list[Path]) -> str:
        same = [_key(other)[1] for other in others if _key(other)[0] == step]
        return f"{step:012d}-{max(same) + 1}" if same else f"{step:012d}"


def _key(path: Path) -> tuple[int, int]:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1]), int(match[2] or 0)


def _read(path: Path) -> tuple[int, Any]:
    manifest = _parse(path / _MANIFEST, _contents(path / _MANIFEST))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise DamagedCheckpoint(f"{path / _MANIFEST} has no format")
    if manifest["format"] > FORMAT:
        raise UserError(f"checkpoint {path} has format {manifest['format']}; this version reads up to {FORMAT}")
    step, files = manifest.get("step"), manifest.get("files")
    if not isinstance(step, int) or not isinstance(files, dict) or set(files) != {_ARRAYS, _STATE}:
        raise DamagedCheckpoint(f"{path / _MANIFEST} lacks its step or its files")
    if (match := _NAME.fullmatch(path.name)) and int(match[1]) != step:
        raise DamagedCheckpoint(f"{path / _MANIFEST} is that of step {step}")
    contents = {}
    for name, expected in files.items():
        size = expected.get("bytes") if isinstance(expected, dict) else None
        if not isinstance(size, int):
            raise DamagedCheckpoint(f"{path / _MANIFEST} lacks the size of {name}")
        data = contents[name] = _contents(path / name, size)
        actual = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        if expected != actual:
            raise DamagedCheckpoint(f"{path / name} is not what was written: {len(data)} bytes of another SHA-256")
    try:
        arrays = safetensors.numpy.load(contents[_ARRAYS])
    except (safetensors.SafetensorError, KeyError, TypeError) as error:  # the latter two for types unknown to NumPy
        raise DamagedCheckpoint(f"{path / _ARRAYS}: {error}") from None
    try:
        return step, decode(_parse(path / _STATE, contents[_STATE]), arrays)
    except (ValueError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path / _STATE}: {error}") from None


def _contents(path: Path, size: int = _LARGEST_MANIFEST) -> bytes:
    """At most `size` bytes of a file, and one more where it is too long: a damaged file takes no memory."""
    try:
        with path.open("rb") as file:
            return file.read(max(0, min(size, os.fstat(file.fileno()).st_size)) + 1)
    except OSError as error:
        raise DamagedCheckpoint(f"{path}: {os.strerror(error.errno or 0)}") from None


def _parse(path: Path, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedCheckpoint(f"{path} is not JSON: {error}") from None
