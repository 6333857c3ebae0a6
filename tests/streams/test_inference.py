"""The contract of inference streams, over every back-end."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from srl_core.api import Requests, Stopped
from tests.streams.specs import BACKENDS, CONCURRENT, PATIENCE, answer, request, same_bytes

every = pytest.mark.parametrize("backend", BACKENDS)
concurrent = pytest.mark.parametrize("backend", CONCURRENT)


def receive_rows(server, rows: int, max_rows: int = 10_000) -> list[Requests]:
    """Receive until so many rows have come; what was received, copied."""
    got: list[Requests] = []
    while sum(r.rows for r in got) < rows:
        requests = server.receive(max_rows, PATIENCE)
        assert requests is not None
        requests.arrays = {name: array.copy() for name, array in requests.arrays.items()}
        got.append(requests)
    return got


def serve(server, rows: int) -> None:
    """Answer so many rows."""
    for requests in receive_rows(server, rows):
        server.reply(requests, answer(requests.arrays))


@every
def test_each_member_of_each_client_gets_its_own_answer(backend, inference) -> None:
    stream = inference(backend, clients=5, servers=2, members=3)
    clients = [stream.client(i) for i in range(5)]
    servers = [stream.server(j) for j in range(2)]
    for turn in range(4):
        asked = {}
        for i, client in enumerate(clients):
            for m in range(3):
                rows = 4 if turn == 0 else 1 + (i + m + turn) % 4
                asked[i, m] = request(100 * turn + 10 * i + m, rows)
                client.post(m, asked[i, m])
            client.flush()
        for j, server in enumerate(servers):
            serve(server, sum(len(r["first"]) for (i, _), r in asked.items() if i % 2 == j))
        for (i, m), sent in asked.items():
            assert same_bytes(clients[i].collect(m, PATIENCE), answer(sent))
            assert clients[i].collect(m, 0.0) is None  # once
    assert all(server.receive(100, 0.0) is None for server in servers)


@every
def test_requests_arrive_byte_for_byte(backend, inference) -> None:
    stream = inference(backend, members=2)
    client, server = stream.client(), stream.server()
    client.post(0, request(1, 4))
    client.post(1, request(2, 3))
    client.flush()
    (got,) = receive_rows(server, 7)
    expected = [request(1, 4), request(2, 3)]
    assert same_bytes(got.arrays, {k: np.concatenate([r[k] for r in expected]) for k in expected[0]})
    assert [n for _, n in got.parts] == [4, 3]
    assert got.rows == 7


@every
def test_nothing_is_sent_before_flush_and_post_copies(backend, inference) -> None:
    stream = inference(backend)
    client, server = stream.client(), stream.server()
    sent = request(1, 2)
    client.post(0, sent)
    for array in sent.values():
        array[...] = 0
    assert server.receive(10, 0.05) is None
    client.flush()
    client.flush()
    assert same_bytes(receive_rows(server, 2)[0].arrays, request(1, 2))
    assert server.receive(10, 0.0) is None


@every
def test_a_reply_is_the_callers_own(backend, inference) -> None:
    stream = inference(backend)
    client, server = stream.client(), stream.server()
    kept = []
    for number in range(3):
        client.post(0, request(number, 4))
        client.flush()
        serve(server, 4)
        kept.append(client.collect(0, PATIENCE))
    for number, reply in enumerate(kept):
        assert same_bytes(reply, answer(request(number, 4)))
        reply["value"][...] = -1  # writable


@every
def test_a_late_reply_to_an_older_request_is_never_used(backend, inference) -> None:
    stream = inference(backend)
    client, server = stream.client(), stream.server()
    client.post(0, request(1, 4))
    client.flush()
    old = receive_rows(server, 4)
    client.post(0, request(2, 3))
    client.flush()
    server.reply(old[0], answer(old[0].arrays))
    assert client.collect(0, 0.05) is None
    serve(server, 3)
    assert same_bytes(client.collect(0, PATIENCE), answer(request(2, 3)))
    assert client.collect(0, 0.05) is None


@every
def test_replies_out_of_order_leave_the_newest(backend, inference) -> None:
    stream = inference(backend)
    client, server = stream.client(), stream.server()
    taken = []
    for number in (1, 2):
        client.post(0, request(number, 4))
        client.flush()
        taken += receive_rows(server, 4)
    for requests in reversed(taken):
        server.reply(requests, answer(requests.arrays))
    assert same_bytes(client.collect(0, PATIENCE), answer(request(2, 4)))


@every
def test_posting_again_replaces_what_was_staged_or_not_yet_taken(backend, inference) -> None:
    stream = inference(backend)
    client, server = stream.client(), stream.server()
    client.post(0, request(1, 4))
    client.post(0, request(2, 3))  # both staged
    client.flush()
    client.post(0, request(3, 2))
    client.flush()
    deadline = time.monotonic() + PATIENCE
    reply = None
    while reply is None and time.monotonic() < deadline:
        requests = server.receive(100, 1.0)
        if requests is not None:
            server.reply(requests, answer(requests.arrays))
        reply = client.collect(0, 0.05)
    assert same_bytes(reply, answer(request(3, 2)))
    assert server.receive(100, 0.0) is None


@every
def test_max_rows_cuts_between_requests_and_the_longest_waiting_come_first(backend, inference) -> None:
    stream = inference(backend, clients=4)
    clients = [stream.client(i) for i in range(4)]
    server = stream.server()
    order = [2, 0, 3, 1]
    for i in order:
        clients[i].post(0, request(10 * i, 3))
        clients[i].flush()
    batches = receive_rows(server, 12, max_rows=7)
    assert all(b.rows <= 7 for b in batches)
    asked = [{int(speed) for speed in b.arrays["observation.speed"]} for b in batches]
    assert set().union(*asked) == {0, 10, 20, 30}
    if backend != "socket":  # there the network decides what arrives first
        assert asked == [{20, 0}, {30, 10}]
    for batch in batches:
        server.reply(batch, answer(batch.arrays))
    for i, client in enumerate(clients):
        assert same_bytes(client.collect(0, PATIENCE), answer(request(10 * i, 3)))


@every
def test_one_request_larger_than_max_rows_is_still_served(backend, inference) -> None:
    stream = inference(backend)
    client, server = stream.client(), stream.server()
    client.post(0, request(1, 4))
    client.flush()
    (got,) = receive_rows(server, 4, max_rows=2)
    assert got.rows == 4


@every
@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: r.pop("noise"),
        lambda r: r.update(noise=r["noise"].astype(np.float64)),
        lambda r: r.update(noise=r["noise"][:1]),
        lambda r: r.update({k: np.concatenate([a] * 3) for k, a in r.items()}),
        lambda r: r.update({k: a[:0] for k, a in r.items()}),
    ],
    ids=["missing", "dtype", "rows differ", "too many", "empty"],
)
def test_requests_and_replies_that_do_not_fit_are_refused(backend, spoil, inference) -> None:
    stream = inference(backend)
    client, server = stream.client(), stream.server()
    bad = request(1, 2)
    spoil(bad)
    with pytest.raises(ValueError, match=r"expected|differ"):
        client.post(0, bad)
    client.post(0, request(2, 2))
    client.flush()
    requests = receive_rows(server, 2)[0]
    wrong = answer(requests.arrays)
    wrong["value"] = wrong["value"].astype(np.float64)
    with pytest.raises(ValueError, match="value is float64"):
        server.reply(requests, wrong)
    server.reply(requests, answer(requests.arrays))
    assert same_bytes(client.collect(0, PATIENCE), answer(request(2, 2)))


@concurrent
def test_the_stop_flag_ends_both_waits_at_once(backend, inference, stop) -> None:
    stream = inference(backend, clients=2)
    client, server = stream.client(0), stream.server()
    client.post(0, request(1, 1))
    client.flush()
    receive_rows(server, 1)  # taken, never answered
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(client.collect, 0, PATIENCE), pool.submit(server.receive, 10, PATIENCE)]
        with pytest.raises(TimeoutError):
            calls[0].result(0.1)
        began = time.monotonic()
        stop.set()
        for call in calls:
            with pytest.raises(Stopped):
                call.result(PATIENCE)
        assert time.monotonic() - began < 1.0


@concurrent
def test_threads_ask_and_are_answered_right_under_load(backend, inference) -> None:
    clients, members, turns = 4, 2, 150
    stream = inference(backend, clients=clients, servers=2, members=members)
    servers = [stream.server(j) for j in range(2)]
    asking = [stream.client(i) for i in range(clients)]
    finished = threading.Event()

    def run_server(server) -> None:
        while not finished.is_set():
            requests = server.receive(5, 0.05)
            if requests is not None:
                assert requests.rows <= 5
                server.reply(requests, answer(requests.arrays))

    def run_client(i: int) -> None:
        for turn in range(turns):
            sent = [request(1000 * turn + 10 * i + m, 1 + (turn + m) % 4) for m in range(members)]
            for m in range(members):
                asking[i].post(m, sent[m])
            asking[i].flush()
            for m in range(members):
                assert same_bytes(asking[i].collect(m, PATIENCE), answer(sent[m]))

    with ThreadPoolExecutor(2 + clients) as pool:
        serving = [pool.submit(run_server, server) for server in servers]
        for call in [pool.submit(run_client, i) for i in range(clients)]:
            call.result()
        finished.set()
        for call in serving:
            call.result()


@every
def test_an_unanswered_collect_times_out(backend, inference) -> None:
    stream = inference(backend)
    client = stream.client()
    assert client.collect(0, 0.0) is None
    assert client.collect(0, 0.02) is None
    client.post(0, request(1, 1))
    client.flush()
    assert client.collect(0, 0.02) is None
