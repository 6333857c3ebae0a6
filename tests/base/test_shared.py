"""Anonymous shared memory."""

import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from srl_core.base.errors import UserError
from srl_core.base.hardware import available_memory
from srl_core.base.shared import SharedBlock


def test_a_child_shares_the_block() -> None:
    block = SharedBlock.create("test", 100)
    code = (
        "import sys; from srl_core.base.shared import SharedBlock; b = SharedBlock.open(int(sys.argv[1]), 100);"
        "print(bytes(b.buffer[:3])); b.buffer[99] = 7"
    )
    block.buffer[:3] = b"abc"
    done = subprocess.run(
        [sys.executable, "-c", code, str(block.fd)], pass_fds=[block.fd], capture_output=True, check=True
    )
    assert done.stdout == b"b'abc'\n"
    assert block.buffer[99] == 7


def test_it_is_zeroed_sealed_and_without_a_name() -> None:
    before = set(os.listdir("/dev/shm"))
    block = SharedBlock.create("test", mmap.PAGESIZE + 1)
    assert set(os.listdir("/dev/shm")) == before
    assert not np.frombuffer(block.buffer, np.uint8).any()
    for size in (0, 2 * mmap.PAGESIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(block.fd, size)


def test_too_little_memory_is_said_at_once() -> None:
    need = available_memory() * 4
    with pytest.raises(UserError, match=f"shared memory for ring needs {need} bytes, but only [0-9]+ are available"):
        SharedBlock.create("ring", need)


def test_a_smaller_block_is_refused() -> None:
    block = SharedBlock.create("test", 100)
    with pytest.raises(ValueError, match="has 100 bytes, expected 200"):
        SharedBlock.open(block.fd, 200)


def test_views_outlive_the_descriptor() -> None:
    block = SharedBlock.create("test", 64)
    view = np.frombuffer(block.buffer, np.uint8)
    block.close()
    block.close()
    view_before = view.copy()
    del block
    np.testing.assert_array_equal(view, view_before)


def test_an_empty_block_is_possible() -> None:
    assert len(SharedBlock.create("test", 0).buffer) == 1
