"""The stop flag, within a process and across processes."""

import os
import select
import signal
import subprocess
import sys
import threading
import time

from srl_core.base.stop import StopFlag


def test_a_flag_is_set_once_and_stays() -> None:
    stop = StopFlag()
    assert not stop.is_set()
    assert not stop.wait(0.0)
    stop.set()
    stop.set()
    assert stop.is_set()
    assert stop.wait(0.0)


def test_a_wait_without_the_flag_lasts_as_long_as_asked() -> None:
    stop, began = StopFlag(), time.monotonic()
    assert not stop.wait(0.05)
    assert time.monotonic() - began >= 0.045


def test_a_waiting_thread_is_woken() -> None:
    stop, woken = StopFlag(), []
    thread = threading.Thread(target=lambda: woken.append(stop.wait(60)))
    thread.start()
    stop.set()
    thread.join(30)
    assert woken == [True]


def test_other_waits_can_watch_the_descriptor() -> None:
    stop = StopFlag()
    poll = select.poll()
    poll.register(stop.fileno(), select.POLLIN)
    assert not poll.poll(0)
    stop.set()
    assert poll.poll(0)
    assert poll.poll(0)  # nobody uses it up


def test_it_can_be_set_in_a_signal_handler() -> None:
    stop = StopFlag()
    before = signal.signal(signal.SIGUSR1, lambda *_: stop.set())
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.wait(30)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_child_sees_the_parent_s_flag() -> None:
    stop = StopFlag()
    code = (
        "import sys; from srl_core.base.stop import StopFlag; s = StopFlag(int(sys.argv[1]));"
        "print(s.is_set(), flush=True); print(s.wait(60), flush=True)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(stop.fileno())], pass_fds=[stop.fileno()], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "False\n"
    stop.set()
    assert child.communicate(timeout=60)[0] == "True\n"
