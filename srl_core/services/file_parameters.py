"""Parameters as files: for hosts that share a file system, and for readers that come when the run is over."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from srl_core.base.arrays import Arrays
from srl_core.base.errors import RunError, UserError
from srl_core.base.files import write_atomic, write_json
from srl_core.services.parameters import LATEST, ParameterService, check_newer, check_tag, not_kept

_RETRIES = 100
"""Looks at the tags; each is needed only where the version went away between two looks at the directory."""


class FileParameters(ParameterService):
    """One safetensors file a version, and `tags.json`, which names the version of each tag."""

    def __init__(self, directory: Path, keep: int = 3) -> None:
        """Keeps `keep` versions beside those that are tagged; `UserError` where the directory cannot be written."""
        self._directory, self._keep = directory, keep
        self._seen = -1
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"parameter directory {directory} cannot be written: {error.strerror}") from None

    def publish(self, version: int, parameters: Mapping[str, np.ndarray], tags: Sequence[str] = ()) -> None:
        names = [LATEST, *map(check_tag, tags)]
        with self._writing():
            tagged = self._tags()
            check_newer(version, max(tagged.get(LATEST, -1), self._seen))
            arrays = {name: np.asarray(array, order="C") for name, array in parameters.items()}
            write_atomic(self._file(version), safetensors.numpy.save(arrays))
            self._point(tagged | dict.fromkeys(names, version))

    def read(self, tag: str = LATEST, newer_than: int = -1) -> tuple[int, Arrays] | None:
        for _ in range(_RETRIES):
            version = self.version(tag)
            if version <= newer_than:
                return None
            try:
                arrays = safetensors.numpy.load(self._file(version).read_bytes())
            except FileNotFoundError:  # replaced by newer versions since the tags were read
                continue
            except safetensors.SafetensorError as error:
                raise RunError(f"{self._file(version)} is damaged: {error}") from None
            if tag == LATEST:
                if version < self._seen:
                    return None
                self._seen = version
            return version, {name: array.copy() for name, array in arrays.items()}
        raise RunError(f"{self._directory} has no file of the version that its tag {tag!r} names")

    def version(self, tag: str = LATEST) -> int:
        return self._tags().get(tag, -1)

    def tag(self, name: str, source: int | str) -> None:
        with self._writing():
            tagged = self._tags()
            version = tagged.get(source, -1) if isinstance(source, str) else source
            if not self._file(version).is_file():
                raise not_kept(source, list(tagged.items()))
            self._point(tagged | {check_tag(name): version})

    def _point(self, tagged: dict[str, int]) -> None:
        write_json(self._directory / "tags.json", tagged)
        versions = sorted(int(p.stem) for p in self._directory.glob("*.safetensors") if p.stem.isdigit())
        untagged = [v for v in versions if v not in tagged.values()]
        for version in untagged[: max(0, len(untagged) - self._keep)]:
            self._file(version).unlink(missing_ok=True)

    def _tags(self) -> dict[str, int]:
        try:
            return json.loads((self._directory / "tags.json").read_bytes())
        except FileNotFoundError:
            return {}

    def _file(self, version: int) -> Path:
        return self._directory / f"{version:012d}.safetensors"

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        fd = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)
