"""What an actor with inline inference takes beyond its environments."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reproductions.presets.atari import atari_ppo
from srl_core.config import BudgetConfig, EvaluationConfig
from tests.launchers.test_local import has_trained, session_processes, start, wait_for

MEGABYTE = 1 << 20

ENVIRONMENTS_ALONE = """
import numpy as np, psutil
from envs.atari import AtariConfig
environment = AtariConfig().build(16, training=True)
environment.reset(1)
for _ in range(50):
    environment.send(np.zeros((16, 1), np.int64))
    environment.recv()
print(psutil.Process().memory_info().rss)
"""


@pytest.mark.integration
def test_an_actor_takes_little_memory_beyond_its_environments(tmp_path: Path) -> None:
    alone = int(subprocess.run([sys.executable, "-c", ENVIRONMENTS_ALONE], capture_output=True, check=True).stdout)
    base = atari_ppo("Pong", "desk")
    experiment = replace(
        base,
        actor=replace(base.actor, count=1, envs_per_member=16),
        evaluation=EvaluationConfig(),
        budget=BudgetConfig(seconds=600),
    )
    process = start(experiment, tmp_path / "run")
    wait_for(lambda: has_trained(tmp_path / "run"))
    (actor,) = [p for p in session_processes(process.pid) if "--kind=actor" in p.cmdline()]
    # Pages of the streams and the parameters are shared memory of the run, not the actor's own.
    shared = sum(m.rss for m in actor.memory_maps() if m.path.startswith("/memfd:"))
    own = actor.memory_info().rss - shared - alone
    process.send_signal(signal.SIGINT)
    assert process.wait(15) == 130
    assert own <= 250 * MEGABYTE, f"{own / MEGABYTE:.0f} MB"
