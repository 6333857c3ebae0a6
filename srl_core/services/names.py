"""The name service: where processes that do not know each other yet leave their addresses."""

from __future__ import annotations

import re
import threading
import time
import urllib.parse
from pathlib import Path
from typing import Protocol

from srl_core.api.streams import Stopped
from srl_core.base.errors import UserError
from srl_core.base.files import write_atomic
from srl_core.base.stop import StopFlag

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_POLL_SECONDS = 0.02


class NameService(Protocol):
    """Text values under keys such as `run/trainer-0`: words of letters, digits, `.`, `_` and `-`, joined by `/`.

    Every method raises `ValueError` for any other key.
    """

    def set(self, key: str, value: str) -> None:
        """Set or replace; readers see the old value or the new one."""
        ...

    def get(self, key: str) -> str | None: ...

    def delete(self, key: str) -> None:
        """Forget the key; nothing happens where it is not set."""
        ...

    def list(self, prefix: str = "") -> list[str]:
        """All keys that are `prefix` or lie below `prefix/`, sorted; all keys for an empty prefix."""
        ...

    def wait(self, key: str, timeout: float, stop: StopFlag) -> str:
        """The value of `key`, waiting for it at most `timeout` seconds.

        Raises `TimeoutError` that names the key, and `Stopped` once `stop` is set.
        """
        deadline = time.monotonic() + timeout
        while (value := self.get(key)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"nobody has set {key!r} within {timeout} s")
            if stop.wait(min(_POLL_SECONDS, left)):
                raise Stopped
        return value


class InMemoryNames(NameService):
    """For one process."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        with self._lock:
            self._values[_checked(key)] = value

    def get(self, key: str) -> str | None:
        with self._lock:
            return self._values.get(_checked(key))

    def delete(self, key: str) -> None:
        with self._lock:
            self._values.pop(_checked(key), None)

    def list(self, prefix: str = "") -> list[str]:
        with self._lock:
            return _below(prefix, list(self._values))


class FileNames(NameService):
    """One small file a key, in a directory that all processes (of all hosts, on a shared file system) see."""

    def __init__(self, directory: Path) -> None:
        """`UserError` where the directory cannot be written."""
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_atomic(directory / ".writable", b"")
        except OSError as error:
            raise UserError(f"name service directory {directory} cannot be written: {error.strerror}") from None

    def set(self, key: str, value: str) -> None:
        write_atomic(self._path(key), value.encode())

    def get(self, key: str) -> str | None:
        try:
            return self._path(key).read_bytes().decode()
        except FileNotFoundError:
            return None

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def list(self, prefix: str = "") -> list[str]:
        names = [p.name for p in self._directory.iterdir() if not p.name.startswith(".")]
        return _below(prefix, [urllib.parse.unquote(name) for name in names])

    def _path(self, key: str) -> Path:
        # One flat directory: `a` and `a/b` can both be set, and no key can name a file outside.
        return self._directory / urllib.parse.quote(_checked(key), safe="")


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key) or len(urllib.parse.quote(key, safe="")) > 200:  # file names end at 255 bytes
        raise ValueError(f"{key!r} is not a key: up to 200 letters, digits, '.', '_', '-' in words joined by '/'")
    return key


def _below(prefix: str, keys: list[str]) -> list[str]:
    if prefix:
        _checked(prefix)
    return sorted(k for k in keys if not prefix or k == prefix or k.startswith(prefix + "/"))
