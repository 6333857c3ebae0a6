"""The pipeline around fake runs that write directories in the real format."""

import csv
import json
from pathlib import Path

import pytest

from analysis.__main__ import main as analysis
from reproductions.__main__ import main
from reproductions.figures import FIGURES
from reproductions.pipeline.collect import collect
from reproductions.pipeline.run import execute, plan
from srl_core.base.errors import RunError
from tests.reproductions.fakes import FakeRunner

LEARNING, THROUGHPUT = "pong-learning", "single-machine-throughput"


@pytest.fixture
def command(tmp_path, tiny_preset):
    """Run a figure in this test's own directories."""

    def run(figure, runner, *more):
        where = ["--runs-dir", str(tmp_path / "runs"), "--results-dir", str(tmp_path / "results")]
        return main([figure, *where, *more], runner)

    return run


@pytest.fixture
def gather(tmp_path, tiny_preset):
    """As `command`, without the picture."""

    def run(figure, runner, seeds=None):
        todo = plan(FIGURES.get(figure), "desk", seeds, tmp_path / "runs", tmp_path / "results")
        execute(todo, runner, print)
        return todo

    return run


def read(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_both_figures_are_made_and_pass_the_check(results):
    assert analysis(["check", "--results-dir", str(results)]) == 0
    for figure in (LEARNING, THROUGHPUT):
        files = {path.name: path for path in (results / figure).iterdir()}
        assert sorted(files) == ["README.md", "data.csv", "figure.json", "figure.png", "runs.json"]
        assert files["figure.png"].stat().st_size < 200_000
        assert all(run["metadata"]["status"] == "completed" for run in json.loads(files["runs.json"].read_text()))
        assert "host" not in files["runs.json"].read_text()


def test_tidy_rows(results):
    rows = read(results / LEARNING / "data.csv")
    assert ",".join(rows[0]) == "figure,run_id,system,env,algorithm,scale,seed,x_name,x,metric,value,unit"
    assert {row["seed"] for row in rows} == {"1", "2", "3"}
    assert {row["x_name"] for row in rows if row["metric"] == "return_mean"} == {"env_steps", "minutes"}
    assert {row["unit"] for row in rows if row["metric"] == "minutes_to_goal"} == {"minutes"}


def test_finished_runs_are_skipped(gather):
    runner = FakeRunner()
    gather(LEARNING, runner)
    gather(LEARNING, runner)
    assert len(runner.started) == 3
    assert runner.resumed == []
    gather(LEARNING, runner, seeds=4)  # only the new seed
    assert len(runner.started) == 4


def test_a_killed_run_is_resumed(command, gather, capsys):
    runs = [run.id for run in FIGURES.get(LEARNING).runs("desk", 3)]
    runner = FakeRunner(dies={runs[1]})
    assert command(LEARNING, runner) == 1
    assert "ended as 'running', not completed; the same command goes on from there" in capsys.readouterr().err
    gather(LEARNING, runner)
    assert runner.started == runs
    assert runner.resumed == [runs[1]]


def test_a_killed_benchmark_starts_anew(gather):
    runs = [run.id for run in FIGURES.get(THROUGHPUT).runs("desk", 3)]
    runner = FakeRunner(dies={runs[4]})
    with pytest.raises(RunError, match="not completed"):
        gather(THROUGHPUT, runner)
    gather(THROUGHPUT, runner)
    assert runner.started == [*runs[:5], *runs[4:]]
    assert runner.resumed == []


def test_another_configuration_is_another_run(tiny_preset):
    spec = FIGURES.get(LEARNING)
    assert {run.id for run in spec.runs("desk", 2)}.isdisjoint(run.id for run in spec.runs("node", 2))


def test_seeds_are_interleaved(tiny_preset):
    seeds = [run.seed for run in FIGURES.get(THROUGHPUT).runs("desk", 3)]
    assert seeds == sorted(seeds)
    assert {seeds.count(seed) for seed in (1, 2, 3)} == {9}


@pytest.mark.parametrize("figure", [LEARNING, THROUGHPUT])
def test_smoke_stays_out_of_results(tmp_path, tiny_preset, monkeypatch, figure):
    monkeypatch.chdir(tmp_path)
    runner = FakeRunner()
    for _ in range(2):  # thrown away and made anew
        assert main([figure, "--profile", "smoke"], runner) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert len(runner.started) == 2 * len(set(runner.started))
    assert (tmp_path / "runs" / "smoke" / figure / "results" / figure / "README.md").is_file()


@pytest.mark.parametrize("figure", [LEARNING, THROUGHPUT])
def test_dry_run_of_the_papers_scale_shows_runs_and_cost_and_runs_nothing(tmp_path, command, capsys, figure):
    runner = FakeRunner()
    assert command(figure, runner, "--profile", "cluster", "--dry-run") == 0
    assert runner.started == []
    assert not (tmp_path / "runs").exists()
    out = capsys.readouterr().out
    cost = FIGURES.get(figure).costs["cluster"]
    assert all(run.id in out for run in FIGURES.get(figure).runs("cluster", 3))
    assert f"each: {cost.cores} cores, {cost.gpus} GPUs" in out
    assert "core-hours" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "desc"], "unknown profile 'desc'; did you mean desk"),
        (["--seeds", "1"], "--seeds is 1; it must be at least 2"),
        (["--seeds", "0"], "--seeds is 0"),
        (["--launcher", "slurm"], "--launcher is 'slurm'; it must be one of local"),
        (["--profile", "smoke"], "the smoke profile writes under --runs-dir only"),
    ],
)
def test_bad_input_is_one_sentence(command, capsys, arguments, words):
    assert command(LEARNING, FakeRunner(), *arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_an_unknown_figure_is_answered_with_the_nearest(command, capsys):
    assert command("pong-lerning", FakeRunner()) == 2
    assert "did you mean pong-learning" in capsys.readouterr().err


def test_the_papers_scale_is_refused_on_a_small_machine(command, capsys, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    runner = FakeRunner()
    assert command(THROUGHPUT, runner, "--profile", "cluster") == 2
    assert "asks for 224 cores and this machine offers 2" in capsys.readouterr().err
    assert runner.started == []


def test_list_names_the_figures(capsys):
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [LEARNING, THROUGHPUT]


def test_the_size_cap_thins_curves_always_alike(tmp_path, gather):
    todo = gather(LEARNING, FakeRunner())
    full = read(tmp_path / "results" / LEARNING / "data.csv")
    for name in ("a", "b"):
        collect(todo.spec, todo.runs, todo.profile, todo.command, tmp_path / name / LEARNING, max_bytes=225_000)
    small = read(tmp_path / "a" / LEARNING / "data.csv")
    assert (tmp_path / "a" / LEARNING / "data.csv").stat().st_size < 25_000
    assert len(small) < len(full)
    for seed in ("1", "2", "3"):

        def curve(rows, seed=seed):
            return [r for r in rows if r["seed"] == seed and r["metric"] == "return_mean" and r["x_name"] == "minutes"]

        assert curve(small)[0] == curve(full)[0]
        assert curve(small)[-1] == curve(full)[-1]
        assert all(row in full for row in curve(small))
    files = ("data.csv", "figure.json", "runs.json")
    assert all(
        (tmp_path / "a" / LEARNING / f).read_bytes() == (tmp_path / "b" / LEARNING / f).read_bytes() for f in files
    )
    assert json.loads((tmp_path / "a" / LEARNING / "figure.json").read_text())["thinned"] > 1
    assert analysis(["draw", LEARNING, "--results-dir", str(tmp_path / "a")]) == 0
    assert "of each curve was kept" in (tmp_path / "a" / LEARNING / "README.md").read_text()


def test_a_nan_never_reaches_the_results(tmp_path, command, capsys):
    class Poisoned(FakeRunner):
        def _measure(self, run, run_dir):
            super()._measure(run, run_dir)
            lines = (run_dir / "metrics.jsonl").read_text().replace('"return_mean": -', '"return_mean": NaN, "x": -', 1)
            (run_dir / "metrics.jsonl").write_text(lines)

    assert command(LEARNING, Poisoned()) == 1
    assert "return_mean is nan" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
