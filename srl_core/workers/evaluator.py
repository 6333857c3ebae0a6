"""The evaluator: whole games with a frozen version, never mixed into what is trained on."""

from __future__ import annotations

import time

import numpy as np

from srl_core.api import EnvironmentConfig, EpisodeEnd, Policy, PollResult, VectorEnvironment
from srl_core.base.arrays import Arrays, with_prefix, zeros
from srl_core.base.seeding import derive_seed, generator
from srl_core.base.stop import StopFlag
from srl_core.workers.context import Route, WorkerContext

TAG = "eval"


def play_episodes(
    environment: VectorEnvironment,
    policies: list[tuple[Policy, Route]],
    *,
    episodes: int,
    seed: int,
    greedy: bool,
    stop: StopFlag | None = None,
    on_tick=None,
) -> list[EpisodeEnd] | None:
    """Play until every environment has finished ceil(episodes / E) games, and count just those.

    An equal number from each: taking the first games to end would favour short ones. None if stopped before.
    `on_tick(tick, actions)` is called with every step.
    """
    spec = environment.spec
    agents = len(spec.agents)
    rows = [(np.arange(spec.num_envs)[:, None] * agents + np.array(route.agents)).ravel() for _, route in policies]
    states = [
        zeros(with_prefix("state", policy.spec.state), (len(r),)) for (policy, _), r in zip(policies, rows, strict=True)
    ]
    rng = generator(seed, "noise")
    quota = -(-episodes // spec.num_envs)
    games: list[list[EpisodeEnd]] = [[] for _ in range(spec.num_envs)]
    tick = environment.reset(derive_seed(seed, "environment"))
    while True:
        actions = np.zeros((spec.rows, spec.action.dims), spec.action.dtype)
        for (policy, _), mine, state in zip(policies, rows, states, strict=True):
            request: Arrays = {f"observation.{name}": array[mine] for name, array in tick.observation.items()}
            request.update(state)
            request["first"] = tick.first[mine]
            request["noise"] = rng.random((len(mine), spec.action.dims), np.float32)
            reply = policy.act(request, greedy=greedy)
            actions[mine] = reply["action"]
            absent = ~(tick.active | tick.first)[mine]  # such an agent keeps its state, as in an actor
            for name in state:
                state[name] = np.where(absent.reshape(-1, *[1] * (state[name].ndim - 1)), state[name], reply[name])
        if on_tick is not None:
            on_tick(tick, actions)
        environment.send(actions)
        tick = environment.recv()
        for episode in tick.episodes:
            if len(games[episode.env]) < quota:
                games[episode.env].append(episode)
        if all(len(g) == quota for g in games):
            if on_tick is not None:
                on_tick(tick, None)
            return [episode for g in games for episode in g]
        if stop is not None and stop.is_set():
            return None


class EvaluatorWorker:
    """Freezes the newest version under a tag, plays whole games with it, reports, and begins again."""

    def __init__(self, context: WorkerContext) -> None:
        self.name = context.name
        self._context = context
        experiment, spec = context.experiment, context.environment
        self._config = experiment.evaluation
        environment: EnvironmentConfig = experiment.environment
        self._environment = environment.build(min(self._config.envs, self._config.episodes), training=False)
        self._policies = [
            (experiment.algorithm.build_policy(spec, device="cpu", seed=experiment.seed), route)
            for route in context.routes
        ]
        self._row = context.table.row(context.name)
        self._count = int(context.table.total("evaluations"))
        self._evaluated: int | None = None
        self._next = context.clock.now() + self._config.interval_seconds

    def poll(self, timeout: float) -> PollResult:
        """Evaluate if it is time; when all trainers have finished, evaluate their last version and finish."""
        trainers = [r for r in self._context.table.rows() if r.startswith("trainer")]
        training_done = all(self._context.table.row(name).get("finished") for name in trainers)
        if training_done:
            if self._config.final and self._evaluated != self._newest():
                self._evaluate(final=True)
            return PollResult(False, finished=True)
        if self._config.interval_seconds and self._context.clock.now() >= self._next:
            self._next = max(self._next + self._config.interval_seconds, self._context.clock.now())
            self._evaluate(final=False)
            return PollResult(True)
        if not self._context.deterministic:
            self._context.stop.wait(min(timeout, 0.2))
        return PollResult(False)

    def _newest(self) -> int:
        return max(channel.parameters.version() for channel in self._context.channels.values())

    def _evaluate(self, *, final: bool) -> None:
        began = time.monotonic()
        t, env_steps = self._context.clock.now(), self._context.table.total("env_steps_consumed")
        version = -1
        for policy, route in self._policies:
            service = self._context.channels[route.policy].parameters
            service.tag(TAG, "latest")
            found = service.read(TAG)
            assert found is not None
            version = max(version, found[0])
            policy.write_parameters(found[1])
        self._evaluated = version
        episodes = play_episodes(
            self._environment,
            self._policies,
            episodes=self._config.episodes,
            seed=derive_seed(self._context.experiment.seed, "evaluation", self._count),
            greedy=self._config.greedy,
            stop=self._context.stop,
        )
        if episodes is None:
            return
        self._count += 1
        returns = [float(np.mean(e.returns)) for e in episodes]
        mean = float(np.mean(returns))
        infos = {key for e in episodes for key in e.info}
        self._context.metrics.write(
            "evaluation",
            {
                "t": t,
                "env_steps": env_steps,
                "version": version,
                "episodes": len(episodes),
                "return_mean": mean,
                "returns": returns,
                "lengths": [e.length for e in episodes],
                "final": float(final),
                "seconds": time.monotonic() - began,
                **{f"{key}_mean": float(np.mean([e.info.get(key, 0.0) for e in episodes])) for key in sorted(infos)},
            },
        )
        self._row.add("evaluations", 1)
        self._row.set("evaluation_return", mean)
        if mean >= self._context.experiment.budget.target_return:
            self._row.set("target_reached", 1)

    def drain(self) -> None:
        """An unfinished evaluation is not reported."""

    def close(self) -> None:
        self._environment.close()
