"""Commands that train nothing, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reproductions.presets import PRESETS
from srl_core.base.run_directory import RunDirectory
from srl_core.cli import COMMANDS
from srl_core.config import to_json
from tests.cli.commands import srl

pytestmark = pytest.mark.integration

NO_TORCH = """
import sys
from srl_core.cli import main
code = main(sys.argv[1:])
assert "torch" not in sys.modules, "torch was imported"
sys.exit(code)
"""


def test_without_a_command_all_are_listed(tmp_path: Path) -> None:
    done = srl(cwd=tmp_path)
    assert done.returncode == 2
    for name in COMMANDS:
        assert f"  {name} " in done.stdout


def test_list_names_everything_with_a_doc_and_without_torch(tmp_path: Path) -> None:
    done = srl("list", cwd=tmp_path, code=NO_TORCH)
    assert done.returncode == 0, done.stderr
    for name in [*PRESETS.names(), "atari", "stateless_cartpole", "ppo", "pong-learning"]:
        line = next(line for line in done.stdout.splitlines() if line.startswith(f"  {name} "))
        assert len(line.split(maxsplit=1)[1]) > 10
        assert "not available" not in line


@pytest.mark.parametrize("preset", PRESETS.names())
def test_the_help_of_a_preset_needs_no_torch(preset: str, tmp_path: Path) -> None:
    done = srl("run", preset, "--help", cwd=tmp_path, code=NO_TORCH)
    assert done.returncode == 0, done.stderr
    assert "--actor.count INT" in done.stdout
    assert "--run-dir DIR" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help(name: str, tmp_path: Path) -> None:
    done = srl(name, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"srl {name}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["rnu"], "unknown command 'rnu'; did you mean run?"),
        (["run"], "srl run needs a preset"),
        (["run", "pnog"], "unknown preset 'pnog'; did you mean pong?"),
        (["run", "cartpole", "actor.cuont=2"], "unknown field actor.cuont; did you mean actor.count"),
        (["run", "cartpole", "actor.count=x"], "actor.count is 'x'; it must be an integer"),
        (["run", "cartpole", "actor.count=0"], "actor.count is 0; it must be at least 1"),
        (["run", "cartpole", "routes.0.agents=nobody"], "matches agent 'player'"),
        (["run", "pong", "environment.game=Pnog"], "environment.game is 'Pnog', which ALE does not have"),
        (["run", "cartpole", "--launcher", "rocket"], "invalid choice: 'rocket'"),
        (["run", "cartpole", "--device", "abacus"], "trainer.device is 'abacus'"),
        (["resume", "nowhere"], "no run 'nowhere'"),
        (["eval", "nowhere"], "no run 'nowhere'"),
        (["eval", "nowhere", "--episodes", "0"], "--episodes is 0; it must be at least 1"),
        (["eval", "nowhere", "--video", "x.gif"], "--video is 'x.gif'; it must end in .mp4"),
        (["watch", "nowhere"], "no run 'nowhere'"),
        (["graph", "pnog"], "unknown preset 'pnog'"),
        (["graph", "cartpole", "--output", "x.bmp"], "--output is 'x.bmp'; it must end in"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    done = srl(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("metadata.json"))


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = srl("run", "cartpole", "--run-dir", "file/run", cwd=tmp_path)
    assert done.returncode == 2
    assert "run directory file/run cannot be written" in done.stderr.splitlines()[-1]


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "srl_core.cli", "run", "pong", "--help"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait()


def test_graph_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    for name in ("flow.svg", "flow.mmd"):
        done = srl("graph", "cartpole", "actor.count=3", "--output", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "[3 x actor]" in done.stdout
        assert "3 x actor" in (tmp_path / name).read_text()


def test_doctor_names_what_the_core_needs(tmp_path: Path) -> None:
    done = srl("doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    for name in ("cores", "memory", "/dev/shm", "open files", "torch", "CUDA", "ale-py", "bfloat16"):
        assert name in done.stdout


def dead_run(path: Path, *, checkpoint: bool) -> None:
    """What a killed process leaves."""
    from reproductions.presets.classic import cartpole

    run = RunDirectory.create(path, to_json(cartpole()), seed=1)
    (run.checkpoints / "default" / ".saving-0123").mkdir(parents=True)
    (run.path / ".metadata.json.0123.tmp").write_text("half")
    if checkpoint:
        (run.checkpoints / "default" / "000000000001").mkdir()
        (run.checkpoints / "default" / "000000000001" / "manifest.json").write_text("{}")
    run.close()


def test_clean_tidies_dead_runs_and_leaves_live_ones_alone(tmp_path: Path) -> None:
    dead_run(tmp_path / "runs/resumable", checkpoint=True)
    dead_run(tmp_path / "runs/figure/lost", checkpoint=False)
    dead_run(tmp_path / "runs/live", checkpoint=False)
    live = RunDirectory.claim(tmp_path / "runs/live")
    try:
        before = sorted(os.listdir(live.path)), sorted(os.listdir(live.checkpoints / "default"))
        done = srl("clean", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "3 runs looked at, 1 of them running" in done.stdout
        assert (sorted(os.listdir(live.path)), sorted(os.listdir(live.checkpoints / "default"))) == before
        assert json.loads((live.path / "metadata.json").read_text())["status"] == "running"
    finally:
        live.close()
    status = {}
    for path in (tmp_path / "runs/resumable", tmp_path / "runs/figure/lost"):
        status[path.name] = json.loads((path / "metadata.json").read_text())["status"]
        assert not list(path.rglob(".*"))
    assert status == {"resumable": "interrupted", "lost": "failed"}
    assert (tmp_path / "runs/resumable/checkpoints/default/000000000001").is_dir()
    assert "runs/live: was killed before its first checkpoint" in srl("clean", cwd=tmp_path).stdout
    assert srl("clean", cwd=tmp_path).stdout == "3 runs looked at, 0 of them running\n"
