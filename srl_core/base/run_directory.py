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

Status = Literal["running", "completed", "interrupted", "failed"]

_LOCK, _CONFIG, _METADATA = "run.lock", "config.json", "metadata.json"


class RunDirectory:
    """One run on disk. `create` locks it for this process alone until `close`; `open` only reads.

    `metadata.json` is written with status `running` before anything else happens and is replaced atomically from then
    on, so a run that was killed is recognised: its status is still `running`.
    """

    def __init__(self, path: Path, metadata: dict[str, Any], lock: int | None) -> None:
        self.path = path
        self.metadata = metadata
        self._lock = lock

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any], *, seed: int) -> RunDirectory:
        """Begin a run at `path`, a new or empty directory, or go on with the run of the same `config` that is there.

        `UserError` where the directory cannot be written, is used by another process, or holds anything else.
        """
        lock = _acquire(path)
        try:
            if (path / _METADATA).exists():
                metadata = _read_metadata(path)
                if read_json(path / _CONFIG) != json.loads(json.dumps(config)):
                    raise UserError(f"{path} holds a run with another configuration; choose another directory")
                # A killed run wrote metrics after its last metadata: training time goes on from the later of the two.
                seconds = max(metadata["wall_seconds"], _last_t(path / "metrics.jsonl"))
                metadata.update(wall_seconds=seconds, resumes=metadata["resumes"] + 1)
            else:
                _refuse_strangers(path)
                metadata = _new_metadata(seed)
            commit, dirty = hardware.git_state()
            metadata.update(status="running", error=None, ended=None, commit=commit, dirty=dirty)
            metadata.update(versions=hardware.package_versions(), hardware=hardware.describe())
            run = cls(path, metadata, lock)
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
    def open(cls, path: Path) -> RunDirectory:
        """The run at `path`, to read from, also while it is running; `UserError` where there is none."""
        return cls(path, _read_metadata(path), None)

    @classmethod
    def claim(cls, path: Path) -> RunDirectory:
        """The run at `path`, locked by this process to tidy it up; `UserError` where another process holds it."""
        metadata = _read_metadata(path)
        return cls(path, metadata, _acquire(path))

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

    @property
    def cpu_seconds(self) -> float:
        """CPU time [s] of all processes and all parts so far."""
        return self.metadata["cpu_seconds"]

    @property
    def counts(self) -> dict[str, float]:
        """Counters of all parts so far."""
        return dict(self.metadata["counts"])

    def update(self, *, seconds: float, cpu_seconds: float, counts: Mapping[str, float]) -> None:
        """Record how far the run is; all three include its earlier parts. `ValueError` where time would go back."""
        if seconds < self.seconds:
            raise ValueError(f"training time would go back from {self.seconds} s to {seconds} s")
        self.metadata.update(wall_seconds=seconds, cpu_seconds=cpu_seconds, counts=dict(counts))
        self._write()

    def finish(self, status: Status, error: str | None = None) -> None:
        """Record how the run ended, with the root cause where it failed."""
        self.metadata.update(status=status, error=error, ended=_now())
        self._write()

    def withdraw(self) -> None:
        """Take back a run that never began: what `create` made goes, and the directory if nothing else is in it."""
        for name in (_METADATA, _CONFIG):
            (self.path / name).unlink(missing_ok=True)
        for directory in (self.logs, self.checkpoints, self.tensorboard):
            with contextlib.suppress(OSError):
                directory.rmdir()
        (self.path / _LOCK).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def close(self) -> None:
        """Let other processes have the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _write(self) -> None:
        if self._lock is None:
            raise RuntimeError(f"{self.path} is not locked by this process, so it must not write there")
        write_json(self.path / _METADATA, self.metadata)


def find_run(name_or_path: str, runs: Path) -> Path:
    """The directory of a run given by its path or by its name under `runs`; `UserError` with the nearest names."""
    for path in (runs / name_or_path, Path(name_or_path)):
        if (path / _METADATA).is_file():
            return path
    names = sorted(p.parent.name for p in runs.glob(f"*/{_METADATA}"))
    hint = nearest(name_or_path, names) if names else f"{runs} holds no run"
    raise UserError(f"no run {name_or_path!r}; {hint}")


def is_live(path: Path) -> bool:
    """Whether a process holds the run at `path`: its lock is freed by the kernel, however that process ends."""
    try:
        fd = os.open(path / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # not ours to look at, so not ours to touch
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _new_metadata(seed: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "status": "running",
        "error": None,
        "commit": "unknown",
        "dirty": None,
        "versions": {},
        "hardware": {},
        "seed": seed,
        "started": _now(),
        "ended": None,
        "resumes": 0,
        "wall_seconds": 0.0,
        "cpu_seconds": 0.0,
        "counts": {},
    }


def _refuse_strangers(path: Path) -> None:
    """Only what a killed `create` may leave can be there without metadata."""
    ours = (_LOCK, _CONFIG, "logs", "checkpoints", "tensorboard")
    strangers = sorted(p.name for p in path.iterdir() if p.name not in ours and not p.name.startswith("."))
    if strangers:
        raise UserError(f"{path} holds {strangers[0]!r} but no run; choose an empty or a new directory")


def _read_metadata(path: Path) -> dict[str, Any]:
    if not (path / _METADATA).is_file():
        raise UserError(f"{path} holds no run: {_METADATA} is missing")
    metadata = read_json(path / _METADATA)
    found = metadata.get("format") if isinstance(metadata, dict) else None
    if found != FORMAT:
        raise UserError(f"{path} holds a run of format {found}; this version reads format {FORMAT}")
    for name, value in _new_metadata(0).items():
        if name not in metadata:
            raise UserError(f"{path / _METADATA} lacks {name!r}; it is not as a run has written it")
        number = isinstance(value, int | float) and not _is_amount(metadata[name])
        if number or (isinstance(value, str | dict) and not isinstance(metadata[name], type(value))):
            raise UserError(f"{path / _METADATA} has {name} = {metadata[name]!r}; it is not as a run has written it")
    if not all(_is_amount(count) for count in metadata["counts"].values()):
        raise UserError(f"{path / _METADATA} has counts that are not numbers; it is not as a run has written it")
    return metadata


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _acquire(path: Path) -> int:
    """Lock the directory; the kernel frees the lock when this process ends, however it ends."""
    with _writable(path):
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
        if _is_amount(t):
            latest = max(latest, float(t))
    return latest


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
