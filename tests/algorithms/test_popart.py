import numpy as np
import pytest
import torch

from srl_core.algorithms.common.popart import VARIANCE_FLOOR, PopArt


def test_outputs_are_preserved_at_every_update():
    torch.manual_seed(0)
    head, popart = torch.nn.Linear(16, 1), PopArt(0.9)
    features = torch.randn(32, 16)
    random = np.random.default_rng(0)
    for scale in (1.0, 50.0, 1e-3, 1e4, 3.0):
        before = popart.denormalise(head(features).detach().double().numpy())
        step = popart.deviation  # of float32 arithmetic in the head, before and after
        popart.update(random.normal(2 * scale, scale, size=100), head)
        after = popart.denormalise(head(features).detach().double().numpy())
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6 * max(step, popart.deviation))


def test_statistics_equal_a_weighted_average_without_the_bias_of_the_start():
    popart, head = PopArt(0.8), torch.nn.Linear(2, 1)
    random = np.random.default_rng(1)
    batches = [random.normal(5, 3, size=n) for n in (10, 3, 40)]
    for batch in batches:
        popart.update(batch, head)
    weights = np.array([0.8**2, 0.8, 1.0])
    weights /= weights.sum()
    mean = sum(w * b.mean() for w, b in zip(weights, batches, strict=True))
    square = sum(w * (b**2).mean() for w, b in zip(weights, batches, strict=True))
    assert popart.mean == pytest.approx(mean)
    assert popart.deviation == pytest.approx(np.sqrt(square - mean**2))


def test_first_update_has_no_bias_even_with_a_slow_average():
    popart = PopArt(0.99999)
    targets = np.array([100.0, 104.0])
    popart.update(targets, torch.nn.Linear(2, 1))
    assert popart.mean == pytest.approx(102.0)
    assert popart.deviation == pytest.approx(2.0, rel=1e-3)
    np.testing.assert_allclose(popart.denormalise(popart.normalise(targets)), targets)


def test_variance_has_a_floor_and_what_is_not_finite_is_left_out():
    popart, head = PopArt(0.9), torch.nn.Linear(2, 1)
    popart.update(np.array([3.0, 3.0, np.nan, np.inf]), head)
    assert popart.mean == pytest.approx(3.0)
    assert popart.deviation == pytest.approx(np.sqrt(VARIANCE_FLOOR))
    before = popart.statistics.copy()
    popart.update(np.array([np.nan]), head)
    np.testing.assert_array_equal(popart.statistics, before)
    assert torch.isfinite(head.weight).all()
