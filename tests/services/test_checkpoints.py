"""Checkpoints: exact, atomic, and forgiving of damage."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from srl_core.base.errors import RunError, UserError
from srl_core.services.checkpoints import Checkpoints

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "float32",
    "float64",
]


def some_state(value: int = 0) -> dict:
    return {"weight": np.full((20, 10), value, np.float32), "step": value, "rng": 2**127 + value}


def names(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir())


def test_nothing_saved_yet(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "none").load_latest() is None
    assert Checkpoints(tmp_path).load_latest() is None


def test_every_type_is_bit_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {}
    for dtype in DTYPES:
        raw = rng.integers(0, 2 if dtype == "bool" else 256, (4, 6 * np.dtype(dtype).itemsize), np.uint8)
        arrays[dtype] = raw.view(dtype)  # any bits: NaNs with payloads and denormals among them
    bfloat16 = rng.integers(0, 2**16, 50, np.uint16)
    odd = {"scalar": np.array(2.5), "empty": np.zeros((0, 3)), "strided": np.arange(24).reshape(4, 6)[::2, ::-1].T}
    odd["big_endian"] = np.arange(5, dtype=">i4")
    bits = np.random.PCG64(5).state
    state = {"arrays": arrays, "odd": odd, "bfloat16": bfloat16, "rng": bits, "optimizer": {0: {"m": np.ones(2)}}}
    checkpoints = Checkpoints(tmp_path)
    path = checkpoints.save(7, state)
    for step, found in (checkpoints.load_latest() or (-1, {}), checkpoints.load(path)):
        assert step == 7
        assert found["rng"] == bits
        np.testing.assert_array_equal(found["bfloat16"], bfloat16)
        np.testing.assert_array_equal(found["optimizer"][0]["m"], np.ones(2))
        for name, array in arrays.items():
            assert found["arrays"][name].dtype == array.dtype
            assert found["arrays"][name].tobytes() == array.tobytes()
        for name, array in odd.items():
            np.testing.assert_array_equal(found["odd"][name], array)
            assert found["odd"][name].shape == array.shape
        found["arrays"]["float32"][:] = 0  # writable


def test_a_resumed_generator_goes_on(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rng.random(5)
    Checkpoints(tmp_path).save(1, {"rng": rng.bit_generator.state})
    expected = rng.random(10)
    found = Checkpoints(tmp_path).load_latest()
    assert found is not None
    other = np.random.default_rng(99)
    other.bit_generator.state = found[1]["rng"]
    np.testing.assert_array_equal(other.random(10), expected)


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for keep in (1, 3, 5):
        directory = tmp_path / str(keep)
        checkpoints = Checkpoints(directory, keep=keep)
        for step in range(1, 9):
            path = checkpoints.save(step * 100, some_state(step))
            assert path.name == f"{step * 100:012d}"
            assert names(directory) == [f"{s * 100:012d}" for s in range(max(1, step - keep + 1), step + 1)]
        found = checkpoints.load_latest()
        assert found is not None
        assert (found[0], found[1]["step"]) == (800, 8)


def test_going_back_leaves_the_later_ones_behind(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        checkpoints.save(step, some_state(step))
    checkpoints.save(2, some_state(20))
    found = checkpoints.load_latest()
    assert found is not None
    assert (found[0], found[1]["step"]) == (2, 20)
    checkpoints.save(3, some_state(30))
    found = checkpoints.load_latest()
    assert found is not None
    assert found[1]["step"] == 30
    assert len(names(tmp_path)) == 2


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("file", ["arrays.safetensors", "state.json", "manifest.json"])
@pytest.mark.parametrize(
    "damage",
    [flip, Path.unlink, lambda p: p.write_bytes(b""), lambda p: p.write_bytes(p.read_bytes()[:-3]),
     lambda p: p.write_bytes(p.read_bytes() + b"more"), lambda p: (p.unlink(), p.mkdir())],
    ids=["flipped", "missing", "empty", "cut", "longer", "directory"],
)  # fmt: skip
def test_damage_to_the_newest_falls_back_with_a_warning(tmp_path: Path, file: str, damage, caplog) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, some_state(1))
    path = checkpoints.save(2, some_state(2))
    damage(path / file)
    with caplog.at_level(logging.WARNING):
        found = checkpoints.load_latest()
    assert found is not None
    assert (found[0], found[1]["step"]) == (1, 1)
    assert len(caplog.records) == 1
    assert str(path / file) in caplog.text or str(path) in caplog.text
    with pytest.raises(UserError, match="cannot be read"):
        checkpoints.load(path)
    checkpoints.save(2, some_state(22))  # the run gets there again
    found = checkpoints.load_latest()
    assert found is not None
    assert found[1]["step"] == 22
    assert len(names(tmp_path)) == 2


def test_one_checkpoint_s_files_do_not_pass_for_another_s(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    one, two = checkpoints.save(1, some_state(1)), checkpoints.save(2, some_state(2))
    for path in one.iterdir():
        (two / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="that of step 1"):
        checkpoints.load(two)


def test_all_damaged_is_an_error_and_never_a_fresh_start(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        flip(checkpoints.save(step, some_state(step)) / "arrays.safetensors")
    with pytest.raises(RunError, match=r"no checkpoint in .* can be read: 2 are damaged"):
        checkpoints.load_latest()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, some_state(1))
    path = checkpoints.save(2, some_state(2))
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 2, "new": 1}))
    for act in (checkpoints.load_latest, lambda: checkpoints.load(path)):
        with pytest.raises(UserError, match="has format 2; this version reads up to 1"):
            act()


def test_what_is_no_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be read: .*manifest\.json: No such file"):
        Checkpoints(tmp_path).load(tmp_path)


def test_a_value_that_cannot_be_saved_changes_nothing(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, some_state(1))
    with pytest.raises(TypeError, match=r"state policy/hook is a builtins\.function"):
        checkpoints.save(2, {"policy": {"hook": flip}})
    assert names(tmp_path) == [f"{1:012d}"]


def test_torch_reads_the_arrays_without_pickle(tmp_path: Path) -> None:
    import safetensors.torch
    import torch

    path = Checkpoints(tmp_path).save(1, {"policy": {"weight": np.arange(6, dtype=np.float32).reshape(2, 3)}})
    tensors = safetensors.torch.load_file(path / "arrays.safetensors")
    assert torch.equal(tensors["policy/weight"], torch.arange(6, dtype=torch.float32).reshape(2, 3))


_SAVER = """
import sys, numpy as np
from pathlib import Path
from srl_core.services.checkpoints import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]), keep=2)
found = checkpoints.load_latest()
step = found[0] if found else 0
if found:
    assert (found[1]["weight"] == step).all() and found[1]["step"] == step
print(step, flush=True)
while True:
    step += 1
    checkpoints.save(step, {"weight": np.full(200_000, step, np.float32), "step": step})
"""


def kill_while_saving(directory: Path, times: int) -> None:
    chance, reached = random.Random(0), 0
    for _ in range(times):
        child = subprocess.Popen(
            [sys.executable, "-c", _SAVER, str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        began_at = child.stdout.readline()
        assert began_at, child.communicate()[1]
        assert int(began_at) >= reached
        reached = int(began_at)
        time.sleep(chance.uniform(0, 0.03))  # the moment of death, not a synchronisation
        child.send_signal(signal.SIGKILL)
        child.communicate()
        found = Checkpoints(directory).load_latest()
        if found is not None:
            assert found[0] >= reached
            assert (found[1]["weight"] == found[0]).all()
            reached = found[0]
    assert reached > 0
    Checkpoints(directory, keep=2).save(reached + 1, some_state())
    assert len(os.listdir(directory)) == 2  # nothing of the killed ones is left


def test_killed_while_saving(tmp_path: Path, caplog) -> None:
    kill_while_saving(tmp_path, 15)
    assert not caplog.records


@pytest.mark.slow
def test_killed_while_saving_two_hundred_times(tmp_path: Path, caplog) -> None:
    kill_while_saving(tmp_path, 200)
    assert not caplog.records


_FILLER = """
import json, resource, signal, sys, numpy as np
from pathlib import Path
from srl_core.services.checkpoints import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]))
checkpoints.save(1, {"weight": np.ones(1000)})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
errors = 0
for step in range(2, 6):
    try:
        checkpoints.save(step, {"weight": np.ones(100_000)})
    except OSError:
        errors += 1
checkpoints.save(9, {"weight": np.full(1000, 9.0)})
print(errors)
"""


def test_a_disk_that_takes_no_more_leaves_the_old_ones(tmp_path: Path) -> None:
    # The limit on file sizes stands in for a full disk and needs no rights: the write ends in the middle.
    done = subprocess.run([sys.executable, "-c", _FILLER, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "4\n"
    assert names(tmp_path) == [f"{1:012d}", f"{9:012d}"]
    found = Checkpoints(tmp_path).load_latest()
    assert found is not None
    assert found[0] == 9


def test_a_reader_meets_a_writer(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", _SAVER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        newest, end = 0, time.monotonic() + 1.0
        while time.monotonic() < end or newest == 0:
            found = Checkpoints(tmp_path).load_latest()
            if found is not None:
                assert found[0] >= newest
                assert (found[1]["weight"] == found[0]).all()
                newest = found[0]
    finally:
        writer.kill()
        writer.communicate()


HOSTILE_MANIFESTS = {
    "an endless file": lambda m: m["files"]["state.json"].update(bytes=10**15),
    "no size": lambda m: m["files"].update({"state.json": 3}),
    "negative": lambda m: m["files"]["state.json"].update(bytes=-(10**9)),
    "another file": lambda m: m["files"].update({"../../../../etc/passwd": m["files"].pop("state.json")}),
}


@pytest.mark.parametrize("what", HOSTILE_MANIFESTS)
def test_a_manifest_reaches_no_other_file_and_no_more_memory(tmp_path: Path, what: str) -> None:
    path = Checkpoints(tmp_path).save(1, some_state())
    manifest = json.loads((path / "manifest.json").read_text())
    HOSTILE_MANIFESTS[what](manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="cannot be read"):
        Checkpoints(tmp_path).load(path)


def test_files_that_grew_beyond_memory_are_damage(tmp_path: Path) -> None:
    for name in ("arrays.safetensors", "manifest.json"):
        path = Checkpoints(tmp_path).save(1, some_state())
        os.truncate(path / name, 2**42)  # takes no disk
        with pytest.raises(UserError, match="cannot be read"):
            Checkpoints(tmp_path).load(path)
