"""Where metrics go beside `metrics.jsonl`: TensorBoard and, if asked for, Weights & Biases."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from srl_core.base.errors import UserError


class Sink(Protocol):
    """Takes the scalars of records; called by one thread alone."""

    def write(self, scalars: Mapping[str, float], step: int, wall_time: float) -> None:
        """Raises whatever the sink fails with; later calls may succeed."""
        ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class TensorBoardSink:
    """One event file, made at the first record and anew after an error, since the old one may end in half a record."""

    _numbers = itertools.count()

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: Any = None

    def write(self, scalars: Mapping[str, float], step: int, wall_time: float) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        event = Event(wall_time=wall_time, step=step, summary=Summary(value=values))
        try:
            if self._writer is None:
                self._writer = self._open()
                self._writer.write(Event(wall_time=wall_time, file_version="brain.Event:2").SerializeToString())
            self._writer.write(event.SerializeToString())
        except OSError:
            self._writer = None
            raise

    def _open(self) -> Any:
        # The record writer alone: the event writer above it would import TensorFlow where that is installed.
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._directory.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(self._numbers)}"
        return RecordWriter((self._directory / name).open("xb"))

    def flush(self) -> None:
        if self._writer is not None:
            try:
                self._writer.flush()
            except OSError:
                self._writer = None
                raise

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class WandbSink:
    """One Weights & Biases run for each writer, grouped by the training run; started at the first record."""

    def __init__(self, project: str, run: str, writer: str, directory: Path) -> None:
        """`UserError` where the package is missing."""
        if importlib.util.find_spec("wandb") is None:
            raise UserError(
                f"logging.wandb_project is {project!r}, but wandb is not installed; "
                "run `pip install wandb` or leave it empty"
            )
        self._settings = {"project": project, "group": run, "name": f"{run}/{writer}", "dir": str(directory)}
        self._run: Any = None

    def write(self, scalars: Mapping[str, float], step: int, wall_time: float) -> None:
        if self._run is None:
            self._run = importlib.import_module("wandb").init(**self._settings)
        self._run.log({**scalars, "env_steps": step, "wall_time": wall_time})

    def flush(self) -> None:
        """It sends in the background."""

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None
