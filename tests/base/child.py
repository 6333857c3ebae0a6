"""A child process for the tests: says that it is there, then does what its arguments say."""

from __future__ import annotations

import os
import signal
import sys

from srl_core.base.processes import die_with_parent


def main() -> None:
    ready, parent, code = (int(argument) for argument in sys.argv[1:])
    die_with_parent(parent)
    os.eventfd_write(ready, 1)
    if code < 0:
        signal.pause()
    print("bye")
    sys.exit(code)


if __name__ == "__main__":
    main()
