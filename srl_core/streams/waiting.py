"""Waiting for other processes: eventfds as wake-up hints, never without the stop flag."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from srl_core.api import Stopped
from srl_core.base.stop import StopFlag

_T = TypeVar("_T")


def make_event() -> int:
    """A new eventfd for `wake`."""
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)


def wake(fd: int) -> None:
    """End the wait on this eventfd, or the next one if nobody waits now."""
    with contextlib.suppress(BlockingIOError):  # the counter is at its limit, so it is readable anyway
        os.eventfd_write(fd, 1)


def clear(fd: int) -> None:
    """Take back the wake-ups so far; look at what they announced afterwards, never before."""
    with contextlib.suppress(BlockingIOError):
        os.eventfd_read(fd)


def wait_for_news(poll: select.epoll, stop: int, deadline: float) -> bool:
    """Wait for any descriptor of `poll` until `deadline` (`time.monotonic()`); False where it has passed.

    Raises `Stopped` where one of them is `stop`, the stop flag's.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        return False
    for fd, _ in poll.poll(min(left, 3600.0)):
        if fd == stop:
            raise Stopped
    return True


class Doorbell:
    """Lets one end sleep until the other rings, where system calls are made only if it does sleep.

    The sleeper raises a flag in shared memory and then looks at the counters once more; who has changed a counter then
    looks at the flag. Between its write and its look each puts a full fence, so that not both can miss the other's
    write. Taking a lock is an atomic read-modify-write operation, and on x86-64 that is such a fence.
    """

    def __init__(self, flag: memoryview, event: int) -> None:
        """`flag`: one word in shared memory that only the sleeper writes; `event`: its eventfd."""
        self._flag, self._event = flag, event
        lock = threading.Lock()
        self._acquire, self._release = lock.acquire, lock.release

    def ring(self) -> None:
        """Wake the sleeper, if there is one; to be called after the counter is written."""
        self._acquire()
        self._release()
        if self._flag[0]:
            wake(self._event)


class Sleeper:
    """The sleeping end of a `Doorbell`. After each wake-up it looks at the counters again: that is only a hint."""

    def __init__(self, flag: memoryview, event: int, stop: StopFlag) -> None:
        self._flag, self._stop = flag, stop.fileno()
        self._lock = threading.Lock()
        self._poll = select.epoll()
        # Each write to the eventfd ends one wait: it need not be read, which saves a system call.
        self._poll.register(event, select.EPOLLIN | select.EPOLLET)
        self._poll.register(self._stop, select.EPOLLIN)

    def until(self, look: Callable[[], _T | None], deadline: float) -> _T | None:
        """What `look` returns as soon as that is not None, or None at `deadline` (`time.monotonic()`).

        Raises `Stopped`.
        """
        self._flag[0] = 1
        try:
            with self._lock:  # the fence
                pass
            while (found := look()) is None and wait_for_news(self._poll, self._stop, deadline):
                pass
            return found
        finally:
            self._flag[0] = 0
