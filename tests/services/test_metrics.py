"""Records to files, whatever happens to the files."""

import csv
import json
import logging
import os
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

from srl_core.base.errors import UserError
from srl_core.services import metrics as module
from srl_core.services.metrics import MetricsWriter, export_csv, read_records


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def events(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Scalars of all event files, read by TensorBoard itself."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted((path / "tensorboard").iterdir()):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    return found


def test_records_reach_both_files(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, "trainer-0")
    for step in range(3):
        writer.write("train", {"t": step / 2, "env_steps": 100 * step, "loss": 0.5 * step, "policy": "red"})
    writer.write("evaluation", {"t": 2.0, "env_steps": 300.0, "returns": [1.0, 2.5], "final": True})
    writer.close()
    found = lines(tmp_path)
    assert [r["kind"] for r in found] == ["train"] * 3 + ["evaluation"]
    assert found[2] == {"kind": "train", "t": 1.0, "env_steps": 200, "loss": 1.0, "policy": "red"}
    assert found[3]["returns"] == [1.0, 2.5]
    scalars = events(tmp_path)
    assert scalars["train/red/loss"] == [(0, 0.0), (100, 0.5), (200, 1.0)]
    assert scalars["evaluation/final"] == [(300, 1.0)]
    assert "evaluation/returns" not in scalars
    assert (writer.dropped, writer.sink_errors, writer.non_finite) == (0, 0, 0)


def test_a_writer_that_never_writes_makes_no_file(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, "actor-0")
    assert writer.flush()
    writer.close()
    assert not list(tmp_path.iterdir())


def test_numpy_numbers_and_those_that_are_not_finite(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, "w")
    numbers = {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.arange(2), "e": np.array(1.5)}
    others = {"nan": float("nan"), "inf": np.float32("inf"), "list": [1.0, float("-inf")], "none": None}
    writer.write("x", {**numbers, **others})
    writer.close()
    plain = {"a": 0.5, "b": 3, "c": True, "d": [0, 1], "e": 1.5}
    assert lines(tmp_path) == [{"kind": "x", **plain, "nan": None, "inf": None, "list": [1.0, None], "none": None}]
    assert writer.non_finite == 3
    assert "x/nan" not in events(tmp_path)


@pytest.mark.parametrize("value", [object(), {"a": 1}, b"x", [object()], 1j])
def test_other_values_are_refused_where_they_are_written(tmp_path: Path, value) -> None:
    with pytest.raises(TypeError, match="metric loss is a"):
        MetricsWriter(tmp_path, "w").write("train", {"loss": value})


def test_a_resumed_run_appends_after_half_a_line(tmp_path: Path, caplog) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "a", "t": 1}\n{"kind": "a", "t"')
    writer = MetricsWriter(tmp_path, "w")
    writer.write("a", {"t": 2})
    writer.write("b", {"t": 3})
    writer.close()
    with caplog.at_level(logging.WARNING):
        assert [r["t"] for r in read_records(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    assert "line 2 is not a whole record" in caplog.text
    assert [r["t"] for r in read_records(tmp_path / "metrics.jsonl", "a")] == [1, 2]


def test_lines_of_several_processes_never_mix(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from srl_core.services.metrics import MetricsWriter\n"
        "w = MetricsWriter(Path(sys.argv[1]), sys.argv[2])\n"
        "for i in range(500): w.write('x', {'i': i, 'who': sys.argv[2], 'pad': list(range(100))})\n"
        "w.close(); assert w.dropped == 0\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "ab"]
    assert [child.wait(60) for child in children] == [0, 0]
    found = lines(tmp_path)
    for name in "ab":
        assert [r["i"] for r in found if r["who"] == name] == list(range(500))
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2


def test_neither_torch_nor_tensorflow_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from srl_core.services.metrics import MetricsWriter\n"
        "w = MetricsWriter(Path(sys.argv[1]), 'w'); w.write('x', {'a': 1}); w.close(); assert w.sink_errors == 0\n"
        "print(sorted({'torch', 'tensorflow', 'wandb', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_files_that_cannot_be_written_stop_nothing_and_are_counted(tmp_path: Path, caplog) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    (tmp_path / "tensorboard").write_text("in the way")
    writer = MetricsWriter(tmp_path, "w")
    with caplog.at_level(logging.WARNING):
        for i in range(20):
            writer.write("x", {"i": i})
            assert writer.flush()
        assert (writer.dropped, writer.sink_errors) == (20, 20)
        assert len([r for r in caplog.records if "does not take metrics" in r.getMessage()]) == 2  # once for each
        (tmp_path / "metrics.jsonl").rmdir()
        (tmp_path / "tensorboard").unlink()
        writer.write("x", {"i": 20})  # and goes on when it can
        writer.close()
    assert lines(tmp_path) == [{"kind": "x", "i": 20}]
    assert events(tmp_path) == {"x/i": [(0, 20.0)]}


def test_a_full_disk_costs_records_only(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from srl_core.services.metrics import MetricsWriter\n"
        "w = MetricsWriter(Path(sys.argv[1]), 'w')\n"
        "w.write('x', {'i': 0}); w.flush()\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))\n"
        "for i in range(50): w.write('x', {'i': i, 'pad': 'y' * 100}); assert w.flush()\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "w.write('x', {'i': 99}); w.close(); print(w.dropped > 40, w.sink_errors > 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stdout == "True True\n", done.stderr
    found = list(read_records(tmp_path / "metrics.jsonl"))
    assert found[0]["i"] == 0
    assert found[-1]["i"] == 99


def test_a_slow_file_drops_and_never_blocks(tmp_path: Path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(module, "_QUEUE", 10)
    os.mkfifo(tmp_path / "metrics.jsonl")  # stands in for a file system that hangs: nobody reads from the pipe
    writer = MetricsWriter(tmp_path, "w")
    with caplog.at_level(logging.WARNING):
        for i in range(3000):
            writer.write("x", {"i": i, "pad": "x" * 100_000})
        assert not writer.flush(0.05)
        writer.close(0.05)
    assert writer.dropped > 2000
    assert "the rest is given up" in caplog.text
    fd = os.open(tmp_path / "metrics.jsonl", os.O_RDONLY | os.O_NONBLOCK)  # let the thread go
    for thread in threading.enumerate():
        while thread.name == "metrics-w" and thread.is_alive():
            try:
                os.read(fd, 2**20)
            except BlockingIOError:
                thread.join(0.01)
                if writer._queue.empty():
                    writer._queue.put(None)
    os.close(fd)


def test_a_slow_sink_costs_the_file_nothing(tmp_path: Path, caplog) -> None:
    entered, let_go = threading.Event(), threading.Event()

    class Slow:
        def write(self, scalars, step, now) -> None:
            entered.set()
            let_go.wait(20)

        def flush(self) -> None: ...

        def close(self) -> None: ...

    writer = MetricsWriter(tmp_path, "w")
    writer._sinks = [Slow()]
    writer.write("x", {"i": 0})
    assert entered.wait(20)
    writer.write("x", {"i": 1})
    thread = writer._thread
    writer.close(0.05)
    let_go.set()
    assert thread is not None
    thread.join(20)
    assert not thread.is_alive()
    assert [r["i"] for r in lines(tmp_path)] == [0, 1]
    assert "metrics.jsonl alone gets the rest" in caplog.text


def test_wandb_is_asked_for_before_anything_starts(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        UserError, match=r"logging\.wandb_project is 'proj', but wandb is not installed; run `pip install"
    ):
        MetricsWriter(tmp_path, "w", wandb_project="proj")


def test_wandb_gets_the_scalars(tmp_path: Path, monkeypatch) -> None:
    calls: list = []
    run = types.SimpleNamespace(log=calls.append, finish=lambda: calls.append("finish"))
    fake = types.ModuleType("wandb")
    fake.init = lambda **settings: calls.append(settings) or run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    writer = MetricsWriter(tmp_path, "trainer-0", wandb_project="proj")
    assert calls == []
    writer.write("train", {"env_steps": 5, "loss": 1.5})
    writer.close()
    name = tmp_path.name
    assert calls[0] == {"project": "proj", "group": name, "name": f"{name}/trainer-0", "dir": str(tmp_path)}
    assert calls[1]["train/loss"] == 1.5
    assert calls[1]["env_steps"] == 5
    assert calls[2] == "finish"


def test_a_csv_of_one_kind(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path, "w")
    writer.write("train", {"t": 1.0, "loss": 0.1, "policy": "a,b"})
    writer.write("evaluation", {"t": 1.5, "returns": [1.0]})
    writer.write("train", {"t": 2.0, "loss": float("nan"), "extra": 3})
    writer.close()
    export_csv(tmp_path / "metrics.jsonl", tmp_path / "train.csv", "train")
    with (tmp_path / "train.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"kind": "train", "t": "1.0", "loss": "0.1", "policy": "a,b", "extra": ""},
        {"kind": "train", "t": "2.0", "loss": "", "policy": "", "extra": "3"},
    ]


def test_lines_that_are_no_records_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "train", "t": 1}\n[1]\n7\nnull\n"x"\n{"kind": "train", "t": 2}\n{"kind": "tr')
    assert [record["t"] for record in read_records(path)] == [1, 2]
