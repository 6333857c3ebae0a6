"""A run's directory: its configuration, its metadata, and the places of everything that it writes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from srl_core.base import hardware
from srl_core.base.errors import UserError
from srl_core.base.files import read_json, write_json
from srl_core.base.registry import nearest

FORMAT = 1
"""Of the directory's layout; a directory of another format is refused."""

Status = Literal["created", "running", "completed", "interrupted", "failed"]

_LOCK, _CONFIG, _METADATA, _COUNTERS = "run.lock", "config.json", "metadata.json", "counters.json"


class RunDirectory:
    """One run on disk. `create` and `open` lock it for this process alone until `close`; `read` only looks.

    `metadata.json` is there before anything else happens and is replaced atomically from then on, so a run that was
    killed is recognised: its status is still `running`.
    """

    def __init__(self, path: Path, metadata: dict[str, Any], lock: int | None) -> None:
        self.path = path
        self.metadata = metadata
        self._lock = lock

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any], *, seed: int, config_hash: str = "") -> RunDirectory:
        """A new run at `path`, which may be an empty directory or hold a run that was never started.

        `UserError` where the directory cannot be written, is used by another process, or holds anything else.
        """
        lock = _acquire(path, make=True)
        try:
            if (path / _METADATA).exists():
                _refuse_started(path, config)
            else:
                strangers = sorted(
                    p.name for p in path.iterdir() if p.name not in (_LOCK, _CONFIG) and p.name[0] != "."
                )
                if strangers:
                    raise UserError(f"{path} holds {strangers[0]!r} but no run; choose an empty or a new directory")
            run = cls(path, _new_metadata(seed, config_hash), lock)
            with _writable(path):
                for directory in (run.logs, run.checkpoints, run.tensorboard):
                    directory.mkdir(exist_ok=True)
                write_json(path / _CONFIG, config)
                run._write()
            return run
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def open(cls, path: Path, config: Mapping[str, Any] | None = None) -> RunDirectory:
        """The run at `path`, to go on with.

        `UserError` where there is none, it was made from another `config`, or another process uses it.
        """
        _read_metadata(path)
        lock = _acquire(path, make=False)
        try:
            metadata = _read_metadata(path)
            if config is not None and not _same(path, config):
                raise UserError(f"{path} holds a run with another configuration; choose another directory")
            # A killed run wrote metrics after its last metadata: training time goes on from the later of the two.
            metadata["wall_seconds"] = max(metadata["wall_seconds"], _last_t(path / "metrics.jsonl"))
            return cls(path, metadata, lock)
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def read(cls, path: Path) -> RunDirectory:
        """The run at `path` as it is now, also while it is running; `UserError` where there is none."""
        return cls(path, _read_metadata(path), None)

    def start(self) -> None:
        """Say that the run is running, on which machine and with which versions; for the first time or again."""
        metadata = self.metadata
        if metadata["started"] is None:
            metadata["started"] = _now()
        else:
            metadata["resumes"] += 1
        metadata["commit"], metadata["dirty"] = hardware.git_state()
        metadata.update(versions=hardware.package_versions(), hardware=hardware.describe())
        metadata.update(status="running", error=None, ended=None)
        with _writable(self.path):
            self._write()

    @property
    def config(self) -> Any:
        """The configuration as JSON data."""
        return read_json(self.path / _CONFIG)

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def seconds(self) -> float:
        """Training time [s] of all parts so far; the clock of a resumed run starts from it."""
        return self.metadata["wall_seconds"]

    def counters(self) -> dict[str, dict[str, float]]:
        """Counters of each worker as they were saved last; empty for a new run."""
        path = self.path / _COUNTERS
        return read_json(path) if path.exists() else {}

    def save_counters(self, counters: Mapping[str, Mapping[str, float]]) -> None:
        """Keep each worker's counters for a resumed run to go on from; non-finite ones are left out."""
        self._check_lock()
        finite = {w: {k: v for k, v in row.items() if math.isfinite(v)} for w, row in counters.items()}
        write_json(self.path / _COUNTERS, finite)

    def finish(
        self,
        status: Status,
        *,
        wall_seconds: float,
        cpu_seconds: float,
        counts: Mapping[str, float],
        error: str | None = None,
    ) -> None:
        """Record how the run ended, with the root cause where it failed; the numbers include its earlier parts."""
        self.metadata.update(
            status=status,
            error=error,
            ended=_now(),
            wall_seconds=max(wall_seconds, self.seconds),
            cpu_seconds=cpu_seconds,
            counts=dict(counts),
        )
        self._write()

    def close(self) -> None:
        """Let other processes have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _write(self) -> None:
        self._check_lock()
        write_json(self.path / _METADATA, self.metadata)

    def _check_lock(self) -> None:
        if self._lock is None:
            raise RuntimeError(f"{self.path} is not locked by this process, so it must not write there")


def find_run(name_or_path: str, runs: Path) -> Path:
    """The directory of a run given by its path or by its name under `runs`; `UserError` with the nearest names."""
    for path in (runs / name_or_path, Path(name_or_path)):
        if (path / _METADATA).is_file():
            return path
    names = sorted(p.parent.name for p in runs.glob(f"*/{_METADATA}"))
    hint = nearest(name_or_path, names) if names else f"{runs} holds no run"
    raise UserError(f"no run {name_or_path!r}; {hint}")


def _new_metadata(seed: int, config_hash: str) -> dict[str, Any]:
    commit, dirty = hardware.git_state()
    return {
        "format": FORMAT,
        "status": "created",
        "error": None,
        "config_hash": config_hash,
        "commit": commit,
        "dirty": dirty,
        "versions": hardware.package_versions(),
        "hardware": hardware.describe(),
        "seed": seed,
        "started": None,
        "ended": None,
        "resumes": 0,
        "wall_seconds": 0.0,
        "cpu_seconds": 0.0,
        "counts": {},
    }


def _refuse_started(path: Path, config: Mapping[str, Any]) -> None:
    status = _read_metadata(path)["status"]
    if status == "created":
        return
    if _same(path, config):
        raise UserError(f"{path} holds this run already, with status {status}; resume it or choose another directory")
    raise UserError(f"{path} holds a run with another configuration; choose another directory")


def _same(path: Path, config: Mapping[str, Any]) -> bool:
    return read_json(path / _CONFIG) == json.loads(json.dumps(config))


def _read_metadata(path: Path) -> dict[str, Any]:
    if not (path / _METADATA).is_file():
        raise UserError(f"{path} holds no run: {_METADATA} is missing")
    metadata = read_json(path / _METADATA)
    found = metadata.get("format") if isinstance(metadata, dict) else None
    if found != FORMAT:
        raise UserError(f"{path} holds a run of format {found}; this version reads format {FORMAT}")
    return metadata


def _acquire(path: Path, *, make: bool) -> int:
    """Lock the directory; the kernel frees the lock when this process ends, however it ends."""
    with _writable(path):
        if make:
            path.mkdir(parents=True, exist_ok=True)
        fd = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise UserError(f"{path} is in use by the run of process {owner}; stop it first") from None
    with _writable(path):
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


@contextlib.contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"run directory {path} cannot be written: {error.strerror}") from None


def _last_t(metrics: Path) -> float:
    """Largest `t` [s] among the last records of a metrics file; 0 where there is none."""
    try:
        with metrics.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 2**18))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return 0.0
    latest = 0.0
    for line in lines:
        try:
            t = json.loads(line).get("t", 0.0)
        except (ValueError, AttributeError):  # the first line is cut by the seek, the last one perhaps by a kill
            continue
        if isinstance(t, (int, float)):
            latest = max(latest, float(t))
    return latest


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
