"""Games as MP4."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from srl_core.api import Tick, VectorEnvironment
from srl_core.base.errors import UserError

_SCREENS_PER_SECOND = 60
"""Of the consoles; an env step holds `frame_skip` of them."""
_LEAST_WIDTH = 320


@runtime_checkable
class Drawable(Protocol):
    """An environment that can be seen."""

    def start_rendering(self) -> None:
        """Draw from the next `reset` on."""
        ...

    def render(self) -> np.ndarray:
        """The pictures of the last tick, uint8 [E, H, W, 3]."""
        ...


class Recorder:
    """Writes the first environment's first game; called with every tick."""

    def __init__(self, environment: VectorEnvironment, kind: str, path: Path) -> None:
        """`UserError` where the environment cannot be drawn, a package is missing, or `path` cannot be written."""
        if not isinstance(environment, Drawable):
            raise UserError(f"--video: environment {kind!r} cannot be drawn; leave the option out")
        try:
            import imageio_ffmpeg
        except ImportError:
            raise UserError("--video needs the package imageio-ffmpeg: pip install 'srl-core[atari]'") from None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            raise UserError(f"--video: {path} cannot be written: {error.strerror}") from None
        environment.start_rendering()
        self._write_frames = imageio_ffmpeg.write_frames
        self._environment: Drawable = environment
        self._fps = round(_SCREENS_PER_SECOND / environment.spec.frame_skip)
        self._path = path
        self._writer = None
        self._over = False

    def __call__(self, tick: Tick, actions: np.ndarray | None) -> None:
        """Add the picture of the first environment, until its game is over."""
        del actions
        if self._over:
            return
        picture = self._environment.render()[0]
        scale = -(-_LEAST_WIDTH // picture.shape[1])
        picture = picture.repeat(scale, axis=0).repeat(scale, axis=1)
        picture = picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]  # the format wants even sizes
        if self._writer is None:
            size = (picture.shape[1], picture.shape[0])
            self._writer = self._write_frames(str(self._path), size, fps=self._fps, macro_block_size=2)
            self._writer.send(None)
        self._writer.send(np.ascontiguousarray(picture).tobytes())
        if any(episode.env == 0 for episode in tick.episodes):
            self._over = True
            self.close()

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
