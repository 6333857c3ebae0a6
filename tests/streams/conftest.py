"""A stop flag and links that are closed after each test, ends first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from srl_core.base.stop import StopFlag
from tests.streams.specs import inference_link, sample_link


@pytest.fixture
def stop() -> StopFlag:
    return StopFlag()


class Ends:
    """A link whose ends are closed with it."""

    def __init__(self, link, stack: ExitStack) -> None:
        self.link, self._stack = link, stack

    def _end(self, kind: str, index: int):
        end = getattr(self.link, kind)(index)
        self._stack.callback(end.close)
        return end

    def producer(self, index: int = 0):
        return self._end("producer", index)

    def consumer(self, index: int = 0):
        return self._end("consumer", index)

    def client(self, index: int = 0):
        return self._end("client", index)

    def server(self, index: int = 0):
        return self._end("server", index)


@pytest.fixture
def samples(stop: StopFlag) -> Iterator[Callable[..., Ends]]:
    """`samples(backend, **size)`: a sample stream."""
    with ExitStack() as stack:

        def make(backend: str, *args, **size) -> Ends:
            link = sample_link(backend, stop, *args, **size)
            stack.callback(link.close)
            return Ends(link, stack)

        yield make


@pytest.fixture
def inference(stop: StopFlag) -> Iterator[Callable[..., Ends]]:
    """`inference(backend, **size)`: an inference stream."""
    with ExitStack() as stack:

        def make(backend: str, **size) -> Ends:
            link = inference_link(backend, stop, **size)
            stack.callback(link.close)
            return Ends(link, stack)

        yield make
