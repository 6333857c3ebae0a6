"""No byte that comes from outside is code: runs complete with every unpickler of the standard library disabled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from srl_core.config import BudgetConfig, EvaluationConfig, StreamsConfig, to_json
from srl_core.services.checkpoints import Checkpoints
from tests.launchers.experiments import small_cartpole
from tests.launchers.test_local import SCRIPT

pytestmark = pytest.mark.integration

SITECUSTOMIZE = """
import marshal, os, pickle, sys

def refuse(*args, **kwargs):
    raise RuntimeError("something was unpickled")

unmarshal = marshal.loads

def for_imports_only(*args, **kwargs):
    if not sys._getframe(1).f_code.co_filename.startswith("<frozen "):
        refuse()
    return unmarshal(*args, **kwargs)

with open(os.environ["PATCHED"], "a") as file:
    file.write(" ".join(sys.orig_argv)[-200:] + "\\n")
pickle.loads = pickle.load = pickle._loads = pickle._load = marshal.load = refuse
marshal.loads = for_imports_only
"""


@pytest.mark.parametrize("backend", ["shared_memory", "socket"])
@pytest.mark.parametrize("inference", ["inline", "remote"])
def test_a_run_and_its_resume_unpickle_nothing(tmp_path: Path, backend: str, inference: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITECUSTOMIZE)
    patched = tmp_path / "patched.txt"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PATCHED": str(patched),
    }
    experiment = replace(
        small_cartpole(),
        streams=StreamsConfig(backend=backend),  # type: ignore[arg-type]
        evaluation=EvaluationConfig(final=True, episodes=2, envs=2),
        budget=BudgetConfig(updates=3),
    )
    actor = replace(experiment.actor, count=1, inference=inference)  # type: ignore[arg-type]
    experiment = replace(experiment, actor=actor)

    def run(script: str) -> None:
        command = [sys.executable, "-c", script, str(tmp_path / "run")]
        data = json.dumps(to_json(experiment)).encode()
        subprocess.run(command, input=data, env=environment, check=True, timeout=110)

    run(SCRIPT)
    found = Checkpoints(tmp_path / "run" / "checkpoints" / "default").load_latest()
    assert found is not None
    assert found[1]["updates"] == 3
    workers = [line for line in patched.read_text().splitlines() if "--kind=" in line]
    assert len(workers) == (3 if inference == "inline" else 4)
    experiment = replace(experiment, budget=BudgetConfig(updates=5))
    (tmp_path / "run" / "config.json").write_text(json.dumps(to_json(experiment)))
    run(SCRIPT.replace("Path(sys.argv[1]))", "Path(sys.argv[1]), resume=True)"))
    found = Checkpoints(tmp_path / "run" / "checkpoints" / "default").load_latest()
    assert found is not None
    assert found[1]["updates"] == 5
