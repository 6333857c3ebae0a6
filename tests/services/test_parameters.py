"""The contract of the parameter service, over all implementations."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from srl_core.api.streams import Stopped
from srl_core.base.arrays import Arrays, schema_of
from srl_core.base.errors import RunError, UserError
from srl_core.base.stop import StopFlag
from srl_core.services.file_parameters import FileParameters
from srl_core.services.parameters import InMemoryParameters, ParameterService, SharedMemoryParameters

Make = Callable[[Arrays], ParameterService]


def filled(value: float, size: int = 5) -> Arrays:
    return {
        "layer.weight": np.full((3, size), value, np.float32),
        "layer.bias": np.full((), value, np.float64),
        "normaliser.count": np.full(2, int(value), np.int64),
    }


@pytest.fixture(params=["memory", "shared", "file"])
def make(request, tmp_path: Path) -> Make:
    if request.param == "memory":
        return lambda example: InMemoryParameters()
    if request.param == "shared":
        return lambda example: SharedMemoryParameters.create(schema_of(example, 0), tags=("eval", "opponent"))
    return lambda example: FileParameters(tmp_path / "parameters")


@pytest.fixture
def service(make: Make) -> ParameterService:
    return make(filled(0))


def assert_is(found: tuple[int, Arrays] | None, version: int) -> None:
    assert found is not None
    assert found[0] == version
    assert found[1].keys() == filled(0).keys()
    for name, array in filled(version).items():
        np.testing.assert_array_equal(found[1][name], array)
        assert found[1][name].dtype == array.dtype
        assert found[1][name].shape == array.shape


def test_before_the_first_publication(service: ParameterService) -> None:
    assert service.version() == -1
    assert service.version("eval") == -1
    assert service.read() is None
    assert service.read("eval") is None
    with pytest.raises(ValueError, match="are not kept"):
        service.tag("eval", "latest")


def test_the_newest_version_is_read(service: ParameterService) -> None:
    for version in (0, 1, 2, 7):
        service.publish(version, filled(version))
        assert service.version() == version
        assert_is(service.read(), version)
        assert_is(service.read(newer_than=version - 1), version)
        assert service.read(newer_than=version) is None


@pytest.mark.parametrize("version", [5, 4, 0, -1])
def test_versions_only_grow(service: ParameterService, version: int) -> None:
    service.publish(5, filled(5))
    with pytest.raises(ValueError, match=f"version {version} cannot be published: the newest is 5"):
        service.publish(version, filled(version))
    assert_is(service.read(), 5)


def test_a_negative_first_version_is_refused(service: ParameterService) -> None:
    with pytest.raises(ValueError, match="version -1 cannot be published"):
        service.publish(-1, filled(0))


def test_tags_stay_while_versions_go_on(service: ParameterService) -> None:
    service.publish(1, filled(1), tags=["opponent"])
    service.publish(2, filled(2))
    service.tag("eval", "latest")
    for version in range(3, 12):
        service.publish(version, filled(version))
    assert (service.version(), service.version("eval"), service.version("opponent")) == (11, 2, 1)
    assert_is(service.read("eval"), 2)
    assert_is(service.read("opponent"), 1)
    assert service.read("eval", newer_than=2) is None


def test_tags_move_to_a_version_or_another_tag(service: ParameterService) -> None:
    service.publish(1, filled(1), tags=["opponent"])
    service.publish(2, filled(2))
    service.tag("eval", 2)
    assert_is(service.read("eval"), 2)
    service.tag("eval", "opponent")
    assert_is(service.read("eval"), 1)
    service.tag("eval", 1)
    assert_is(service.read("eval"), 1)
    for wrong in (3, -1, "unknown"):
        with pytest.raises(ValueError, match="are not kept"):
            service.tag("eval", wrong)
    assert_is(service.read("eval"), 1)


def test_latest_moves_by_publishing_alone(service: ParameterService) -> None:
    service.publish(1, filled(1))
    with pytest.raises(ValueError, match="by publishing alone"):
        service.tag("latest", 1)
    with pytest.raises(ValueError, match="by publishing alone"):
        service.publish(2, filled(2), tags=["latest"])
    assert_is(service.read(), 1)


def test_both_sides_own_their_arrays(service: ParameterService) -> None:
    mine = filled(1)
    service.publish(1, mine)
    mine["layer.weight"][:] = -1
    first = service.read()
    assert_is(first, 1)
    assert first is not None
    for array in first[1].values():
        array[...] = -2
    assert_is(service.read(), 1)


def test_arrays_need_not_be_contiguous(service: ParameterService) -> None:
    parameters = filled(1)
    parameters["layer.weight"] = np.arange(15, dtype=np.float32).reshape(5, 3).T
    service.publish(1, parameters)
    found = service.read()
    assert found is not None
    np.testing.assert_array_equal(found[1]["layer.weight"], np.arange(15).reshape(5, 3).T)


def test_waiting_for_the_first_version(service: ParameterService) -> None:
    stop = StopFlag()
    with pytest.raises(TimeoutError, match=r"no parameters were published within 0\.05 s"):
        service.wait_first(0.05, stop)
    thread = threading.Thread(target=lambda: service.publish(0, filled(0)))
    thread.start()
    service.wait_first(30, stop)
    thread.join()
    assert service.version() == 0


def test_waiting_ends_when_the_run_does(service: ParameterService) -> None:
    stop = StopFlag()
    stop.set()
    with pytest.raises(Stopped):
        service.wait_first(30, stop)


def test_readers_in_threads_see_whole_growing_versions(make: Make) -> None:
    service, torn, done = make(filled(0, 2000)), [], threading.Event()

    def look() -> None:
        newest = -1
        while not done.is_set():
            found = service.read(newer_than=newest)
            if found is None:
                continue
            version, arrays = found
            if version <= newest or any((array != version).any() for array in arrays.values()):
                torn.append(found)
            newest = version

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for version in range(150):
        service.publish(version, filled(version, 2000))
    done.set()
    for reader in readers:
        reader.join()
    assert not torn


_READER = """
import json, sys, time
from pathlib import Path
from srl_core.services.file_parameters import FileParameters
from srl_core.services.parameters import SharedMemoryParameters
how = json.loads(sys.argv[1])
service = FileParameters(Path(how["directory"])) if "directory" in how else SharedMemoryParameters.open(how)
print("ready", flush=True)
newest, reads, skipped, tags = -1, 0, 0, 0
while newest < int(sys.argv[2]):
    for tag, after in (("latest", newest), ("eval", -1)):
        assert tag == "eval" or service.version() >= newest
        found = service.read(tag, newer_than=after)
        if found is None:
            continue
        version, arrays = found
        for name, array in arrays.items():
            assert (array == version).all(), (version, name, array)
        if tag == "latest":
            assert version > newest
            skipped += version - newest - 1
            newest, reads = version, reads + 1
        else:
            tags += 1
print(json.dumps({"reads": reads, "skipped": skipped, "tags": tags}))
"""


def stress(kind: str, tmp_path: Path, seconds: float, size: int) -> dict[str, list[int]]:
    """One writer, two reading processes; every read is checked to be whole and newer. Returns what was read."""
    if kind == "shared":
        service = SharedMemoryParameters.create(schema_of(filled(0, size), 0), tags=["eval"])
        how, fds = service.descriptor(), service.fds()
    else:
        service, how, fds = FileParameters(tmp_path), {"directory": str(tmp_path)}, []
    last = 2**40
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", _READER, json.dumps(how), str(last)],
            pass_fds=fds,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    end, version = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        service.publish(version, filled(version, size))
        if version % 3 == 0:
            service.tag("eval", "latest")
        version += 1
    service.publish(last, filled(last, size))  # exact in float32
    results = []
    for reader in readers:
        out, err = reader.communicate(timeout=60)
        assert reader.returncode == 0, err
        results.append(json.loads(out))
    return {key: [result[key] for result in results] for key in results[0]} | {"versions": [version]}


@pytest.mark.parametrize("kind", ["shared", "file"])
def test_readers_in_processes_see_whole_growing_versions(kind: str, tmp_path: Path) -> None:
    found = stress(kind, tmp_path, 1.5, 20_000)
    assert min(found["reads"]) > 5
    assert min(found["tags"]) > 5


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_no_torn_read_in_a_minute(size: int, tmp_path: Path) -> None:
    assert min(stress("shared", tmp_path, 30.0, size)["reads"]) > 100


def test_a_writer_that_dies_in_the_middle_leaves_the_last_version() -> None:
    service = SharedMemoryParameters.create(schema_of(filled(0), 0))
    service.publish(1, filled(1))
    code = (
        "import json, os, sys, numpy as np\n"
        "from srl_core.services.parameters import SharedMemoryParameters\n"
        "class Dies(dict):\n"
        "    def __getitem__(self, name):\n"
        "        if name == 'layer.bias': os._exit(0)\n"
        "        return super().__getitem__(name)\n"
        "s = SharedMemoryParameters.open(json.loads(sys.argv[1]))\n"
        "v, arrays = s.read()\n"
        "import srl_core.services.parameters as p; p.check = lambda *a: None\n"
        "s.publish(2, Dies({n: a + 1 for n, a in arrays.items()}))\n"
    )
    subprocess.run([sys.executable, "-c", code, json.dumps(service.descriptor())], pass_fds=service.fds(), check=True)
    assert_is(service.read(), 1)
    service.publish(3, filled(3))  # the lock of the dead process is free
    assert_is(service.read(), 3)


def test_shared_memory_checks_what_is_published() -> None:
    service = SharedMemoryParameters.create(schema_of(filled(0), 0), tags=["eval"])
    with pytest.raises(ValueError, match="missing"):
        service.publish(0, {"layer.weight": np.zeros((3, 5), np.float32)})
    with pytest.raises(ValueError, match=r"layer.weight is float32\[3, 6\], expected float32\[3, 5\]"):
        service.publish(0, filled(0, 6))
    for act in (
        lambda: service.publish(0, filled(0), tags=["x"]),
        lambda: service.tag("x", 0),
        lambda: service.read("x"),
    ):
        with pytest.raises(ValueError, match="unknown tag 'x'; this service was made for latest, eval"):
            act()
    assert service.version() == -1


def test_a_reader_overtaken_again_and_again_gives_up_with_an_error() -> None:
    service = SharedMemoryParameters.create(schema_of(filled(0), 0))
    service.publish(0, filled(0))
    service._cells["latest"]._header[0] = 9  # as if a writer had begun again and again
    with pytest.raises(RunError, match="replaced 1000 times in a row while they were copied"):
        service.read()


def test_files_of_old_versions_are_removed(tmp_path: Path) -> None:
    service = FileParameters(tmp_path, keep=2)
    for version in range(10):
        service.publish(version, filled(version), tags=["eval"] if version == 3 else [])
    assert sorted(p.stem for p in tmp_path.glob("*.safetensors")) == [f"{v:012d}" for v in (3, 7, 8, 9)]
    service.tag("eval", 8)
    assert_is(service.read("eval"), 8)


def test_files_outlive_the_writer_and_bind_the_next_one(tmp_path: Path) -> None:
    FileParameters(tmp_path).publish(4, filled(4))
    again = FileParameters(tmp_path)
    assert_is(again.read(), 4)
    with pytest.raises(ValueError, match="the newest is 4"):
        again.publish(4, filled(4))


def test_a_reader_of_files_never_goes_back(tmp_path: Path) -> None:
    service, reader = FileParameters(tmp_path), FileParameters(tmp_path)
    service.publish(4, filled(4), tags=["eval"])
    old = (tmp_path / "tags.json").read_bytes()
    service.publish(5, filled(5))
    assert_is(reader.read(), 5)
    (tmp_path / "tags.json").write_bytes(old)  # a file system that shows an old state
    assert reader.read() is None
    assert_is(reader.read("eval"), 4)


def test_a_damaged_or_missing_file_is_said(tmp_path: Path) -> None:
    service = FileParameters(tmp_path)
    service.publish(4, filled(4))
    path = tmp_path / f"{4:012d}.safetensors"
    path.write_bytes(b"garbage")
    with pytest.raises(RunError, match="is damaged"):
        service.read()
    path.unlink()
    with pytest.raises(RunError, match="no file of the version that its tag 'latest' names"):
        service.read()


def test_an_unwritable_directory_is_said() -> None:
    with pytest.raises(UserError, match="parameter directory /proc/x cannot be written"):
        FileParameters(Path("/proc/x"))
