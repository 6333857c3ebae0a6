"""Atomic files."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from srl_core.base.errors import UserError
from srl_core.base.files import read_json, write_atomic, write_json


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (b"old", b"", b"new" * 100_000):
        write_atomic(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_of_the_old_file_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_atomic(path, b"old")
    with path.open("rb") as reader:
        write_atomic(path, b"new")
        assert reader.read() == b"old"


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_atomic(path, b"old")
    # The limit on file sizes stands in for a full disk: a write that comes to an end in the middle.
    code = (
        "import resource, signal, sys; from pathlib import Path; from srl_core.base.files import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    write_atomic(Path(sys.argv[1]), b'n' * 5000)\n"
        "except OSError as error:\n    print(error.strerror)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


def test_a_target_that_cannot_be_replaced_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "x" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_atomic(tmp_path / "x", b"data")
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_json_round_trip_and_refusals(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": [1, 2.5, None, "é"]})
    assert read_json(path) == {"a": [1, 2.5, None, "é"]} == json.loads(path.read_text())
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="JSON"):
            write_json(path, wrong)
    assert read_json(path)["a"][0] == 1


def test_unreadable_json_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.json cannot be read: No such file"):
        read_json(tmp_path / "missing.json")
    for name, data in {"cut.json": b'{"a": 1', "bytes.json": b"\xff\xfe\x00"}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match=f"{name} is not valid JSON"):
            read_json(tmp_path / name)


def test_json_nested_too_deeply_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="not valid JSON"):
        read_json(tmp_path / "deep.json")
