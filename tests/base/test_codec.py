"""Headers of messages."""

from __future__ import annotations

import numpy as np
import pytest

from srl_core.base.arrays import ArraySpec
from srl_core.base.codec import HEADER_NBYTES, Envelope, Header, Malformed, schema_hash

SCHEMA = {"a": ArraySpec((3,), "float32"), "b": ArraySpec((), "bool")}
TOKEN = bytes(range(16))


def sealed(token: bytes = TOKEN, schema: bytes = schema_hash(SCHEMA, {})) -> bytearray:
    message = bytearray(HEADER_NBYTES)
    Envelope(token, schema).seal(message, 3, 17, 2**63, 2**32 - 1, 5, 1)
    return message


def test_a_header_comes_back_as_it_was() -> None:
    header = Envelope(TOKEN, schema_hash(SCHEMA, {})).open(sealed())
    assert header == Header(kind=3, flags=1, sender=17, number=2**63, slot=2**32 - 1, count=5)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "short"),
        (bytes(sealed())[:-1], "short"),
        (b"X" + bytes(sealed())[1:], "format"),
        (bytes(sealed())[:6] + b"\7\7" + bytes(sealed())[8:], "format"),
        (bytes(sealed(token=bytes(16))), "token"),
        (bytes(sealed(schema=schema_hash(SCHEMA, {"columns": 2}))), "schema"),
    ],
)
def test_what_is_wrong_is_named(message, reason) -> None:
    with pytest.raises(Malformed) as caught:
        Envelope(TOKEN, schema_hash(SCHEMA, {})).open(message)
    assert caught.value.reason == reason


def test_random_bytes_never_pass_and_never_raise_anything_else() -> None:
    rng = np.random.default_rng(0)
    envelope = Envelope(TOKEN, schema_hash(SCHEMA, {}))
    for _ in range(2000):
        message = bytearray(sealed()) if rng.integers(2) else bytearray(HEADER_NBYTES)
        at = rng.integers(0, 36, 6)  # magic to schema, where each bit counts; kind, flags and sender are the stream's
        before = bytes(message)
        for i in at:
            message[i] = rng.integers(256)
        if message[:4] == before[:4] and message[6:8] == before[6:8] and message[12:36] == before[12:36]:
            continue
        with pytest.raises(Malformed):
            envelope.open(bytes(message))


def test_the_hash_tells_schemas_apart() -> None:
    others = [
        {"b": SCHEMA["b"], "a": SCHEMA["a"]},
        {"a": ArraySpec((4,), "float32"), "b": SCHEMA["b"]},
        {"a": ArraySpec((3,), "int32"), "b": SCHEMA["b"]},
        {"c": SCHEMA["a"], "b": SCHEMA["b"]},
        {"a": SCHEMA["a"]},
    ]
    hashes = {schema_hash(schema, {}) for schema in [SCHEMA, *others]} | {schema_hash(SCHEMA, {"length": 1})}
    assert len(hashes) == 7
    assert schema_hash(dict(SCHEMA), {}) == schema_hash(SCHEMA, {})
