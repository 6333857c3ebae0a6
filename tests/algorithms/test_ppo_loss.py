import numpy as np
import pytest
import torch

from srl_core.algorithms.ppo.loss import policy_loss, value_loss


def plain_policy_loss(log_ratio: float, advantage: float, clip: float, dual_clip: float | None) -> float:
    ratio = float(np.exp(log_ratio))
    surrogate = min(ratio * advantage, min(max(ratio, 1 - clip), 1 + clip) * advantage)
    if dual_clip is not None and advantage < 0:
        surrogate = max(surrogate, dual_clip * advantage)
    return -surrogate


@pytest.mark.parametrize("dual_clip", [None, 3.0, 1.5])
def test_policy_loss_and_gradient(dual_clip):
    random = np.random.default_rng(0)
    log_ratio, advantage = random.normal(0, 1, 500), random.normal(0, 2, 500)
    x = torch.tensor(log_ratio, requires_grad=True)
    loss, clipped = policy_loss(x, torch.tensor(advantage), 0.2, dual_clip)
    expected = [plain_policy_loss(r, a, 0.2, dual_clip) for r, a in zip(log_ratio, advantage, strict=True)]
    np.testing.assert_allclose(loss.detach().numpy(), expected, atol=1e-12)
    np.testing.assert_array_equal(clipped.numpy(), np.abs(np.exp(log_ratio) - 1) > 0.2)
    loss.sum().backward()
    assert x.grad is not None
    step = 1e-6
    for i, (r, a) in enumerate(zip(log_ratio, advantage, strict=True)):
        up, down = (plain_policy_loss(r + s, a, 0.2, dual_clip) for s in (step, -step))
        assert x.grad[i].item() == pytest.approx((up - down) / (2 * step), abs=1e-5)


def test_known_values_of_the_surrogate():
    ratios = torch.tensor([2.0, 2.0, 0.5, 0.5, 10.0]).log()
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0])
    loss, _ = policy_loss(ratios, advantage, 0.2, 3.0)
    torch.testing.assert_close(loss, torch.tensor([-1.2, 2.0, -0.5, 0.8, 3.0]))


@pytest.mark.parametrize("kind", ["mse", "huber"])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_value_loss_and_gradient(kind, clip):
    random = np.random.default_rng(1)
    value, target, old = (torch.tensor(random.normal(0, 2, 300)) for _ in range(3))
    value.requires_grad_()

    def plain(v: float, t: float, o: float) -> float:
        def error(p: float) -> float:
            e = abs(p - t)
            return 0.5 * e * e if kind == "mse" or e <= 1.0 else e - 0.5

        return error(v) if clip is None else max(error(v), error(o + min(max(v - o, -clip), clip)))

    loss = value_loss(value, target, old, kind, 1.0, clip)
    triples = list(zip(value.tolist(), target.tolist(), old.tolist(), strict=True))
    np.testing.assert_allclose(loss.detach().numpy(), [plain(*x) for x in triples], atol=1e-12)
    loss.sum().backward()
    assert value.grad is not None
    for i, (v, t, o) in enumerate(triples):
        numeric = (plain(v + 1e-6, t, o) - plain(v - 1e-6, t, o)) / 2e-6
        assert value.grad[i].item() == pytest.approx(numeric, abs=1e-5)
