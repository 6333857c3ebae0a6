"""Figures whose preset is a tiny experiment that is never built, and results made of them."""

import sys
import types
from pathlib import Path

import pytest

from reproductions.__main__ import main
from tests.reproductions import fakes


def _use_tiny_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    presets = types.ModuleType("reproductions.presets.atari")
    presets.__dict__["atari_ppo"] = fakes.experiment
    monkeypatch.setitem(sys.modules, presets.__name__, presets)


@pytest.fixture
def tiny_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the tiny experiment in the preset's place: these tests are about what surrounds a run."""
    _use_tiny_preset(monkeypatch)


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both figures' results, made by the command from fake runs; only to be read."""
    home = tmp_path_factory.mktemp("reproductions")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _use_tiny_preset(monkeypatch)
        for figure in ("pong-learning", "single-machine-throughput"):
            arguments = [figure, "--runs-dir", str(home / "runs"), "--results-dir", str(home / "results")]
            assert main(arguments, fakes.FakeRunner()) == 0
    return home / "results"
