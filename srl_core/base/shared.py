"""Anonymous shared memory: no name, so nothing can be left behind, and no other process can unlink it."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os

from srl_core.base.errors import UserError
from srl_core.base.hardware import available_memory


class SharedBlock:
    """A zeroed block of bytes that the creator and the processes that inherit its descriptor share.

    All of it is allocated at once, so that too little memory is an error at the start and never a SIGBUS later, and
    its size is sealed, so that nobody can take pages away from the others.
    """

    def __init__(self, fd: int, nbytes: int) -> None:
        self.fd = fd
        self.nbytes = nbytes
        self.buffer = memoryview(mmap.mmap(fd, nbytes))

    @classmethod
    def create(cls, name: str, nbytes: int) -> SharedBlock:
        """A new block; `name` is only shown by the kernel. `UserError` where memory does not suffice."""
        nbytes = max(nbytes, 1)
        available = available_memory()
        if nbytes > available:
            raise UserError(f"shared memory for {name} needs {nbytes} bytes, but only {available} are available")
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(fd, 0, nbytes)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            return cls(fd, nbytes)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise UserError(
                    f"shared memory for {name} needs {nbytes} bytes, which the system refuses: {error.strerror}"
                ) from None
            raise

    @classmethod
    def open(cls, fd: int, nbytes: int) -> SharedBlock:
        """The block behind an inherited descriptor; `ValueError` where it is smaller than `nbytes`."""
        size = os.fstat(fd).st_size
        if size < max(nbytes, 1):
            raise ValueError(f"shared block {fd} has {size} bytes, expected {nbytes}")
        return cls(fd, max(nbytes, 1))

    def close(self) -> None:
        """Close the descriptor; the memory itself goes when the last array that views it does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
