"""Say what this machine offers: cores, memory, limits, packages; what is missing or too old is marked with `!`."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import resource
import shutil
from dataclasses import dataclass

from srl_core.base import hardware

_GIB = 2**30
_DISTRIBUTION = "srl-core"


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    name: str
    text: str
    problem: str = ""
    """What to do about it; empty where all is well."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""
    del parser


def run(options: argparse.Namespace, rest: list[str]) -> int:
    """Print the findings; exit code 1 where a package that the core needs is missing or too old."""
    del options, rest
    needed = core_packages()
    findings = [*machine(), *needed, *engines(), *torch_support()]
    for finding in findings:
        mark = "!" if finding.problem else " "
        print(f"{mark} {finding.name:24} {finding.text}{f' -- {finding.problem}' if finding.problem else ''}")
    return 1 if any(finding.problem for finding in needed) else 0


def machine() -> list[Finding]:
    """Processor, memory and limits."""
    cores, affinity, total = hardware.usable_cores(), len(os.sched_getaffinity(0)), os.cpu_count()
    model, flags = hardware.cpu_model_and_flags()
    fast = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "bf16") if flag in flags]
    free = hardware.available_memory()
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    disk = shutil.disk_usage(".").free
    return [
        Finding("system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}"),
        Finding("processor", f"{model} ({', '.join(fast) or 'no known vector instructions'})"),
        Finding(
            "cores",
            f"{cores:g} usable ({affinity} in the affinity of {total})",
            "" if cores >= 2 else "actors and trainer share one core: use actor.count=1 or --launcher inline",
        ),
        Finding(
            "memory", f"{free / _GIB:.1f} GiB available", "" if free > 2 * _GIB else "Pong on 2 cores takes about 2 GiB"
        ),
        _shared_memory(),
        Finding("open files", f"ulimit -n {files}", "" if files >= 1024 else "raise it: ulimit -n 4096"),
        Finding("disk", f"{disk / _GIB:.1f} GiB free here", "" if disk > _GIB else "checkpoints may not fit"),
    ]


def _shared_memory() -> Finding:
    try:
        usage = shutil.disk_usage("/dev/shm")
    except OSError as error:
        return Finding("/dev/shm", f"not there ({error.strerror}); not needed: streams use anonymous memory")
    return Finding("/dev/shm", f"{usage.free / _GIB:.1f} of {usage.total / _GIB:.1f} GiB free")


def core_packages() -> list[Finding]:
    """The packages that the core needs, against their stated minimum versions."""
    return [_package(name, minimum) for name, minimum, extra in requirements() if not extra]


def engines() -> list[Finding]:
    """Packages of the extras: simulators, pictures, analysis."""
    return [
        _package(name, minimum, extra) for name, minimum, extra in requirements() if extra not in ("", "dev", "all")
    ]


def requirements() -> list[tuple[str, str, str]]:
    """Name, minimum version and extra (empty: always needed) of each requirement, from the installed metadata."""
    found = []
    for text in importlib.metadata.requires(_DISTRIBUTION) or ():
        name = re.match(r"[A-Za-z0-9._-]+", text)
        minimum = re.search(r"[>=]=\s*([0-9.]+)", text)
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)", text)
        if name and name[0] != _DISTRIBUTION:
            found.append((name[0], minimum[1] if minimum else "0", extra[1] if extra else ""))
    return found


def _package(name: str, minimum: str, extra: str = "") -> Finding:
    what = f"srl-core[{extra}]" if extra else "srl-core"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "not installed", f"pip install '{what}'")
    old = _numbers(version) < _numbers(minimum)
    return Finding(name, version, f"older than {minimum}: pip install --upgrade '{what}'" if old else "")


def _numbers(version: str) -> tuple[int, ...]:
    """`1.12.0+cpu` is (1, 12): trailing zeros do not count."""
    numbers = [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def torch_support() -> list[Finding]:
    """What torch can use here."""
    try:
        import torch
    except ImportError as error:
        return [Finding("torch", "cannot be imported", str(error))]
    flags = hardware.cpu_model_and_flags()[1]
    native = flags & {"avx512_bf16", "amx_bf16", "bf16"}
    findings = [
        Finding("torch threads", str(torch.get_num_threads())),
        Finding(
            "bfloat16 on the CPU", f"fast ({', '.join(sorted(native))})" if native else "emulated, float32 is used"
        ),
    ]
    if not torch.cuda.is_available():
        return [*findings, Finding("CUDA", "no device that torch can use; training runs on the CPU")]
    for i in range(torch.cuda.device_count()):
        memory = torch.cuda.get_device_properties(i).total_memory
        findings.append(Finding(f"CUDA device {i}", f"{torch.cuda.get_device_name(i)}, {memory / _GIB:.0f} GiB"))
    return findings
