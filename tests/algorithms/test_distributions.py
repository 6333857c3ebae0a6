import math

import numpy as np
import pytest
import torch

from srl_core.algorithms.common.distributions import DiagonalGaussian, MultiCategorical, distribution_for
from srl_core.api import ActionSpec

NVECS = [(4,), (3, 3), (5, 2, 3), (1,), (11, 11, 11, 2, 2)]
BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


def random_mask(random: np.random.Generator, rows: int, nvec: tuple[int, ...], legal_rate: float = 0.4) -> np.ndarray:
    mask = random.random((rows, sum(nvec))) < legal_rate
    start = 0
    for n in nvec:  # at least one legal action in each dimension
        mask[np.arange(rows), start + random.integers(0, n, rows)] = True
        start += n
    return mask


def reference(logits: np.ndarray, action: np.ndarray, mask: np.ndarray, nvec: tuple[int, ...]):
    """Log-probability and entropy of one row, dimension by dimension, over legal actions alone."""
    log_prob, entropy, start = 0.0, 0.0, 0
    for d, n in enumerate(nvec):
        legal = mask[start : start + n]
        if legal.any():
            z = logits[start : start + n][legal].astype(np.float64)
            p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
            entropy -= (p * np.log(p)).sum()
            log_prob += np.log(p[np.cumsum(legal)[action[d]] - 1])
        start += n
    return log_prob, entropy


@pytest.mark.parametrize("nvec", NVECS)
@pytest.mark.parametrize("masked", [False, True])
def test_log_probability_and_entropy_equal_a_plain_loop(nvec, masked):
    random = np.random.default_rng(len(nvec))
    rows = 50
    logits = random.normal(0, 2, size=(rows, sum(nvec))).astype(np.float32)
    mask = random_mask(random, rows, nvec) if masked else np.ones((rows, sum(nvec)), bool)
    distribution = MultiCategorical(nvec)
    tensor_mask = torch.from_numpy(mask) if masked else None
    noise = torch.from_numpy(random.random((rows, len(nvec)), dtype=np.float32))
    action, sampled_log_prob = distribution.sample(torch.from_numpy(logits), noise, tensor_mask, greedy=False)
    log_prob, entropy = distribution.evaluate(torch.from_numpy(logits), action, tensor_mask)
    torch.testing.assert_close(log_prob, sampled_log_prob)
    for i in range(rows):
        expected = reference(logits[i], action[i].numpy(), mask[i], nvec)
        assert (log_prob[i].item(), entropy[i].item()) == pytest.approx(expected, abs=2e-5)


def test_sampling_inverts_the_cumulative_distribution():
    p = np.array([0.2, 0.5, 0.3])
    logits = torch.tensor(np.log(p), dtype=torch.float32).expand(1000, 3)
    noise = torch.arange(1000, dtype=torch.float32).div(1000).unsqueeze(1)
    action, _ = MultiCategorical((3,)).sample(logits, noise, None, greedy=False)
    expected = np.searchsorted(np.cumsum(p), noise[:, 0].numpy(), side="right")
    assert (action[:, 0].numpy() != expected).sum() <= 2  # rounding where noise meets a step


@pytest.mark.parametrize("nvec", [(6,), (5, 2, 3)])
def test_a_million_samples_hold_no_illegal_action(nvec):
    random = np.random.default_rng(7)
    rows = 1_000_000
    logits = torch.from_numpy(random.normal(0, 5, size=(rows, sum(nvec))).astype(np.float32))
    mask = torch.from_numpy(random_mask(random, rows, nvec, 0.2))
    noise = torch.from_numpy(random.random((rows, len(nvec)), dtype=np.float32))
    noise[: rows // 4], noise[rows // 4 : rows // 2] = 0.0, BELOW_ONE
    distribution = MultiCategorical(nvec)
    offsets = torch.tensor(np.cumsum((0, *nvec[:-1])))
    for greedy in (False, True):
        action, log_prob = distribution.sample(logits, noise, mask, greedy=greedy)
        assert mask.gather(1, action + offsets).all()
        assert torch.isfinite(log_prob).all()


@pytest.mark.parametrize("noise", [0.0, BELOW_ONE])
def test_extreme_logits_and_noise_still_give_a_possible_action(noise):
    logits = torch.tensor([[1e4, -1e4, 0.0, 1e4], [0.0, 0.0, 0.0, 0.0], [-1e4, 50.0, -1e4, -1e4]])
    mask = torch.tensor([[False, True, False, False], [True, False, False, True], [True, True, True, False]])
    action, log_prob = MultiCategorical((4,)).sample(logits, torch.full((3, 1), noise), mask, greedy=False)
    assert mask.gather(1, action).all()
    assert torch.isfinite(log_prob).all()
    assert action[2, 0] == 1


@pytest.mark.parametrize("nvec", [(4,), (3, 2)])
def test_a_dead_agent_and_nan_behind_the_mask_leave_loss_and_gradient_finite(nvec):
    width = sum(nvec)
    logits = torch.randn(3, width)
    mask = torch.ones(3, width, dtype=torch.bool)
    mask[0] = False
    mask[1, 1:] = False
    mask[1, -1] = True
    logits[~mask] = math.nan
    logits.requires_grad_()
    action = torch.zeros(3, len(nvec), dtype=torch.int64)
    action[1, -1] = nvec[-1] - 1 if len(nvec) > 1 else 0
    log_prob, entropy = MultiCategorical(nvec).evaluate(logits, action, mask)
    assert torch.isfinite(log_prob).all()
    assert log_prob[0] == 0
    assert entropy[0] == 0
    (log_prob.exp().sum() + entropy.sum()).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert not logits.grad[0].any()
    assert not logits.grad[~mask].any()


def test_single_legal_action_is_certain():
    mask = torch.tensor([[False, False, True]])
    log_prob, entropy = MultiCategorical((3,)).evaluate(torch.randn(1, 3), torch.tensor([[2]]), mask)
    assert log_prob.item() == 0
    assert entropy.item() == 0


def test_gradients_equal_finite_differences():
    torch.manual_seed(0)
    distribution = MultiCategorical((3, 2))
    logits = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, False, True, True, True], [True, True, True, False, True]])
    action = torch.tensor([[2, 0], [1, 1]])
    assert torch.autograd.gradcheck(lambda x: distribution.evaluate(x, action, mask), (logits,))
    gaussian = DiagonalGaussian(3).double()
    mean = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda m: gaussian.evaluate(m, torch.ones(2, 3).double(), None)[0], (mean,))


def test_gaussian_density_entropy_and_samples():
    random = np.random.default_rng(0)
    gaussian = DiagonalGaussian(2)
    with torch.no_grad():
        gaussian.log_std.copy_(torch.tensor([0.5, -1.0]))
    mean = torch.tensor([[1.0, -2.0]]).expand(200_000, 2)
    noise = torch.from_numpy(random.random((200_000, 2), dtype=np.float32))
    noise[0], noise[1] = 0.0, BELOW_ONE
    with torch.no_grad():
        action, log_prob = gaussian.sample(mean, noise, None, greedy=False)
        again, entropy = gaussian.evaluate(mean, action, None)
        assert torch.isfinite(action).all()
        std = np.exp([0.5, -1.0])
        np.testing.assert_allclose(action.mean(0), [1.0, -2.0], atol=0.02)
        np.testing.assert_allclose(action.std(0), std, rtol=0.02)
        torch.testing.assert_close(log_prob, again)
        z = (action.numpy().astype(np.float64) - mean.numpy()) / std
        expected = (-0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi)).sum(1)
        np.testing.assert_allclose(log_prob, expected, atol=1e-4)
        assert entropy[0].item() == pytest.approx((0.5 * np.log(2 * np.pi * np.e) + np.log(std)).sum(), abs=1e-5)
        torch.testing.assert_close(gaussian.sample(mean, noise, None, greedy=True)[0], mean)


def test_distribution_follows_the_action_spec():
    assert isinstance(distribution_for(ActionSpec((3,))), MultiCategorical)
    assert distribution_for(ActionSpec((3, 4))).outputs == 7
    assert isinstance(distribution_for(ActionSpec(size=2)), DiagonalGaussian)
