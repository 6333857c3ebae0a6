"""What is said about the machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

from srl_core.base import hardware


def test_the_description_is_json_and_plausible() -> None:
    found = json.loads(json.dumps(hardware.describe()))
    assert found["cpu"]
    assert 0 < found["cores"] <= len(os.sched_getaffinity(0))
    assert found["memory_bytes"] > 2**28
    assert 0 < hardware.available_memory() <= found["memory_bytes"]


def test_versions_are_those_of_the_modules() -> None:
    import numpy

    versions = hardware.package_versions()
    assert versions["numpy"] == numpy.__version__
    assert versions["python"] == sys.version.split()[0]


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from srl_core.base import hardware as h; h.describe(); h.package_versions(); h.git_state();"
        "print(sorted({'torch', 'numpy', 'gymnasium', 'ale_py'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_fewer_cores_by_affinity() -> None:
    code = "import os; from srl_core.base import hardware as h; os.sched_setaffinity(0, {%d}); print(h.usable_cores())"
    core = min(os.sched_getaffinity(0))
    assert subprocess.run([sys.executable, "-c", code % core], capture_output=True, check=True).stdout in (
        b"1.0\n",
        b"0.5\n",
    )


def test_limits_of_control_groups_of_both_versions(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(hardware, "_cgroups", lambda controller: iter([tmp_path / controller]))
    for controller in ("cpu", "memory"):
        (tmp_path / controller).mkdir()
    free = hardware.available_memory()  # empty groups limit nothing
    assert free > 2**28
    (tmp_path / "cpu" / "cpu.max").write_text("50000 100000\n")
    assert hardware.usable_cores() == 0.5
    (tmp_path / "cpu" / "cpu.max").write_text("max 100000\n")
    assert hardware.usable_cores() == len(os.sched_getaffinity(0))
    (tmp_path / "cpu" / "cpu.max").unlink()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("25000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert hardware.usable_cores() == 0.25
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert hardware.usable_cores() == len(os.sched_getaffinity(0))
    (tmp_path / "memory" / "memory.max").write_text("5000\n")
    (tmp_path / "memory" / "memory.current").write_text("3000\n")
    (tmp_path / "memory" / "memory.stat").write_text("anon 2000\ninactive_file 700\n")
    assert hardware.available_memory() == 2700
    (tmp_path / "memory" / "memory.max").write_text("max\n")
    assert hardware.available_memory() > 2**28


def test_the_commit_is_git_s_own() -> None:
    source = Path(hardware.__file__).parent
    asked = subprocess.run(["git", "-C", source, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    commit, dirty = hardware.git_state()
    assert commit == (asked.stdout.strip() or "unknown")
    assert (dirty is None) == (commit == "unknown")


def test_code_that_is_not_in_a_checkout_has_no_commit(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "hardware.py").write_text("")
    monkeypatch.setattr(hardware, "__file__", str(tmp_path / "hardware.py"))
    assert hardware.git_state() == ("unknown", None)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)  # inside a checkout, but not of this code
    assert hardware.git_state() == ("unknown", None)
    monkeypatch.setenv("PATH", "")
    assert hardware.git_state() == ("unknown", None)
