"""V-trace: off-policy correction of values and advantages (Espeholt et al. 2018, eq. 1 and remark 2)."""

from __future__ import annotations

import numpy as np

from srl_core.algorithms.common.advantages import Trajectories


def vtrace(
    trajectories: Trajectories,
    values: np.ndarray,
    log_ratios: np.ndarray,
    gamma: float,
    lam: float,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Advantages and value targets, float64 [L, B] each; `log_ratios` [L, B] of current to behaviour policy.

    With delta_t the one-step error, rho_t = min(rho_bar, ratio_t) and c_t = lambda * min(c_bar, ratio_t):

        target_t - V_t = rho_t delta_t + gamma c_t (target_{t+1} - V_{t+1})
        advantage_t    = delta_t + gamma lambda (target_{t+1} - V_{t+1})

    The advantage leaves out the step's own ratio, because PPO's surrogate multiplies by it. Where all ratios are 1,
    the advantage is that of GAE and the target V + advantage; with lambda = 1 as well, the target is the n-step return.
    """
    values = values.astype(np.float64)
    log_ratios = np.where(trajectories.usable(), log_ratios, 0.0)
    ratios = np.exp(np.minimum(log_ratios, 30.0))  # beyond any clip, and no overflow
    rho, c = np.minimum(ratios, rho_bar), lam * np.minimum(ratios, c_bar)
    decay = gamma * trajectories.continues()
    errors = trajectories.errors(values, gamma)
    correction = np.zeros_like(values)
    advantages = np.zeros_like(values)
    for t in range(len(values) - 2, -1, -1):
        carried = np.where(decay[t] > 0, decay[t] * correction[t + 1], 0.0)
        correction[t] = rho[t] * errors[t] + c[t] * carried
        advantages[t] = errors[t] + lam * carried
    return advantages, values + correction
