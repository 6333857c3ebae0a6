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
SO_FAR = {"cpu_seconds": 9.0, "counts": {"env_steps_consumed": 100.0}}


def make(path: Path, config: dict | None = None) -> RunDirectory:
    return RunDirectory.create(path, CONFIG if config is None else config, seed=3)


def metadata(path: Path) -> dict:
    return json.loads((path / "metadata.json").read_text())


def test_a_new_run(tmp_path: Path) -> None:
    run = make(tmp_path / "a" / "run")
    assert run.config == CONFIG
    assert run.logs.is_dir()
    assert run.checkpoints.is_dir()
    assert run.tensorboard.is_dir()
    assert (run.seconds, run.cpu_seconds, run.counts) == (0.0, 0.0, {})
    started = metadata(run.path)
    assert started["status"] == "running"
    assert started["seed"] == 3
    assert started["resumes"] == 0
    assert started["ended"] is None
    assert {"python", "numpy"} <= started["versions"].keys()
    assert {"cpu", "cores", "memory_bytes", "gpus"} <= started["hardware"].keys()
    assert started.keys() >= {"format", "commit", "dirty", "started", "wall_seconds", "cpu_seconds", "counts"}
    run.update(seconds=5.0, **SO_FAR)
    assert metadata(run.path)["status"] == "running"
    run.finish("completed")
    done = metadata(run.path)
    assert done["status"] == "completed"
    assert (done["wall_seconds"], done["cpu_seconds"], done["counts"]) == (5.0, *SO_FAR.values())
    assert done["ended"] >= done["started"]


def test_a_failure_is_recorded_with_its_cause(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.finish("failed", "ValueError: root cause")
    assert metadata(tmp_path)["error"] == "ValueError: root cause"
    run.close()
    make(tmp_path)
    again = metadata(tmp_path)
    assert (again["status"], again["error"], again["ended"]) == ("running", None, None)


def test_time_and_counts_survive_a_resume(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.update(seconds=5.0, **SO_FAR)
    run.finish("interrupted")
    run.close()
    again = make(tmp_path)
    assert metadata(tmp_path)["resumes"] == 1
    assert metadata(tmp_path)["started"] == run.metadata["started"]
    assert (again.seconds, again.cpu_seconds, again.counts) == (5.0, *SO_FAR.values())
    with pytest.raises(ValueError, match="training time would go back"):
        again.update(seconds=4.0, **SO_FAR)
    again.update(seconds=6.0, **SO_FAR)
    assert metadata(tmp_path)["wall_seconds"] == 6.0


def test_a_killed_run_s_time_goes_on_from_its_metrics(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.close()  # killed: no finish
    run.metrics.write_text(
        '{"kind": "a", "t": 30.5}\n{"kind": "b"}\n{"kind": "a", "t": null}\n[]\n{"kind": "a", "t": 99'
    )
    assert metadata(tmp_path)["status"] == "running"
    assert make(tmp_path).seconds == 30.5


def test_time_is_found_at_the_end_of_long_metrics(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.close()
    run.metrics.write_text("".join(json.dumps({"t": float(t), "pad": "x" * 100}) + "\n" for t in range(5000)))
    assert make(tmp_path).seconds == 4999.0


@pytest.mark.parametrize("path", ["/proc/run", "/dev/null/run"])
def test_an_unwritable_place_is_said(path: str) -> None:
    with pytest.raises(UserError, match=f"run directory {path} cannot be written"):
        make(Path(path))


def test_a_foreign_directory_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UserError, match=r"holds 'thesis.tex' but no run"):
        make(tmp_path)


def test_what_a_killed_start_left_is_taken(tmp_path: Path) -> None:
    make(tmp_path, {"old": 1}).close()
    (tmp_path / "metadata.json").unlink()
    assert make(tmp_path).config == CONFIG


def test_a_run_of_another_configuration_is_not_taken(tmp_path: Path) -> None:
    make(tmp_path).close()
    with pytest.raises(UserError, match="holds a run with another configuration"):
        make(tmp_path, {"name": "y"})
    assert RunDirectory.open(tmp_path).config == CONFIG
    make(tmp_path)  # the refusal left no lock behind


def test_a_tuple_in_the_configuration_is_the_list_in_the_file(tmp_path: Path) -> None:
    make(tmp_path, {**CONFIG, "routes": (1, 2)}).close()
    make(tmp_path, {**CONFIG, "routes": (1, 2)}).close()
    make(tmp_path).close()


def test_another_format_is_refused(tmp_path: Path) -> None:
    make(tmp_path).close()
    (tmp_path / "metadata.json").write_text(json.dumps({**metadata(tmp_path), "format": 99}))
    for act in (make, RunDirectory.open):
        with pytest.raises(UserError, match="holds a run of format 99; this version reads format 1"):
            act(tmp_path)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    run = make(tmp_path, {})
    code = (
        "import sys; from pathlib import Path; from srl_core.base.run_directory import RunDirectory as R\n"
        "try:\n    R.create(Path(sys.argv[1]), {}, seed=1); print('opened')\n"
        "except Exception as error:\n    print(error)\n"
    )

    def other() -> str:
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
        ).stdout

    assert other() == f"{tmp_path} is in use by the run of process {os.getpid()}; stop it first\n"
    assert RunDirectory.open(tmp_path).metadata["status"] == "running"  # readers are not kept out
    run.close()
    assert other() == "opened\n"
    make(tmp_path, {})  # the other process ended: so did its lock


def test_reading_does_not_write(tmp_path: Path) -> None:
    run = make(tmp_path)
    look = RunDirectory.open(tmp_path)
    for act in (lambda: look.update(seconds=1.0, **SO_FAR), lambda: look.finish("completed")):
        with pytest.raises(RuntimeError, match="not locked"):
            act()
    run.close()
    with pytest.raises(RuntimeError, match="not locked"):
        run.finish("completed")


def test_nothing_to_open(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no run: metadata\.json is missing"):
        RunDirectory.open(tmp_path)


def test_runs_are_found_by_name_or_path(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        find_run("pong", tmp_path)
    for name in ("pong-1", "pong-2", "breakout-1"):
        make(tmp_path / name).close()
    assert find_run("pong-2", tmp_path) == tmp_path / "pong-2"
    assert find_run(str(tmp_path / "pong-1"), Path("elsewhere")) == tmp_path / "pong-1"
    with pytest.raises(UserError, match="no run 'pong-3'; did you mean pong-"):
        find_run("pong-3", tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("status", None), ("wall_seconds", "9"), ("wall_seconds", float("nan")), ("resumes", -1), ("counts", [1]),
     ("counts", {"updates": "x"}), ("cpu_seconds", True), ("hardware", 3), ("started", 5)],
)  # fmt: skip
def test_metadata_that_was_edited_is_refused_by_its_field(tmp_path: Path, name: str, value: object) -> None:
    make(tmp_path).close()
    good = metadata(tmp_path)
    (tmp_path / "metadata.json").write_text(json.dumps({**good, name: value}))
    with pytest.raises(UserError, match=name):
        RunDirectory.open(tmp_path)
    (tmp_path / "metadata.json").write_text(json.dumps({k: v for k, v in good.items() if k != name}))
    with pytest.raises(UserError, match=f"lacks '{name}'"):
        make(tmp_path)


def test_hostile_times_in_the_metrics_are_no_training_time(tmp_path: Path) -> None:
    make(tmp_path).close()
    lines = ['{"t": 5.0}', '{"t": Infinity}', '{"t": NaN}', '{"t": true}', "[1]", "7", '{"t": -3}', '{"t": 9']
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert make(tmp_path).seconds == 5.0


def test_a_run_that_is_withdrawn_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    run = make(tmp_path / "new")
    run.withdraw()
    run.close()
    assert not (tmp_path / "new").exists()
    make(tmp_path / "kept").withdraw()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / ".mine").touch()
    make(tmp_path / "kept").withdraw()
    assert [p.name for p in (tmp_path / "kept").iterdir()] == [".mine"]
