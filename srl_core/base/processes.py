"""Child processes that cannot outlive their parent, and their orderly end."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when `parent` dies; call it first thing in a child.

    The signal fires when the thread that started this process ends, so children are started from the main thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)


@dataclass
class Child:
    """A started process."""

    name: str
    process: subprocess.Popen
    pidfd: int

    @property
    def returncode(self) -> int | None:
        return self.process.poll()


def start_child(
    name: str, module: str, arguments: Sequence[str], *, fds: Iterable[int], log: Path, environment: Mapping[str, str]
) -> Child:
    """Start `python -m module arguments` with the descriptors `fds` inherited and its output appended to `log`."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            pass_fds=tuple(fds),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
    return Child(name, process, os.pidfd_open(process.pid))


def wait_any(children: Iterable[Child], timeout: float) -> list[Child]:
    """Wait at most `timeout` seconds until a child ends; those that have ended, and have been reaped."""
    poll = select.poll()
    by_fd = {child.pidfd: child for child in children}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    ended = [by_fd[fd] for fd, _ in poll.poll(timeout * 1000)]
    for child in ended:
        child.process.wait()
        os.close(child.pidfd)
    return ended


def end_all(children: Sequence[Child], grace: float) -> list[Child]:
    """Wait `grace` seconds for all to end by themselves, then kill the rest; returns those that had to be killed."""
    left, deadline = list(children), time.monotonic() + grace
    while left and time.monotonic() < deadline:
        for child in wait_any(left, max(0.0, deadline - time.monotonic())):
            left.remove(child)
    for child in left:
        child.process.kill()
    for child in left:
        child.process.wait()
        os.close(child.pidfd)
    return left
