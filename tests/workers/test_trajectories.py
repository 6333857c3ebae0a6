"""Cutting equals slicing the full history, for rows in step and for rows that drift apart."""

from __future__ import annotations

import numpy as np
import pytest

from srl_core.api import PolicySpec, SampleSpec
from srl_core.base.arrays import ArraySpec
from srl_core.base.errors import RunError
from srl_core.workers.trajectories import TrajectoryBuilder

STACK = 4


def make_spec(sample: int, bootstrap: int = 1, burn_in: int = 0, *, stacked: bool = False) -> SampleSpec:
    shape = (STACK, 2) if stacked else (2,)
    policy = PolicySpec({"x": ArraySpec(shape, "float32")}, {"h": ArraySpec((3,), "float32")}, ArraySpec((1,), "int64"))
    return SampleSpec.make(
        policy,
        sample_steps=sample,
        bootstrap_steps=bootstrap,
        burn_in_steps=burn_in,
        frame_stacks={"x": STACK} if stacked else {},
    )


class History:
    """Feeds a builder with random steps and remembers each row's whole history."""

    def __init__(self, spec: SampleSpec, rows: int, seed: int, cut: str = "chunks") -> None:
        self.spec, self.rows, self.rng = spec, rows, np.random.default_rng(seed)
        self.samples: list[dict[str, np.ndarray]] = []
        self.builder = TrajectoryBuilder(
            spec, rows, cut, lambda s: self.samples.append({n: a.copy() for n, a in s.items()})
        )
        self.steps: list[list[dict[str, np.ndarray]]] = [[] for _ in range(rows)]
        self.ended = np.ones(rows, bool)  # the previous tick ended: this one begins an episode
        self.final = np.zeros(rows, bool)
        self.frames = np.zeros((rows, STACK, 2), np.float32)

    def tick(self, present: np.ndarray | None = None, end: np.ndarray | None = None) -> None:
        """One tick; `present` rows take part (all by default), `end` rows' episodes end after it."""
        rng, n = self.rng, self.rows
        present = np.ones(n, bool) if present is None else present | self.final
        first = self.ended & present
        final = self.final & present
        frame = rng.normal(size=(n, 2)).astype(np.float32)
        for row in np.flatnonzero(present):
            if first[row]:
                self.frames[row] = 0
            self.frames[row] = np.concatenate([self.frames[row, 1:], frame[row : row + 1]])
        stacked = bool(self.spec.stacks)
        request = {
            "observation.x": self.frames.copy() if stacked else frame,
            "state.h": rng.normal(size=(n, 3)).astype(np.float32),
            "first": first,
            "noise": np.zeros((n, 1), np.float32),
        }
        reply = {
            "action": rng.integers(0, 5, (n, 1)),
            "log_prob": rng.normal(size=n).astype(np.float32),
            "value": rng.normal(size=n).astype(np.float32),
            "state.h": np.full((n, 3), 99, np.float32),
            "version": rng.integers(0, 9, n),
        }
        rows = None if present.all() else np.flatnonzero(present)
        pick = slice(None) if rows is None else rows
        for row in np.flatnonzero(present):
            self.steps[row].append(
                {
                    "observation.x": request["observation.x"][row],
                    "state.h": request["state.h"][row],
                    **{name: reply[name][row] for name in ("action", "log_prob", "value", "version")},
                    "first": first[row],
                    "valid": ~final[row],
                    "env_steps": np.float32(~final[row]),
                    "reward": np.float32(0),
                    "terminated": np.bool_(False),
                    "truncated": np.bool_(False),
                }
            )
        self.builder.record(
            rows,
            {name: a[pick] for name, a in request.items()},
            {name: a[pick] for name, a in reply.items()},
            ~final[pick],
            (~final[pick]).astype(np.float32),
        )
        reward = rng.normal(size=n).astype(np.float32) * ~final
        end = np.zeros(n, bool) if end is None else end & present & ~final
        truncated = end & (rng.random(n) < 0.5)
        self.builder.outcome(reward, end & ~truncated, truncated)
        for row in range(n):
            if self.steps[row]:
                step = self.steps[row][-1]
                step["reward"] = step["reward"] + reward[row]
                step["terminated"] |= end[row] & ~truncated[row]
                step["truncated"] |= truncated[row]
        self.ended = np.where(present, final, self.ended)
        self.final = end

    def expected(self, row: int, index: int) -> dict[str, np.ndarray]:
        """Sample number `index` of `row` by slicing its history, padded in front by the burn-in."""
        spec = self.spec
        start = index * spec.sample_steps - spec.burn_in_steps
        out = {}
        for name in spec.schema:
            zero = np.zeros_like(self.steps[row][0][name])
            steps = [self.steps[row][t][name] if t >= 0 else zero for t in range(start, start + spec.length)]
            out[name] = np.stack(steps)
        return out


def restack(sample: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Stacks [L, n, k, ...] from single frames, by the rule in SampleSpec's docstring."""
    frames, first = sample[name], sample["first"]
    length, n = first.shape
    out = np.zeros((length, n, STACK, *frames.shape[2:]), frames.dtype)
    for t in range(length):
        for column in range(n):
            for j in range(STACK):  # j frames back
                if not first[max(0, t - j + 1) : t + 1, column].any():
                    out[t, column, STACK - 1 - j] = frames[t + STACK - 1 - j, column]
    return out


def check_sample(sample: dict[str, np.ndarray], column: int, expected: dict[str, np.ndarray], spec: SampleSpec) -> None:
    for name in spec.schema:
        got, want = sample[name][:, column], expected[name]
        if name in spec.stacks:
            got = restack(sample, name)[:, column]
        elif name in ("reward", "terminated", "truncated"):
            got, want = got[:-1], want[:-1]  # what follows the last step is not known yet
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(("sample", "bootstrap", "burn_in"), [(5, 1, 0), (3, 2, 0), (4, 1, 3), (2, 5, 0), (2, 3, 4)])
def test_rows_in_step_equal_slices(sample: int, bootstrap: int, burn_in: int, stacked: bool) -> None:
    spec = make_spec(sample, bootstrap, burn_in, stacked=stacked)
    history = History(spec, rows=3, seed=1)
    for _ in range(60):
        history.tick(end=history.rng.random(3) < 0.15)
    assert len(history.samples) == (60 - bootstrap) // sample
    for index, got in enumerate(history.samples):
        for row in range(3):
            check_sample(got, row, history.expected(row, index), spec)


@pytest.mark.parametrize("stacked", [False, True])
def test_rows_that_drift_apart_equal_slices(stacked: bool) -> None:
    spec = make_spec(4, 2, 1, stacked=stacked)
    history = History(spec, rows=4, seed=2)
    owners: list[int] = []
    for _ in range(120):
        before = len(history.samples)
        history.tick(present=history.rng.random(4) < 0.6, end=history.rng.random(4) < 0.1)
        owners.append(len(history.samples) - before)
    seen = dict.fromkeys(range(4), 0)
    for got in history.samples:
        for column in range(got["reward"].shape[1]):
            # The log-probs are random: they tell which row a column came from.
            key = got["log_prob"][spec.burn_in_steps + 1, column]
            row = next(r for r in range(4) if any(s["log_prob"] == key for s in history.steps[r]))
            check_sample(
                {n: a[:, column : column + 1] for n, a in got.items()}, 0, history.expected(row, seen[row]), spec
            )
            seen[row] += 1
    for row in range(4):
        assert seen[row] == (len(history.steps[row]) - spec.bootstrap_steps) // spec.sample_steps


def test_full_trajectories_are_whole_episodes_and_padding() -> None:
    spec = make_spec(8)
    history = History(spec, rows=2, seed=3, cut="full")
    lengths = [3, 7, 1, 5]
    for length in lengths:
        for t in range(length):
            history.tick(end=np.full(2, t == length - 1))
        history.tick()
    assert len(history.samples) == len(lengths)
    start = 0
    for got, length in zip(history.samples, lengths, strict=True):
        for row in range(2):
            for t in range(length + 1):
                step = history.steps[row][start + t]
                np.testing.assert_array_equal(got["observation.x"][t, row], step["observation.x"])
                assert got["reward"][t, row] == step["reward"]
                assert got["valid"][t, row] == (t < length)
            assert not got["valid"][length:, row].any()
            assert not got["observation.x"][length + 1 :, row].any()
            assert got["terminated"][length - 1, row] | got["truncated"][length - 1, row]
        start += length + 1


def test_a_full_trajectory_longer_than_the_sample_is_an_error() -> None:
    history = History(make_spec(4), rows=2, seed=4, cut="full")
    for _ in range(4):
        history.tick()
    with pytest.raises(RunError, match=r"sample_steps is 4, but an episode is longer"):
        history.tick()


def test_concise_keeps_the_first_observation_and_the_whole_return() -> None:
    spec = make_spec(1)
    history = History(spec, rows=1, seed=5, cut="concise")
    for length in (3, 6):
        for t in range(length):
            history.tick(end=np.array([t == length - 1]))
        history.tick()
    assert len(history.samples) == 2
    start = 0
    for got, length in zip(history.samples, (3, 6), strict=True):
        steps = history.steps[0][start : start + length]
        np.testing.assert_array_equal(got["observation.x"][0, 0], steps[0]["observation.x"])
        assert got["reward"][0, 0] == pytest.approx(sum(float(s["reward"]) for s in steps), rel=1e-5)
        assert got["terminated"][0, 0] | got["truncated"][0, 0]
        start += length + 1


def test_state_goes_on_exactly_where_it_was_saved() -> None:
    straight = History(make_spec(4, 1, 2, stacked=True), rows=3, seed=6)
    resumed = History(make_spec(4, 1, 2, stacked=True), rows=3, seed=6)
    for t in range(40):
        straight.tick(end=straight.rng.random(3) < 0.2)
        resumed.tick(end=resumed.rng.random(3) < 0.2)
        if t == 21:
            state = resumed.builder.state_dict()
            resumed.builder = TrajectoryBuilder(
                resumed.spec, 3, "chunks", lambda s: resumed.samples.append({n: a.copy() for n, a in s.items()})
            )
            resumed.builder.load_state_dict(state)
    assert len(straight.samples) == len(resumed.samples) > 5
    for a, b in zip(straight.samples, resumed.samples, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])
