from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.metrics import DataError
from analysis.one_run import draw_run, evaluations_of


def evaluation(t: float, env_steps: float, returns: list[float]) -> str:
    mean = sum(returns) / len(returns)
    record = {"kind": "evaluation", "t": t, "env_steps": env_steps, "returns": returns, "return_mean": mean}
    return json.dumps(record)


def write_run(path: Path, lines: list[str]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"name": "pong", "seed": 1}))
    metadata = {
        "status": "completed",
        "wall_seconds": 600.0,
        "counts": {"env_steps_consumed": 1_200_000.0},
        "hardware": {"cores": 2.0, "cpu": "some processor"},
    }
    (path / "metadata.json").write_text(json.dumps(metadata))
    (path / "metrics.jsonl").write_text("\n".join(lines))
    return path


def test_a_run_gets_a_picture_and_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps({"kind": "progress", "t": 1.0}), evaluation(60, 1000, [-21, -19]), evaluation(600, 1e6, [3, 3])]
    run = write_run(tmp_path / "run", lines)
    assert main(["run", str(run)]) == 0
    assert capsys.readouterr().out == f"figure: {run / 'figure.png'}\ntable: {run / 'table.md'}\n"
    assert (run / "figure.png").read_bytes().startswith(b"\x89PNG")
    table = (run / "table.md").read_text()
    assert "| 1.0 | 1,000 | -20.00 | -21.00 to -19.00 | 2 |" in table
    assert "| 10.0 | 1,000,000 | 3.00 | 3.00 to 3.00 | 2 |" in table
    assert "completed after 10.0 minutes: 1,200,000 env steps trained on, 2,000 a second, on 2 cores" in table


def test_what_a_resume_made_void_is_left_out() -> None:
    lines = [evaluation(10, 100, [1]), evaluation(20, 200, [2]), '{"kind": "eval', evaluation(15, 150, [3])]
    assert [line["returns"] for line in evaluations_of(lines)] == [[1], [3]]


def test_a_run_without_evaluations_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [])
    with pytest.raises(DataError, match="no evaluation yet"):
        draw_run(run)
    assert main(["run", str(tmp_path / "nowhere")]) == 2
    assert "holds no run that can be read" in capsys.readouterr().err
