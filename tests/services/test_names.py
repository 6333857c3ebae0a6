"""The contract of the name service, over both implementations."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from srl_core.api.streams import Stopped
from srl_core.base.errors import UserError
from srl_core.base.stop import StopFlag
from srl_core.services.names import FileNames, InMemoryNames, NameService


@pytest.fixture(params=["memory", "file"])
def names(request, tmp_path: Path) -> NameService:
    return InMemoryNames() if request.param == "memory" else FileNames(tmp_path / "names")


def test_values_are_set_replaced_and_deleted(names: NameService) -> None:
    assert names.get("run/trainer-0") is None
    names.set("run/trainer-0", "tcp://127.0.0.1:5000")
    names.set("run/trainer-0", "tcp://[::1]:6000 é\n")
    assert names.get("run/trainer-0") == "tcp://[::1]:6000 é\n"
    names.delete("run/trainer-0")
    names.delete("run/trainer-0")
    assert names.get("run/trainer-0") is None


def test_keys_are_listed_by_whole_words(names: NameService) -> None:
    for key in ("a", "a/b", "a/b/c", "ab", "z"):
        names.set(key, key)
    assert names.list() == ["a", "a/b", "a/b/c", "ab", "z"]
    assert names.list("a") == ["a", "a/b", "a/b/c"]
    assert names.list("a/b") == ["a/b", "a/b/c"]
    assert names.list("q") == []
    assert {key: names.get(key) for key in names.list()} == {key: key for key in names.list()}


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "..", "a/../b", ".a", "a b", "a\0", "a\n", "é", "a/" * 150 + "a"]
)
def test_keys_that_could_lead_elsewhere_are_refused(names: NameService, key: str) -> None:
    for act in (lambda: names.set(key, "x"), lambda: names.get(key), lambda: names.delete(key)):
        with pytest.raises(ValueError, match="is not a key"):
            act()
    if key:
        with pytest.raises(ValueError, match="is not a key"):
            names.list(key)


def test_the_longest_keys_work(names: NameService) -> None:
    key = "a" * 200
    names.set(key, "x")
    assert names.list() == [key]


def test_waiting_ends_with_the_value_the_time_or_the_stop_flag(names: NameService) -> None:
    stop = StopFlag()
    thread = threading.Thread(target=lambda: names.set("late", "value"))
    thread.start()
    assert names.wait("late", 30, stop) == "value"
    thread.join()
    with pytest.raises(TimeoutError, match=r"nobody has set 'never' within 0\.05 s"):
        names.wait("never", 0.05, stop)
    stop.set()
    with pytest.raises(Stopped):
        names.wait("never", 30, stop)
    assert names.wait("late", 30, stop) == "value"


def test_files_are_seen_by_other_processes(tmp_path: Path) -> None:
    names = FileNames(tmp_path)
    names.set("here", "1")
    code = (
        "import sys; from pathlib import Path; from srl_core.services.names import FileNames\n"
        "n = FileNames(Path(sys.argv[1])); n.set('there', n.get('here') + '2')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert names.get("there") == "12"


def test_a_value_is_never_half_written(tmp_path: Path) -> None:
    names, stop, seen = FileNames(tmp_path), threading.Event(), set()
    names.set("key", "0" * 5000)

    def write() -> None:
        for i in range(300):
            names.set("key", str(i % 10) * 5000)
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        seen.add(names.get("key"))
    writer.join()
    assert seen <= {str(i) * 5000 for i in range(10)}
    assert names.list() == ["key"]


def test_an_unwritable_directory_is_said() -> None:
    with pytest.raises(UserError, match="name service directory /proc/names cannot be written"):
        FileNames(Path("/proc/names"))
