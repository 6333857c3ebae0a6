"""Waiting for other processes: eventfds as wake-up hints, never without the stop flag."""

from __future__ import annotations

import contextlib
import os
import select
import time

from srl_core.api import Stopped
from srl_core.base.stop import StopFlag


def make_event() -> int:
    """A new eventfd for `Waiter` and `wake`."""
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)


def wake(fd: int) -> None:
    """End the wait on this eventfd, or the next one if nobody waits now."""
    with contextlib.suppress(BlockingIOError):  # the counter is at its limit, so it is readable anyway
        os.eventfd_write(fd, 1)


def clear(fd: int) -> None:
    """Take back the wake-ups so far; look at what they announced afterwards, never before."""
    with contextlib.suppress(BlockingIOError):
        os.eventfd_read(fd)


class Waiter:
    """One end's wait for wake-ups. After each, the caller looks at the counters again: a wake-up is only a hint."""

    def __init__(self, fd: int, stop: StopFlag) -> None:
        self._fd, self._stop = fd, stop.fileno()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._poll.register(self._stop, select.POLLIN)

    def wait(self, deadline: float) -> bool:
        """Wait for a wake-up until `deadline` (`time.monotonic()`); False where it has passed. Raises `Stopped`."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        for fd, _ in self._poll.poll(min(left, 3600.0) * 1000):
            if fd == self._stop:
                raise Stopped
            clear(fd)
        return True
