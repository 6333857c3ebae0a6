"""Inference streams over loopback TCP.

All requests that a client has staged travel as one frame: header, a table of (member, number, rows), and the block of
each request. Replies travel likewise. A server keeps no more than the newest request of each member.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from srl_core.api import PolicySpec, Requests
from srl_core.base.arrays import ALIGNMENT, Arrays, Schema, check, zeros
from srl_core.base.codec import HEADER_NBYTES, TOKEN_NBYTES, Envelope, Malformed, schema_hash
from srl_core.base.errors import RunError
from srl_core.base.stop import StopFlag
from srl_core.streams.copying import Layout, copy_into, targets_of
from srl_core.streams.links import InferenceSize, check_request, policy_spec_from_json, policy_spec_to_json
from srl_core.streams.sockets import SocketEnd, listen

REQUEST, REPLY = 3, 4

_FLUSHES = 100
"""Messages that a client may send without ever waiting for a reply."""

_ENTRY_NBYTES = 24
"""Bytes of an entry of the table: int64 member, number, rows."""


class SocketInferenceLink:
    """See `InferenceLink`."""

    def __init__(
        self, spec: PolicySpec, size: InferenceSize, stop: StopFlag, token: bytes, listeners: list[socket.socket]
    ) -> None:
        """`listeners`: one for each server."""
        self._spec, self._size, self._stop, self._token, self._listeners = spec, size, stop, token, listeners
        self._requests = _Wire(REQUEST, spec.request, size, token)
        self._replies = _Wire(REPLY, spec.reply, size, token)

    @classmethod
    def create(cls, spec: PolicySpec, size: InferenceSize, stop: StopFlag) -> SocketInferenceLink:
        listeners = [listen() for _ in range(size.servers)]
        return cls(spec, size, stop, secrets.token_bytes(TOKEN_NBYTES), listeners)

    @classmethod
    def open(cls, descriptor: Mapping[str, Any], stop: StopFlag) -> SocketInferenceLink:
        spec, size = policy_spec_from_json(descriptor["spec"]), InferenceSize(**descriptor["size"])
        listeners = [socket.socket(fileno=int(fd)) for fd in descriptor["listeners"]]
        return cls(spec, size, stop, bytes.fromhex(descriptor["token"]), listeners)

    def descriptor(self) -> dict[str, Any]:
        return {
            "backend": "socket",
            "spec": policy_spec_to_json(self._spec),
            "size": vars(self._size),
            "token": self._token.hex(),
            "listeners": self.fds(),
        }

    def fds(self) -> list[int]:
        return [listener.fileno() for listener in self._listeners]

    def client(self, index: int) -> SocketClient:
        port = self._listeners[index % self._size.servers].getsockname()[1]
        end = SocketEnd(port, self._stop, max_nbytes=self._replies.max_nbytes, queue=_FLUSHES + self._size.members)
        return SocketClient(index, self._size, self._requests, self._replies, end)

    def server(self, index: int) -> SocketServer:
        listener = self._listeners[index]
        end = SocketEnd(
            listener.getsockname()[1],
            self._stop,
            max_nbytes=self._requests.max_nbytes,
            queue=_FLUSHES + self._size.members,
            listener=os.dup(listener.fileno()),
        )
        return SocketServer(index, self._size, self._requests, self._replies, end)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()


class _Wire:
    """Layout of the messages of one direction."""

    def __init__(self, kind: int, schema: Schema, size: InferenceSize, token: bytes) -> None:
        self.kind, self.schema, self.size = kind, schema, size
        self.envelope = Envelope(token, schema_hash(schema, {"members": size.members, "rows": size.rows}))
        self._layouts = {n: Layout(schema, (n,)) for n in range(1, size.rows + 1)}
        self.max_nbytes = self.start(size.members) + size.members * self._layouts[size.rows].nbytes

    @staticmethod
    def start(parts: int) -> int:
        """Where the first block of a message of so many parts begins."""
        return HEADER_NBYTES + -(-parts * _ENTRY_NBYTES // ALIGNMENT) * ALIGNMENT

    def pack(self, buffer: memoryview, sender: int, parts: list[tuple[int, int, int, Arrays]]) -> memoryview:
        """Lay out (member, number, rows, arrays) in `buffer`; what is to be sent of it."""
        self.envelope.seal(buffer, self.kind, sender, 0, 0, len(parts))
        table = np.array([part[:3] for part in parts], np.int64)
        buffer[HEADER_NBYTES : HEADER_NBYTES + table.nbytes] = table.data.cast("B")
        offset = self.start(len(parts))
        for _, _, rows, arrays in parts:
            copy_into(targets_of(self._layouts[rows].views(buffer, offset)), arrays)
            offset += self._layouts[rows].nbytes
        return buffer[:offset]

    def unpack(self, message: memoryview) -> tuple[int, list[tuple[int, int, int, Arrays]]]:
        """Sender, and the parts as views of `message`; `Malformed` where anything is not as it must be."""
        header = self.envelope.open(message)
        if header.kind != self.kind or header.flags:
            raise Malformed("kind")
        if not 1 <= header.count <= self.size.members or len(message) < self.start(header.count):
            raise Malformed("shape")
        table = np.frombuffer(message, np.int64, 3 * header.count, HEADER_NBYTES).reshape(-1, 3).tolist()
        if any(not (0 <= m < self.size.members and 1 <= rows <= self.size.rows) for m, _, rows in table):
            raise Malformed("shape")
        offset = self.start(header.count)
        if len(message) != offset + sum(self._layouts[rows].nbytes for _, _, rows in table):
            raise Malformed("size")
        parts = []
        for member, number, rows in table:
            parts.append((member, number, rows, self._layouts[rows].views(message, offset)))
            offset += self._layouts[rows].nbytes
        return header.sender, parts


class SocketClient:
    """See `InferenceClient`."""

    def __init__(self, index: int, size: InferenceSize, requests: _Wire, replies: _Wire, end: SocketEnd) -> None:
        self._index, self._size, self._requests, self._replies, self._end = index, size, requests, replies, end
        self._staging = [zeros(requests.schema, (size.rows,)) for _ in range(size.members)]
        self._staged: dict[int, int] = {}
        """Rows by member."""
        self._buffer = memoryview(bytearray(requests.max_nbytes))
        self._newest = [0] * size.members
        self._arrived: dict[int, Arrays] = {}
        self.rejected = end.rejected

    def post(self, member: int, request: Arrays) -> None:
        n = check_request(request, self._size.rows)
        copy_into(targets_of({name: array[:n] for name, array in self._staging[member].items()}), request)
        if member not in self._staged:
            self._newest[member] += 1
        self._staged[member] = n
        self._arrived.pop(member, None)

    def flush(self) -> None:
        if not self._staged:
            return
        parts = [
            (member, self._newest[member], n, {name: array[:n] for name, array in self._staging[member].items()})
            for member, n in self._staged.items()
        ]
        self._staged.clear()
        if not self._end.send(bytes(self._requests.pack(self._buffer, self._index, parts))):
            raise RunError(f"client {self._index} has posted again and again, but its policy worker reads nothing")

    def collect(self, member: int, timeout: float) -> Arrays | None:
        if member not in self._arrived:
            self._take_in()
            if member not in self._arrived and timeout > 0:
                deadline = time.monotonic() + timeout
                while member not in self._arrived and self._end.wait(deadline):
                    self._take_in()
        return self._arrived.pop(member, None)

    def _take_in(self) -> None:
        while (received := self._end.receive()) is not None:
            try:
                _, parts = self._replies.unpack(received[1])
            except Malformed as error:
                self._end.rejected[error.reason] += 1
                continue
            for member, number, _, arrays in parts:
                if number == self._newest[member]:
                    self._arrived[member] = {name: array.copy() for name, array in arrays.items()}

    def close(self) -> None:
        self._end.close()


class SocketServer:
    """See `InferenceServer`."""

    def __init__(self, index: int, size: InferenceSize, requests: _Wire, replies: _Wire, end: SocketEnd) -> None:
        self._index, self._size, self._requests, self._replies, self._end = index, size, requests, replies, end
        self._waiting: dict[tuple[int, int], tuple[bytes, int, int, Arrays]] = {}
        """Peer, number, rows and request of each (client, member), longest-waiting first."""
        self._batch: Arrays = {}
        self._buffer = memoryview(bytearray(replies.max_nbytes))
        self.rejected = end.rejected

    def receive(self, max_rows: int, timeout: float) -> Requests | None:
        self._take_in()
        if not self._waiting and timeout > 0:
            deadline = time.monotonic() + timeout
            while not self._waiting and self._end.wait(deadline):
                self._take_in()
        return self._gather(max_rows) if self._waiting else None

    def _take_in(self) -> None:
        while (received := self._end.receive()) is not None:
            peer, message = received
            try:
                client, parts = self._requests.unpack(message)
                if client >= self._size.clients or client % self._size.servers != self._index:
                    raise Malformed("sender")
            except Malformed as error:
                self._end.rejected[error.reason] += 1
                continue
            for member, number, rows, arrays in parts:
                # A newer request takes the place, in the queue too, of one that nobody waits for any more.
                self._waiting[client, member] = (peer, number, rows, arrays)

    def _gather(self, max_rows: int) -> Requests:
        chosen: list[tuple[int, int]] = []
        total = 0
        for key, (_, _, rows, _) in self._waiting.items():
            if chosen and total + rows > max_rows:
                break
            chosen.append(key)
            total += rows
        if not self._batch or len(self._batch["first"]) < total:
            self._batch = zeros(self._requests.schema, (total,))
        parts: list[tuple[Any, int]] = []
        start = 0
        for client, member in chosen:
            peer, number, rows, arrays = self._waiting.pop((client, member))
            for name, array in arrays.items():
                self._batch[name][start : start + rows] = array
            parts.append(((peer, member, number), rows))
            start += rows
        return Requests({name: array[:total] for name, array in self._batch.items()}, parts)

    def reply(self, requests: Requests, replies: Arrays) -> None:
        check(replies, self._replies.schema, (requests.rows,))
        by_peer: dict[bytes, list[tuple[int, int, int, Arrays]]] = {}
        start = 0
        for (peer, member, number), rows in requests.parts:
            part = {name: array[start : start + rows] for name, array in replies.items()}
            by_peer.setdefault(peer, []).append((member, number, rows, part))
            start += rows
        for peer, parts in by_peer.items():
            self._end.send(bytes(self._replies.pack(self._buffer, self._index, parts)), peer)

    def close(self) -> None:
        self._end.close()
