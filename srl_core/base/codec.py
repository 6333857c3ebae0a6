"""Messages on the wire: a fixed header, then arrays laid out as their schema says. Numbers only, nothing is executed.

    0 magic   4 kind   5 flags   6 format   8 sender   12 token   28 schema   36 number   44 slot   48 count   64 body

The body of a message is one block (`block_views`) for each part. Shapes and dtypes are not sent: both ends derive them
from the schema, whose hash every message carries, and from the numbers in the header, which are checked before use.
A random token, which only the processes of one stream know, refuses strangers.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from srl_core.base.arrays import ALIGNMENT, Schema, schema_to_json

HEADER_NBYTES = ALIGNMENT
"""Bytes of the header with its padding, so that arrays behind it are aligned."""

COMPRESSED = 1
"""Flag: the body is an LZ4 block."""

_MAGIC, _FORMAT = b"SRLm", 1
_HEADER = struct.Struct("<4sBBHI16s8sQII")
TOKEN_NBYTES = 16


class Malformed(ValueError):
    """A message that is not to be used; `reason` is one of a few fixed words, to count by."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Header:
    """What a message says about itself. The meaning of the numbers is the stream's."""

    kind: int
    flags: int
    sender: int
    number: int
    slot: int
    count: int


def schema_hash(schema: Schema, layout: Mapping[str, object]) -> bytes:
    """8 bytes that differ where names, order, dtypes, shapes or anything in `layout` (JSON data) differ."""
    text = json.dumps([list(schema_to_json(schema).items()), layout], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


class Envelope:
    """Writes and checks the headers of one stream."""

    def __init__(self, token: bytes, schema: bytes) -> None:
        self._token, self._schema = token, schema

    def seal(
        self, buffer: memoryview | bytearray, kind: int, sender: int, number: int, slot: int, count: int, flags: int = 0
    ) -> None:
        """Write the header at the start of `buffer`."""
        _HEADER.pack_into(
            buffer, 0, _MAGIC, kind, flags, _FORMAT, sender, self._token, self._schema, number, slot, count
        )

    def open(self, message: memoryview | bytes) -> Header:
        """The header of `message`; `Malformed` where it is short, of another format or stream, or without token."""
        if len(message) < HEADER_NBYTES:
            raise Malformed("short")
        magic, kind, flags, form, sender, token, schema, number, slot, count = _HEADER.unpack_from(message)
        if magic != _MAGIC or form != _FORMAT:
            raise Malformed("format")
        if not hmac.compare_digest(token, self._token):
            raise Malformed("token")
        if schema != self._schema:
            raise Malformed("schema")
        return Header(kind, flags, sender, number, slot, count)
