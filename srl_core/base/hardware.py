"""The machine, the installed versions and the source's commit, for the metadata of results; imports nothing heavy."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PACKAGES = (
    "srl-core",
    "numpy",
    "torch",
    "gymnasium",
    "ale-py",
    "opencv-python-headless",
    "pyzmq",
    "lz4",
    "safetensors",
)
_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_int8", "bf16")
"""CPU features that decide how fast networks run (`bf16` is ARM's name)."""


def describe() -> dict[str, Any]:
    """Plain JSON data on the machine; GPU names only where torch has been imported already."""
    model, flags = cpu_model_and_flags()
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": model,
        "cpu_flags": [f for f in _FLAGS if f in flags],
        "cores": usable_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": gpu_names(),
    }


def package_versions() -> dict[str, str]:
    """Versions of Python and of those packages that are installed, read from their metadata without importing them."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def git_state() -> tuple[str, bool | None]:
    """Commit of the checkout that this code is run from and whether tracked files differ from it.

    `("unknown", None)` where the code is installed elsewhere or git is missing.
    """
    here = Path(__file__).resolve()
    tracked = _git(here.parent, "ls-files", "--error-unmatch", here.name)
    commit = _git(here.parent, "rev-parse", "HEAD") if tracked else None
    changes = _git(here.parent, "status", "--porcelain", "--untracked-files=no") if commit else None
    if not commit or changes is None:
        return "unknown", None
    return commit, bool(changes)


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def cpu_model_and_flags() -> tuple[str, frozenset[str]]:
    """Name and feature flags of the first processor."""
    model, flags = "", frozenset[str]()
    for line in _lines(Path("/proc/cpuinfo")):
        key, _, value = line.partition(":")
        key = key.strip()
        if key == "model name" and not model:
            model = value.strip()
        elif key in ("flags", "Features") and not flags:
            flags = frozenset(value.split())
    return model or platform.processor() or "unknown", flags


def gpu_names() -> list[str]:
    """Names of the CUDA devices; empty where torch has not been imported: this never imports it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def usable_cores() -> float:
    """Cores that this process may use: its affinity, or less where a control group limits its time."""
    cores = float(len(os.sched_getaffinity(0)))
    for directory in _cgroups("cpu"):
        quota = _lines(directory / "cpu.max")[:1]  # version 2: "max 100000" or "200000 100000"
        if not quota:
            parts = _lines(directory / "cpu.cfs_quota_us")[:1] + _lines(directory / "cpu.cfs_period_us")[:1]
            quota = [" ".join(parts)]
        values = quota[0].split()
        if len(values) == 2 and values[0].isdigit():
            cores = min(cores, int(values[0]) / int(values[1]))
    return cores


def available_memory() -> int:
    """Bytes that can still be allocated without swapping: the machine's, or less where a control group limits it."""
    available = 0
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    for directory in _cgroups("memory"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _lines(directory / limit_name)[:1], _lines(directory / used_name)[:1]
            if limit and used and limit[0].isdigit():
                cached = sum(
                    int(line.split()[1])
                    for line in _lines(directory / "memory.stat")
                    if line.startswith("inactive_file ")  # page cache: given back when memory is asked for
                )
                available = min(available, max(0, int(limit[0]) - int(used[0]) + cached))
    return available


def _cgroups(controller: str) -> Iterator[Path]:
    """Directories of this process's control group and all its ancestors, version 1 or 2."""
    for line in _lines(Path("/proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root = Path("/sys/fs/cgroup")
        elif controller in controllers.split(","):
            root = Path("/sys/fs/cgroup") / controller
        else:
            continue
        directory = root / path.lstrip("/")
        # Inside a container the path may be the host's, which is not mounted here: its ancestors lead to the root.
        while directory.is_relative_to(root):
            if directory.is_dir():
                yield directory
            directory = directory.parent


def _lines(path: Path) -> list[str]:
    """Lines of a small file of the kernel; none where this kernel does not have it."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
