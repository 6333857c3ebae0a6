"""What a resumed run counts: earlier parts are there from its first moment, and nothing is lost or told twice."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path

from srl_core.config import BudgetConfig, EvaluationConfig, to_json
from srl_core.launchers import run_experiment
from srl_core.launchers.prepare import make_table, prepare
from srl_core.launchers.progress import ProgressMeter
from srl_core.workers.context import RunClock
from tests.launchers.experiments import null_run, small_cartpole


def test_a_resumed_run_begins_with_all_that_was_counted(tmp_path: Path) -> None:
    """Trainers need seconds to come back: were their counts missing until then, rates would jump when they come."""
    experiment = null_run(budget=BudgetConfig(updates=5), evaluation=EvaluationConfig(final=True, episodes=1, envs=1))
    counts = run_experiment(experiment, tmp_path / "run", launcher="inline").counts
    prepared = prepare(experiment, tmp_path / "run", resume=True)
    table = make_table(prepared)
    try:
        meter = ProgressMeter(table, RunClock(time.monotonic(), prepared.run.seconds), experiment.budget)
        progress = meter.look()
        assert counts["env_steps_consumed"] > 0
        for name in ("env_steps_generated", "env_steps_consumed", "gradient_steps", "updates"):
            assert getattr(progress, name) == counts[name], name
        assert table.total("evaluations") == counts["evaluations"] == 1
        assert math.isnan(progress.evaluation_return), "nothing was evaluated since the run goes on"
    finally:
        table.close()
        prepared.run.close()


def test_evaluations_of_earlier_parts_stay_counted(tmp_path: Path) -> None:
    evaluation = EvaluationConfig(final=True, episodes=2, envs=2)
    longer = replace(small_cartpole(), evaluation=evaluation, budget=BudgetConfig(updates=6))
    run_experiment(replace(longer, budget=BudgetConfig(updates=3)), tmp_path / "run", launcher="inline")
    (tmp_path / "run" / "config.json").write_text(json.dumps(to_json(longer)))
    counts = run_experiment(longer, tmp_path / "run", launcher="inline", resume=True).counts
    assert counts["evaluations"] == 2
    assert counts["updates"] == 6
    assert counts["env_steps_generated"] == counts["frames"]
