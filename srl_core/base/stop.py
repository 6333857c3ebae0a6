"""The run's stop flag: one eventfd that every process inherits and that every blocking wait also watches."""

from __future__ import annotations

import os
import select


class StopFlag:
    """Set once, never cleared. Its descriptor is readable from then on, so `select.poll` can wait for it."""

    def __init__(self, fd: int | None = None) -> None:
        """A new flag, or (with `fd`) the one that a parent process handed down."""
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) if fd is None else fd
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._set = False

    def fileno(self) -> int:
        return self._fd

    def set(self) -> None:
        """Ask everybody to stop; safe in a signal handler."""
        self._set = True
        os.eventfd_write(self._fd, 1)

    def is_set(self) -> bool:
        return self._set or self.wait(0)

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the flag; whether it is set."""
        if not self._set:
            self._set = bool(self._poll.poll(timeout * 1000))
        return self._set
