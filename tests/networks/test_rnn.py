import pytest
import torch

from srl_core.networks.rnn import Recurrence


def step_by_step(layer: Recurrence, x, state, first):
    """The cell's equations, one step and one column at a time."""
    w_x, w_h, b_x, b_h = (getattr(layer.layer, n) for n in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"))
    outputs = torch.zeros(*x.shape[:2], layer.features)
    columns = []
    for b in range(x.shape[1]):
        s = [part[b] for part in state]
        for t in range(x.shape[0]):
            if first[t, b]:
                s = [torch.zeros_like(part) for part in s]
            gx, gh = w_x @ x[t, b] + b_x, w_h @ s[0] + b_h
            if len(s) == 2:
                i, f, g, o = (gx + gh).chunk(4)
                c = f.sigmoid() * s[1] + i.sigmoid() * g.tanh()
                s = [o.sigmoid() * c.tanh(), c]
            else:
                (rx, zx, nx), (rh, zh, nh) = gx.chunk(3), gh.chunk(3)
                r, z = (rx + rh).sigmoid(), (zx + zh).sigmoid()
                s = [(1 - z) * (nx + r * nh).tanh() + z * s[0]]
            outputs[t, b] = s[0]
        columns.append(s)
    return outputs, tuple(torch.stack(parts) for parts in zip(*columns, strict=True))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("reset_rate", [0.0, 0.1, 1.0])
def test_unroll_with_resets_equals_a_step_loop(kind, reset_rate):
    torch.manual_seed(0)
    layer = Recurrence(6, 8, kind)
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.1 * torch.randn_like(p))
    x = torch.randn(15, 4, 6, requires_grad=True)
    state = tuple(torch.randn(4, 8) for _ in layer.parts)
    first = torch.rand(15, 4) < reset_rate
    y, after = layer(x, state, first)
    expected, expected_after = step_by_step(layer, x, state, first)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(after, expected_after, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    (gradient,) = torch.autograd.grad(y.square().sum(), x)
    (expected_gradient,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_nothing_crosses_a_reset_not_even_nan(kind):
    layer = Recurrence(3, 5, kind)
    x, first = torch.randn(6, 2, 3), torch.zeros(6, 2, dtype=torch.bool)
    first[4] = True
    state = tuple(torch.full((2, 5), torch.nan) for _ in layer.parts)
    x[0] = torch.nan
    y, _ = layer(x, state, first)
    assert torch.isfinite(y[4:]).all()
    y_alone, _ = layer(x[4:], tuple(torch.zeros(2, 5) for _ in layer.parts), first[4:])
    torch.testing.assert_close(y[4:], y_alone)
