"""What is read from a run's directory: closed forms."""

import json

import pytest

from reproductions.figures import FIGURES
from reproductions.figures.pong_learning import measure as measure_learning
from reproductions.figures.pong_learning import pooled_return
from reproductions.figures.single_machine_throughput import _Window, read_limit
from reproductions.figures.single_machine_throughput import measure as measure_throughput
from reproductions.pipeline.papers import paper_value
from reproductions.pipeline.rundir import read_lines, state_of
from reproductions.pipeline.spec import RunSpec
from srl_core.base.errors import RunError, UserError
from tests.reproductions.fakes import experiment, learning_lines, throughput_lines, write_lines

RUN = RunSpec("run", 1, "SRL", "atari_pong", "PPO", experiment())
WINDOW = _Window(15.0, 30.0, 8.0, 4.0)


def evaluation(t, steps, *returns):
    mean = sum(returns) / len(returns)
    return {"kind": "evaluation", "t": t, "env_steps": steps, "return_mean": mean, "returns": list(returns)}


def values(rows):
    return {row.metric: row.value for row in rows if row.metric != "return_mean"}


def test_the_final_return_pools_the_newest_games(tmp_path):
    lines = [
        evaluation(60.0, 100, -21.0, -20.0),
        evaluation(120.0, 200, 19.0, 20.0),
        evaluation(180.0, 300, 20.0, 21.0),
    ]
    assert pooled_return(lines, 2) == 20.5
    assert pooled_return(lines, 3) == 20.0  # whole evaluations only
    assert pooled_return(lines, 7) is None
    write_lines(tmp_path / "metrics.jsonl", lines)
    found = values(measure_learning(RUN, tmp_path, 4))
    assert found == {"final_return": 20.0, "return_gain": 40.5, "env_steps_to_goal": 300, "minutes_to_goal": 3.0}
    assert values(measure_learning(RUN, tmp_path, 2))["minutes_to_goal"] == 2.0
    with pytest.raises(RunError, match="fewer than 7 whole games"):
        measure_learning(RUN, tmp_path, 7)


def test_a_goal_that_is_not_reached_has_no_rows(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", learning_lines(1, final=10.0))
    assert set(values(measure_learning(RUN, tmp_path, 10))) == {"final_return", "return_gain"}


def test_throughput_is_counted_between_updates_after_the_warm_up(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", throughput_lines(53.0, 1700.0, cores=1.5))
    (tmp_path / "metadata.json").write_text(json.dumps({"status": "completed", "hardware": {"cores": 2.0}}))
    found = values(measure_throughput(RUN, tmp_path, WINDOW, 2000.0))
    assert found == pytest.approx({"training_throughput": 1700.0, "limit_ratio": 0.85, "cpu_use": 0.75})


def test_a_run_that_is_too_short_for_its_window_is_refused(tmp_path):
    write_lines(tmp_path / "metrics.jsonl", throughput_lines(40.0, 1700.0))
    with pytest.raises(RunError, match=r"after its warm-up of 15 s; it needs 30 s"):
        measure_throughput(RUN, tmp_path, WINDOW, 2000.0)


@pytest.mark.parametrize("limit", ["NaN", "0", "null", '"fast"'])
def test_a_limit_that_is_no_number_is_refused(tmp_path, limit):
    (tmp_path / "limit.json").write_text(f'{{"simulation": 1.0, "inference": 1.0, "training": 1.0, "limit": {limit}}}')
    with pytest.raises(RunError, match=r"limit is .*; it must be a number above zero"):
        read_limit(tmp_path)


def test_lines_that_a_resume_made_void_are_left_out(tmp_path):
    lines = [evaluation(10.0, 100, 1.0), evaluation(20.0, 200, 2.0), evaluation(30.0, 300, 3.0)]
    again = [evaluation(31.0, 190, 4.0), evaluation(41.0, 290, 5.0)]
    write_lines(tmp_path / "metrics.jsonl", lines)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "evaluation", "t": 30.5, "env\n')  # torn by the kill
        file.writelines(json.dumps(line) + "\n" for line in again)
    assert [line["env_steps"] for line in read_lines(tmp_path, "evaluation")] == [100, 190, 290]


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({}, "new"),
        ({"config.json": "{}"}, "unfinished"),
        ({"metadata.json": '{"status": "running"}'}, "unfinished"),
        ({"metadata.json": '{"status": "failed"}'}, "unfinished"),
        ({"metadata.json": '{"status": "completed"}'}, "finished"),
    ],
)
def test_states(tmp_path, files, state):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert state_of(tmp_path) == state
    assert state_of(tmp_path / "nothing") == "new"


def test_the_papers_values_come_with_source_and_hardware():
    query = {"system": "SRL", "env": "atari_pong", "metric": "training_throughput"}
    found = paper_value("single_machine_throughput.csv", "single_machine", query)
    assert (found["value"], found["source"]) == (124_000.0, "2nd")
    assert "unit not stated" in found["unit"]
    assert "256 AMD cores" in found["hardware"]
    with pytest.raises(UserError, match="0 lines of paper_values"):
        paper_value("single_machine_throughput.csv", "single_machine", {**query, "system": "SLR"})


@pytest.mark.parametrize("name", FIGURES.names())
def test_every_figure_is_complete(name):
    spec = FIGURES.get(name)
    assert spec.name == name
    assert set(spec.costs) == set(spec.seeds) == {"smoke", "desk", "node", "cluster"}
    assert min(spec.seeds.values()) >= 2
    assert {row.metric for row in spec.table} <= set(spec.units)
    assert {panel.metric for panel in spec.plot.panels} <= set(spec.units)
    for profile in spec.costs:
        assert spec.deviations(profile)
