"""Counters in shared memory."""

import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from srl_core.services.metrics import WorkerTable

COLUMNS = ["env_steps", "frames", "cpu_seconds"]


def test_rows_columns_and_totals() -> None:
    table = WorkerTable.create(["actor-0", "actor-1", "trainer"], COLUMNS)
    a, b = table.row("actor-0"), table.row("actor-1")
    for _ in range(10):
        a.add("env_steps", 16)
        b.add("env_steps", 1)
    b.set("cpu_seconds", 2.5)
    a.add("cpu_seconds", 0.25)
    assert table.rows() == ["actor-0", "actor-1", "trainer"]
    assert table.total("env_steps") == 170
    assert table.total("cpu_seconds") == 2.75
    np.testing.assert_array_equal(table.column("env_steps"), [160, 10, 0])
    assert a.values() == {"env_steps": 160, "frames": 0, "cpu_seconds": 0.25, "heartbeat": 0}
    assert a.get("env_steps") == 160


def test_counts_are_exact_beyond_32_bits() -> None:
    row = WorkerTable.create(["w"], COLUMNS).row("w")
    row.set("frames", 2**52)
    row.add("frames", 1)
    assert int(row.get("frames")) == 2**52 + 1


def test_signs_of_life() -> None:
    table = WorkerTable.create(["w"], COLUMNS)
    before = time.monotonic()
    table.row("w").beat()
    assert before <= table.row("w").get("heartbeat") <= time.monotonic()


def test_unknown_and_doubled_names() -> None:
    table = WorkerTable.create(["w"], COLUMNS)
    for act in (lambda: table.row("x"), lambda: table.total("x"), lambda: table.row("w").add("x", 1)):
        with pytest.raises(KeyError, match="x"):
            act()
    for workers, columns in ((["w", "w"], COLUMNS), (["w"], ["a", "a"])):
        with pytest.raises(ValueError, match="a name comes twice"):
            WorkerTable.create(workers, columns)


def test_a_copied_column_stays() -> None:
    table = WorkerTable.create(["w"], COLUMNS)
    column = table.column("frames")
    table.row("w").add("frames", 1)
    assert column[0] == 0


def test_rows_do_not_share_cache_lines() -> None:
    for columns in (1, 7, 8, 9):
        table = WorkerTable.create(["a", "b"], [f"c{i}" for i in range(columns)])
        assert table._cells.strides[0] % 64 == 0
        assert table._cells.strides[0] >= 8 * (columns + 1)


def test_many_workers_count_at_once_and_nothing_is_lost() -> None:
    names = [f"actor-{i}" for i in range(3)]
    table = WorkerTable.create(names, COLUMNS)
    code = (
        "import json, sys; from srl_core.services.metrics import WorkerTable\n"
        "row = WorkerTable.open(json.loads(sys.argv[1])).row(sys.argv[2])\n"
        "for _ in range(100_000): row.add('env_steps', 1); row.add('frames', 4)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, json.dumps(table.descriptor()), name], pass_fds=table.fds())
        for name in names
    ]
    totals = []
    while any(child.poll() is None for child in children):
        totals.append(table.total("env_steps"))
        time.sleep(0.001)  # leave the cores to the children
    assert all(child.returncode == 0 for child in children)
    assert totals == sorted(totals)
    assert table.total("env_steps") == 300_000
    np.testing.assert_array_equal(table.column("frames"), [400_000] * 3)


def test_threads_may_read_while_one_writes() -> None:
    table = WorkerTable.create(["w"], COLUMNS)
    seen: list[float] = []
    reader = threading.Thread(target=lambda: seen.extend(table.total("frames") for _ in range(1000)))
    reader.start()
    for _ in range(1000):
        table.row("w").add("frames", 1)
    reader.join()
    assert seen == sorted(seen)
