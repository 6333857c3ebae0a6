"""A worker's process: `python -m srl_core.workers.main --plan=FD --name=NAME ...`, started by a launcher."""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from srl_core.api import Stopped
from srl_core.base.files import write_json
from srl_core.base.processes import die_with_parent
from srl_core.workers.context import WorkerContext
from srl_core.workers.kinds import make_worker
from srl_core.workers.plan import open_context, read_plan

POLL_SECONDS = 0.5
"""Longest wait of one poll, so that heartbeat and CPU time stay fresh."""

NICENESS = {"actor": 5, "evaluator": 5}
"""Those that make data give way to those that use it: on busy cores the trainer then waits for samples, and hardly ever
samples for the trainer, so that they are fresh. With equal shares of the cores the queues stay full, and stale."""


def run_worker(kind: str, context: WorkerContext) -> None:
    """The life cycle of one worker; returns when it is finished or the run's stop flag is set."""
    row = context.table.row(context.name)
    worker = make_worker(kind, context)
    try:
        beat = time.monotonic()
        row.set("heartbeat", beat)
        while not context.stop.is_set():
            result = worker.poll(POLL_SECONDS)
            now = time.monotonic()
            if now - beat > 0.2 or result.finished:
                beat = now
                row.set("heartbeat", now)
                row.set("cpu_seconds", time.process_time())
            if result.finished:
                break
        worker.drain()
        row.set("finished", 1)
    except Stopped:
        worker.drain()
    finally:
        worker.close()
        context.metrics.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    for name, kind in {"plan": int, "name": str, "kind": str, "index": int, "policy": str, "parent": int}.items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    args = parser.parse_args()
    die_with_parent(args.parent)
    os.nice(NICENESS.get(args.kind, 0))
    for number in (signal.SIGINT, signal.SIGTERM):  # terminals and service managers tell all; the controller decides
        signal.signal(number, signal.SIG_IGN)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # the stack of a hanging worker, even inside C code
    plan = read_plan(args.plan)
    try:
        context = open_context(plan, name=args.name, kind=args.kind, index=args.index, policy=args.policy)
        run_worker(args.kind, context)
    except Exception as error:
        report = {"time": time.time(), "error": describe(error), "traceback": traceback.format_exc()}
        path = Path(plan["run_dir"]) / "logs" / f"{args.name}.error.json"
        traceback.print_exc()
        try:
            write_json(path, report)
        except OSError:  # a full disk must not hide the error, which is in the log too
            print(json.dumps(report), file=sys.stderr)
        return 1
    return 0


def describe(error: BaseException) -> str:
    """One line: the exception's type, message and, for library errors, where it came from."""
    frame = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    where = f" ({os.path.basename(frame.filename)}:{frame.lineno})" if frame else ""
    return f"{type(error).__name__}: {error}{where}"


if __name__ == "__main__":
    sys.exit(main())
