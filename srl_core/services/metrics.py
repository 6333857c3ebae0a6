"""What workers report: records of numbers for files, and counters that the controller reads without asking."""

from __future__ import annotations

import csv
import io
import json
import logging
import math
import os
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from srl_core.base.files import write_atomic
from srl_core.services.sinks import Sink, TensorBoardSink, WandbSink
from srl_core.services.worker_table import Row, WorkerTable

__all__ = ["MetricsWriter", "Row", "WorkerTable", "export_csv", "read_records"]

_log = logging.getLogger(__name__)

_QUEUE = 4096
"""Records that may wait for slow files before new ones are dropped."""


class MetricsWriter:
    """Appends records to the run's `metrics.jsonl` and to TensorBoard, from a thread of its own.

    Each process has its own writer; lines of several never mix. Nothing that goes wrong with a file or a service stops
    or slows training: records that cannot be written are counted, and the first error of each kind is logged.
    """

    def __init__(self, run_dir: Path, writer: str, *, wandb_project: str = "") -> None:
        """`writer` names the process; `UserError` where `wandb_project` is given but wandb is not installed."""
        self.sink_errors = 0
        """Records that TensorBoard or Weights & Biases did not take."""
        self.non_finite = 0
        """Numbers that were not finite; they are written as null."""
        self._path = run_dir / "metrics.jsonl"
        self._sinks: list[Sink] = [TensorBoardSink(run_dir / "tensorboard")]
        if wandb_project:
            self._sinks.append(WandbSink(wandb_project, run_dir.name, writer, run_dir))
        self._queue: queue.Queue[dict[str, Any] | threading.Event | None] = queue.Queue(_QUEUE)
        self._overflowed = 0
        self._unwritten = 0
        self._logged: set[str] = set()
        self._fd = -1
        self._thread: threading.Thread | None = None
        self._feeding = False
        """Whether the thread is busy with sinks rather than with the file."""
        self._name = f"metrics-{writer}"

    @property
    def dropped(self) -> int:
        """Records that were left out of metrics.jsonl, because it was too slow or could not be written."""
        return self._overflowed + self._unwritten

    def write(self, kind: str, record: Mapping[str, Any]) -> None:
        """Queue one record: numbers, text, and lists of numbers. `t` [s] is training time. Returns at once.

        `TypeError` for any other value.
        """
        line = {"kind": kind, **{key: self._plain(key, value) for key, value in record.items()}}
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self._overflowed += 1

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until all that was queued is written, at most `timeout` seconds; whether it is."""
        if self._thread is None:
            return True
        done, deadline = threading.Event(), time.monotonic() + timeout
        try:
            self._queue.put(done, timeout=timeout)
        except queue.Full:
            return False
        return done.wait(max(0.0, deadline - time.monotonic()))

    def close(self, timeout: float = 10.0) -> None:
        """Write what is queued and end; gives up after `timeout` seconds."""
        if self._thread is None:
            return
        deadline = time.monotonic() + timeout
        try:
            self._queue.put(None, timeout=timeout)
            self._thread.join(max(0.0, deadline - time.monotonic()))
        except queue.Full:
            self._overflowed += self._queue.qsize()
        if self._thread.is_alive() and self._feeding:
            _log.warning("a sink of the metrics is still busy after %.0f s; metrics.jsonl alone gets the rest", timeout)
            self._append_rest()
        elif self._thread.is_alive():
            _log.warning("metrics were still being written after %.0f s; the rest is given up", timeout)
        if self.dropped or self.sink_errors:
            _log.warning("%d records were dropped, %d not taken by a sink", self.dropped, self.sink_errors)
        self._thread = None

    def _append_rest(self) -> None:
        """Write what still waits to the file, past the thread that a slow sink holds up."""
        rest = []
        while not self._queue.empty():
            try:
                rest.append(self._queue.get_nowait())
            except queue.Empty:
                break
        records = [item for item in rest if isinstance(item, dict)]
        if records:
            self._append(records)
        self._queue.put_nowait(None)

    def _plain(self, key: str, value: Any) -> Any:
        if not isinstance(key, str):
            raise TypeError(f"metric {key!r} must be named by text")
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            self.non_finite += 1
            return None
        if isinstance(value, list | tuple):
            return [self._plain(key, v) for v in value]
        if value is None or isinstance(value, bool | int | str):
            return value
        raise TypeError(f"metric {key} is a {type(value).__name__}; it must be a number, text or a list of numbers")

    def _serve(self) -> None:
        running = True
        while running:
            items = [self._queue.get()]
            while not self._queue.empty():
                items.append(self._queue.get_nowait())
            records = [item for item in items if isinstance(item, dict)]
            running = None not in items
            if records:
                self._append(records)
                self._feeding = True
                self._feed(records)
                self._feeding = False
            for item in items:
                if isinstance(item, threading.Event):
                    item.set()
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:
                self._failed(sink, error)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, records: list[dict[str, Any]]) -> None:
        data = "".join(json.dumps(r, allow_nan=False) + "\n" for r in records).encode()
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
                size = os.fstat(self._fd).st_size
                if size and os.pread(self._fd, 1, size - 1) != b"\n":
                    data = b"\n" + data  # a process that was killed left half a line
            written = os.write(self._fd, data)  # one call, so that other processes' lines come before or after
            if written < len(data):
                raise OSError(f"only {written} of {len(data)} bytes could be written")
        except OSError as error:
            self._unwritten += len(records)
            self._warn("metrics.jsonl", error)
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _feed(self, records: list[dict[str, Any]]) -> None:
        now = time.time()
        for sink in self._sinks:
            for record in records:
                try:
                    sink.write(_scalars(record), _step(record), now)
                except Exception as error:
                    self._failed(sink, error)
            try:
                sink.flush()
            except Exception as error:
                self._failed(sink, error)

    def _failed(self, sink: Sink, error: Exception) -> None:
        self.sink_errors += 1
        self._warn(type(sink).__name__, error)

    def _warn(self, what: str, error: Exception) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.warning("%s does not take metrics, training goes on without them: %s", what, error)


def _scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """`{kind/texts/name: number}`: texts, such as a policy's name, tell curves of one name apart."""
    group = "/".join(v for v in record.values() if isinstance(v, str))
    return {f"{group}/{k}": float(v) for k, v in record.items() if isinstance(v, int | float)}


def _step(record: Mapping[str, Any]) -> int:
    steps = record.get("env_steps")
    return int(steps) if isinstance(steps, int | float) else 0


def read_records(path: Path, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """The records of a `metrics.jsonl`, all or those of one kind; lines that a kill cut short are left out, logged."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict):
                if line.strip():
                    _log.warning("%s line %d is not a whole record", path, number)
                continue
            if kind is None or record.get("kind") == kind:
                yield record


def export_csv(metrics: Path, table: Path, kind: str) -> None:
    """Write the numbers and texts of all records of `kind` as a CSV file; lists are left out."""
    records = [{k: v for k, v in r.items() if not isinstance(v, list)} for r in read_records(metrics, kind)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(k for r in records for k in r)), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    write_atomic(table, text.getvalue().encode())
