"""Workers: a life cycle around one task. Whoever runs one does this:

worker = SomeWorker(context)        # configure: open streams and services, build the task
while not stop:
    worker.poll()                   # a bounded piece of work
worker.drain()                      # finish what must not be lost (checkpoint, buffered metrics)
worker.close()                      # always, after errors too

"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class PollResult:
    """What one poll did; a worker that did nothing must have waited for its input, not returned at once."""

    busy: bool
    finished: bool = False
    """The worker's part of the run is complete (budget reached)."""


class Worker(Protocol):
    """Hosts one task; the same code runs in a process of its own or, under the inline launcher, in a shared loop."""

    name: str

    def poll(self, timeout: float) -> PollResult:
        """Do a bounded piece of work; wait at most `timeout` seconds for input. 0 means: do not wait."""
        ...

    def drain(self) -> None: ...

    def close(self) -> None: ...
