"""A run's directory over its whole life."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from srl_core.base.errors import UserError
from srl_core.base.run_directory import RunDirectory, find_run

CONFIG = {"name": "x", "trainer": {"batch_size": 4}, "routes": [1, 2]}
END = {"wall_seconds": 5.0, "cpu_seconds": 9.0, "counts": {"env_steps_consumed": 100.0}}


def make(path: Path, config: dict | None = None) -> RunDirectory:
    return RunDirectory.create(path, CONFIG if config is None else config, seed=3, config_hash="abcd1234")


def metadata(path: Path) -> dict:
    return json.loads((path / "metadata.json").read_text())


def test_a_new_run(tmp_path: Path) -> None:
    run = make(tmp_path / "a" / "run")
    assert run.config == CONFIG
    assert metadata(run.path)["status"] == "created"
    assert run.logs.is_dir()
    assert run.checkpoints.is_dir()
    assert run.tensorboard.is_dir()
    assert run.counters() == {}
    run.start()
    started = metadata(run.path)
    assert started["status"] == "running"
    assert started["seed"] == 3
    assert started["config_hash"] == "abcd1234"
    assert started["resumes"] == 0
    assert started["ended"] is None
    assert {"python", "numpy"} <= started["versions"].keys()
    assert {"cpu", "cores", "memory_bytes", "gpus"} <= started["hardware"].keys()
    assert started.keys() >= {"format", "commit", "dirty", "started", "wall_seconds", "cpu_seconds", "counts"}
    run.finish("completed", **END)
    done = metadata(run.path)
    assert done["status"] == "completed"
    assert {k: done[k] for k in END} == END
    assert done["ended"] >= done["started"]


def test_a_failure_is_recorded_with_its_cause(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.start()
    run.finish("failed", **END, error="ValueError: root cause")
    assert metadata(tmp_path)["error"] == "ValueError: root cause"
    run.close()
    again = RunDirectory.open(tmp_path)
    again.start()
    assert metadata(tmp_path)["error"] is None


def test_time_and_counters_survive_a_resume(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.start()
    run.save_counters({"actor-0": {"frames": 8.0, "rate": float("nan")}})
    run.finish("interrupted", **END)
    run.close()
    again = RunDirectory.open(tmp_path, CONFIG)
    assert again.seconds == 5.0
    assert again.counters() == {"actor-0": {"frames": 8.0}}
    again.start()
    assert metadata(tmp_path)["resumes"] == 1
    again.finish("completed", wall_seconds=4.0, cpu_seconds=1.0, counts={})
    assert metadata(tmp_path)["wall_seconds"] == 5.0


def test_a_killed_run_s_time_goes_on_from_its_metrics(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.start()
    run.close()  # killed: no finish
    run.metrics.write_text(
        '{"kind": "a", "t": 30.5}\n{"kind": "b"}\n{"kind": "a", "t": null}\n[]\n{"kind": "a", "t": 99'
    )
    assert metadata(tmp_path)["status"] == "running"
    assert RunDirectory.open(tmp_path).seconds == 30.5


def test_time_is_found_at_the_end_of_long_metrics(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.close()
    run.metrics.write_text("".join(json.dumps({"t": float(t), "pad": "x" * 100}) + "\n" for t in range(5000)))
    assert RunDirectory.open(tmp_path).seconds == 4999.0


@pytest.mark.parametrize("path", ["/proc/run", "/dev/null/run"])
def test_an_unwritable_place_is_said(path: str) -> None:
    with pytest.raises(UserError, match=f"run directory {path} cannot be written"):
        make(Path(path))


def test_a_foreign_directory_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match=r"holds 'thesis.tex' but no run"):
        make(tmp_path)


def test_what_was_never_started_is_made_anew(tmp_path: Path) -> None:
    make(tmp_path, {"old": 1}).close()
    assert make(tmp_path).config == CONFIG


def test_a_started_run_is_not_overwritten(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.start()
    run.close()
    with pytest.raises(UserError, match="holds this run already, with status running; resume it"):
        make(tmp_path)
    with pytest.raises(UserError, match="another configuration"):
        make(tmp_path, {"name": "y"})
    with pytest.raises(UserError, match="another configuration"):
        RunDirectory.open(tmp_path, {"name": "y"})
    RunDirectory.open(tmp_path).close()  # the refusals left no lock behind


def test_a_tuple_in_the_configuration_is_the_list_in_the_file(tmp_path: Path) -> None:
    make(tmp_path).close()
    RunDirectory.open(tmp_path, {**CONFIG, "routes": (1, 2)}).close()


def test_another_format_is_refused(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.close()
    (tmp_path / "metadata.json").write_text(json.dumps({**metadata(tmp_path), "format": 99}))
    for act in (lambda: RunDirectory.open(tmp_path), lambda: RunDirectory.read(tmp_path), lambda: make(tmp_path)):
        with pytest.raises(UserError, match="holds a run of format 99; this version reads format 1"):
            act()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    run = make(tmp_path)
    code = (
        "import sys; from pathlib import Path; from srl_core.base.run_directory import RunDirectory as R\n"
        "try:\n    R.open(Path(sys.argv[1])); print('opened')\n"
        "except Exception as error:\n    print(error)\n"
    )

    def other() -> str:
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
        ).stdout

    assert other() == f"{tmp_path} is in use by the run of process {os.getpid()}; stop it first\n"
    assert RunDirectory.read(tmp_path).metadata["status"] == "created"
    run.close()
    assert other() == "opened\n"
    RunDirectory.open(tmp_path)  # the other process ended: so did its lock


def test_reading_does_not_write(tmp_path: Path) -> None:
    make(tmp_path).close()
    look = RunDirectory.read(tmp_path)
    for act in (look.start, lambda: look.finish("completed", **END), lambda: look.save_counters({})):
        with pytest.raises(RuntimeError, match="not locked"):
            act()


def test_nothing_to_open(tmp_path: Path) -> None:
    for act in (RunDirectory.open, RunDirectory.read):
        with pytest.raises(UserError, match=r"holds no run: metadata.json is missing"):
            act(tmp_path)


def test_runs_are_found_by_name_or_path(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        find_run("pong", tmp_path)
    for name in ("pong-1", "pong-2", "breakout-1"):
        make(tmp_path / name).close()
    assert find_run("pong-2", tmp_path) == tmp_path / "pong-2"
    assert find_run(str(tmp_path / "pong-1"), Path("elsewhere")) == tmp_path / "pong-1"
    with pytest.raises(UserError, match="no run 'pong-3'; did you mean pong-"):
        find_run("pong-3", tmp_path)
