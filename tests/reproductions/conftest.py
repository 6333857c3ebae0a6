"""Figures whose preset is a tiny experiment that is never built, and results made of them."""

import sys
import types
from pathlib import Path

import pytest

from reproductions.__main__ import main
from tests.reproductions import fakes


@pytest.fixture
def tiny_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the tiny experiment in the preset's place: these tests are about what surrounds a run."""
    presets = types.ModuleType("reproductions.presets.atari")
    presets.__dict__["atari_ppo"] = fakes.experiment
    monkeypatch.setitem(sys.modules, presets.__name__, presets)


@pytest.fixture
def results(tmp_path: Path, tiny_preset: None) -> Path:
    """Both figures' results, made by the command from fake runs."""
    for figure in ("pong-learning", "single-machine-throughput"):
        arguments = [figure, "--runs-dir", str(tmp_path / "runs"), "--results-dir", str(tmp_path / "results")]
        assert main(arguments, fakes.FakeRunner()) == 0
    return tmp_path / "results"
