"""Child processes: started, waited for, ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from srl_core.base.processes import Child, end_all, start_child, wait_any

pytestmark = pytest.mark.integration


def start(tmp_path: Path, code: int, name: str = "child") -> Child:
    """A child that is up; it exits with `code`, or never where that is negative."""
    ready = os.eventfd(0)
    child = start_child(
        name,
        "tests.base.child",
        [str(ready), str(os.getpid()), str(code)],
        fds=[ready],
        log=tmp_path / f"{name}.log",
        environment={"MARK": "1"},
    )
    os.eventfd_read(ready)
    os.close(ready)
    return child


def test_the_one_that_ends_is_reported(tmp_path: Path) -> None:
    stays, ends = start(tmp_path, -1, "stays"), start(tmp_path, 3, "ends")
    assert wait_any([stays, ends], 30) == [ends]
    assert ends.returncode == 3
    assert (tmp_path / "ends.log").read_text() == "bye\n"
    assert wait_any([stays], 0) == []
    assert stays.returncode is None
    assert end_all([stays], 0.0) == [stays]
    assert stays.returncode == -9


def test_only_those_that_do_not_end_are_killed(tmp_path: Path) -> None:
    children = [start(tmp_path, code, f"child-{i}") for i, code in enumerate((0, -1, 5))]
    began = time.monotonic()
    assert end_all(children, 2.0) == [children[1]]
    assert time.monotonic() - began >= 2.0
    assert [c.returncode for c in children] == [0, -9, 5]


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from tests.base.test_processes import start\n"
        "print(start(Path(sys.argv[1]), -1).process.pid, flush=True)\n"
        "signal.pause()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    child.wait(10)
