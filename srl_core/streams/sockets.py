"""What both socket streams need: ends that send and receive single frames, and count what they refuse."""

from __future__ import annotations

import select
import socket
from collections import Counter
from typing import Any

import zmq

from srl_core.base.codec import HEADER_NBYTES
from srl_core.base.stop import StopFlag
from srl_core.streams.waiting import wait_for_news

COPY_BELOW = 65536
"""Bytes: smaller messages are cheaper to copy than to share with the socket's threads."""

LINGER_SECONDS = 0.5
"""How long closing may wait for messages that were sent but have not left this process."""


def listen() -> socket.socket:
    """A socket that listens on a free port of the loopback interface; its owner may start later than its peers."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    return listener


def address(port: int) -> str:
    return f"tcp://127.0.0.1:{port}"


class SocketEnd:
    """One end: a DEALER that connects to a port, or a ROUTER that serves an inherited listening descriptor."""

    def __init__(self, port: int, stop: StopFlag, *, max_nbytes: int, queue: int, listener: int | None = None) -> None:
        """`max_nbytes` of any message to be received; `queue`: messages that may wait for each peer."""
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER if listener is None else zmq.ROUTER)
        self._router = listener is not None
        self._socket.set(zmq.MAXMSGSIZE, max(max_nbytes, HEADER_NBYTES))
        self._socket.set(zmq.LINGER, int(LINGER_SECONDS * 1000))  # also for an end that nobody closes
        # A full queue is reopened only when half of it has been read, so half of it does not count.
        self._socket.set(zmq.SNDHWM, 2 * queue + 2)
        self._socket.set(zmq.RCVHWM, 2 * queue + 2)
        if listener is None:
            self._socket.connect(address(port))
        else:
            self._socket.set(zmq.USE_FD, listener)
            self._socket.bind(address(port))
        self._copy = max_nbytes < COPY_BELOW
        self._stop = stop.fileno()
        self._poll = select.epoll()
        for fd in (self._socket.fileno(), self._stop):
            self._poll.register(fd, select.EPOLLIN)
        self.rejected: Counter[str] = Counter()
        """Messages that were refused, by reason."""

    def watch(self, fd: int) -> None:
        """End waits also when `fd` is readable."""
        self._poll.register(fd, select.EPOLLIN)

    def receive(self) -> tuple[bytes, memoryview] | None:
        """Sender and frame of the next message, if one is here. Messages of several frames are refused."""
        socket = self._socket
        while True:
            try:
                sender = socket.recv(zmq.DONTWAIT) if self._router else b""
                frame = memoryview(socket.recv(zmq.DONTWAIT)) if self._copy else self._share()
            except zmq.Again:
                return None
            if not socket.rcvmore:
                return sender, frame
            self.rejected["frames"] += 1
            while socket.rcvmore:
                socket.recv()

    def _share(self) -> memoryview:
        frame = self._socket.recv(zmq.DONTWAIT, copy=False)
        return frame.buffer

    def wait(self, deadline: float) -> bool:
        """Wait for news until `deadline` (`time.monotonic()`); False where it has passed. Raises `Stopped`.

        To be called right after `receive` returned None: what arrives is announced once, to any call on the socket.
        """
        return wait_for_news(self._poll, self._stop, deadline)

    def send(self, message: Any, peer: bytes = b"") -> bool:
        """Send one frame; False if the peer is gone or takes no more. Large ones must not change until received."""
        try:
            if self._router:
                self._socket.send(peer, zmq.DONTWAIT | zmq.SNDMORE)
            self._socket.send(message, zmq.DONTWAIT, copy=len(message) < COPY_BELOW)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        self._poll.close()
        self._socket.close()
        self._context.term()
