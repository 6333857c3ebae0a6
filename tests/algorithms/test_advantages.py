import numpy as np
import pytest

from srl_core.algorithms.common.advantages import Trajectories, explained_variance, gae, normalise
from srl_core.algorithms.common.vtrace import vtrace
from tests.algorithms.samples import random_ends


def random_trajectories(seed: int, length: int = 40, columns: int = 7, rate: float = 0.15):
    random = np.random.default_rng(seed)
    terminated, truncated, first, valid = random_ends(random, length, columns, rate)
    reward = random.normal(size=(length, columns)).astype(np.float32)
    trajectories = Trajectories(reward, terminated, truncated, first, valid)
    return trajectories, random.normal(size=(length, columns)).astype(np.float32), random


def episode(reward, end: str, steps: int):
    """One column: `steps` steps, the final observation, and the first step of the next episode."""
    length = steps + 2
    flags = {name: np.zeros((length, 1), bool) for name in ("terminated", "truncated", "first")}
    valid = np.ones((length, 1), bool)
    if end != "none":
        flags[end][steps - 1] = True
    valid[steps] = False
    flags["first"][[0, steps + 1]] = True
    return Trajectories(np.full((length, 1), reward, np.float32), **flags, valid=valid)


def per_episode_reference(t: Trajectories, values: np.ndarray, gamma: float, lam: float) -> np.ndarray:
    """GAE as the plain sum over each step's own future, one column and one step at a time."""
    length, columns = values.shape
    result = np.zeros((length, columns))
    for b in range(columns):
        for start in range(length - 1):
            weight, total, s = 1.0, 0.0, start
            while s < length - 1 and t.valid[s, b]:
                following = 0.0 if t.terminated[s, b] else float(values[s + 1, b])
                total += weight * (float(t.reward[s, b]) + gamma * following - float(values[s, b]))
                if t.terminated[s, b] or t.truncated[s, b] or t.first[s + 1, b]:
                    break
                weight *= gamma * lam
                s += 1
            result[start, b] = total
    return result


@pytest.mark.parametrize("seed", range(5))
def test_gae_equals_the_sum_over_each_episode(seed):
    trajectories, values, _ = random_trajectories(seed)
    expected = per_episode_reference(trajectories, values, 0.97, 0.9)
    np.testing.assert_allclose(gae(trajectories, values, 0.97, 0.9), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("end", "target"), [("truncated", 1 + 0.9 * 5.0), ("terminated", 1.0)])
@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_truncation_bootstraps_from_the_final_observation_and_termination_does_not(end, target, lam):
    trajectories = episode(1.0, end, 10)
    values = np.linspace(1, 2, 12)[:, None]
    values[10], values[11] = 5.0, 1000.0  # the final observation's value, and one of another episode
    advantages = gae(trajectories, values, 0.9, lam)
    assert advantages[9, 0] + values[9, 0] == pytest.approx(target, abs=1e-12)
    expected = np.zeros(12)
    carried = 0.0
    for t in range(9, -1, -1):
        following = (5.0 if end == "truncated" else 0.0) if t == 9 else values[t + 1, 0]
        carried = 1.0 + 0.9 * following - values[t, 0] + (0.0 if t == 9 else 0.9 * lam * carried)
        expected[t] = carried
    np.testing.assert_allclose(advantages[:, 0], expected, atol=1e-12)


def test_hand_computed_table():
    """Gamma .5, lambda .5; errors: step 0: 1+.5*2-1=1, step 1: 2+.5*4-2=2 (cut), final, step 3: 4+.5*1-1=3.5."""
    flag = np.zeros((5, 1), bool)
    truncated, first, valid = flag.copy(), flag.copy(), ~flag
    truncated[1], valid[2], first[3] = True, False, True
    reward = np.array([1, 2, 99, 4, 99], np.float32)[:, None]
    trajectories = Trajectories(reward, flag, truncated, first, valid)
    values = np.array([1, 2, 4, 1, 1], np.float32)[:, None]
    np.testing.assert_allclose(gae(trajectories, values, 0.5, 0.5)[:, 0], [1.5, 2, 0, 3.5, 0], atol=1e-12)


def test_more_bootstrap_steps_lengthen_the_sum():
    trajectories, values, _ = random_trajectories(3, rate=0.0)
    whole = gae(trajectories, values, 0.9, 0.8)
    short = Trajectories(*(getattr(trajectories, n)[:21] for n in Trajectories.__annotations__))
    cut = gae(short, values[:21], 0.9, 0.8)
    assert np.abs(cut[:20] - whole[:20]).max() > 1e-3
    longer = Trajectories(*(getattr(trajectories, n)[:31] for n in Trajectories.__annotations__))
    assert np.abs(gae(longer, values[:31], 0.9, 0.8)[:20] - whole[:20]).max() < (0.72**10) * 10


def test_agents_that_end_apart_and_return_are_separate_trajectories():
    """Three agents end at steps 3 (terminated), 5 (truncated), 8 (terminated); the first returns at step 9."""
    length, ends = 14, (3, 5, 8)
    flag = np.zeros((length, 3), bool)
    terminated, truncated, first, valid = flag.copy(), flag.copy(), flag.copy(), ~flag
    for b, end in enumerate(ends):
        (truncated if b == 1 else terminated)[end, b] = True
        valid[end + 1 :, b] = False
    valid[9:, 0], first[9, 0] = True, True
    random = np.random.default_rng(0)
    reward, values = random.normal(size=(2, length, 3))
    trajectories = Trajectories(reward, terminated, truncated, first, valid)
    advantages = gae(trajectories, values, 0.9, 0.8)
    np.testing.assert_allclose(advantages, per_episode_reference(trajectories, values, 0.9, 0.8), atol=1e-12)
    assert not advantages[~valid].any()
    assert advantages[5, 1] == pytest.approx(reward[5, 1] + 0.9 * values[6, 1] - values[5, 1])
    assert trajectories.usable().sum() == 4 + 6 + 9 + 4


def test_an_episode_given_up_is_not_bootstrapped_from_the_next():
    trajectories = episode(1.0, "none", 4)
    trajectories.valid[4] = True  # no final observation: the next episode follows at once
    trajectories.first[4] = True
    usable = trajectories.usable()[:, 0]
    assert not usable[3]
    values = np.full((6, 1), 2.0)
    assert gae(trajectories, values, 0.9, 0.9)[3, 0] == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_vtrace_with_ratio_one_equals_gae(seed):
    trajectories, values, _ = random_trajectories(seed)
    advantages, targets = vtrace(trajectories, values, np.zeros(values.shape), 0.97, 0.9)
    expected = gae(trajectories, values, 0.97, 0.9)
    np.testing.assert_allclose(advantages, expected, atol=1e-12)
    np.testing.assert_allclose(targets, values + expected, atol=1e-12)


def test_vtrace_with_ratio_and_lambda_one_is_the_n_step_return():
    trajectories, values, _ = random_trajectories(1, rate=0.0)
    _, targets = vtrace(trajectories, values, np.zeros(values.shape), 0.9, 1.0)
    for t in range(len(values) - 1):
        n = len(values) - 1 - t
        expected = (0.9 ** np.arange(n)) @ trajectories.reward[t:-1] + 0.9**n * values[-1].astype(np.float64)
        np.testing.assert_allclose(targets[t], expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_vtrace_equals_its_defining_sum(seed):
    """Targets by eq. 1 of the paper: V_s + sum_t gamma^(t-s) (prod c) rho_t delta_t, within each episode."""
    trajectories, values, random = random_trajectories(seed, length=20, columns=3)
    log_ratios = random.normal(size=values.shape)
    gamma, lam, rho_bar, c_bar = 0.9, 0.95, 1.2, 0.8
    advantages, targets = vtrace(trajectories, values, log_ratios, gamma, lam, rho_bar=rho_bar, c_bar=c_bar)
    rho, c = np.minimum(np.exp(log_ratios), rho_bar), lam * np.minimum(np.exp(log_ratios), c_bar)
    expected = values.astype(np.float64).copy()
    t_ = trajectories
    for b in range(values.shape[1]):
        for start in range(len(values) - 1):
            weight, s = 1.0, start
            while s < len(values) - 1 and t_.valid[s, b]:
                following = 0.0 if t_.terminated[s, b] else float(values[s + 1, b])
                delta = float(t_.reward[s, b]) + gamma * following - float(values[s, b])
                expected[start, b] += weight * rho[s, b] * delta
                if t_.terminated[s, b] or t_.truncated[s, b] or t_.first[s + 1, b]:
                    break
                weight *= gamma * c[s, b]
                s += 1
    np.testing.assert_allclose(targets, expected, atol=1e-9)
    t = 5
    step = ~(t_.terminated[t] | t_.truncated[t]) & t_.valid[t] & t_.valid[t + 1]
    expected_advantage = t_.reward[t] + gamma * (values[t + 1] + lam * (targets[t + 1] - values[t + 1])) - values[t]
    np.testing.assert_allclose(advantages[t][step], expected_advantage[step], atol=1e-6)


def test_vtrace_ignores_the_ratios_of_steps_without_action():
    trajectories, values, _ = random_trajectories(0)
    log_ratios = np.where(trajectories.valid, 0.3, np.nan)
    advantages, targets = vtrace(trajectories, values, log_ratios, 0.9, 0.9)
    assert np.isfinite(advantages).all()
    assert np.isfinite(targets).all()


def test_normalisation_and_explained_variance_count_usable_steps_alone():
    random = np.random.default_rng(0)
    advantages = random.normal(3, 7, size=(20, 4))
    usable = random.random((20, 4)) < 0.1
    advantages[~usable] = 1e6
    advantages[0, 0], usable[0, 0] = np.nan, True
    scaled = normalise(advantages, usable)[usable & np.isfinite(advantages)]
    assert scaled.mean() == pytest.approx(0, abs=1e-9)
    assert scaled.std() == pytest.approx(1, abs=1e-6)
    targets = random.normal(size=(20, 4))
    assert explained_variance(targets, targets, usable) == pytest.approx(1)
    assert explained_variance(np.zeros((20, 4)), targets, usable) == pytest.approx(0)
    assert explained_variance(targets, targets, np.zeros((20, 4), bool)) == 0
