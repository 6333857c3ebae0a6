"""The other end of a stream in a process of its own: `python -m tests.streams.child JSON`."""

from __future__ import annotations

import json
import os
import signal
import sys

from srl_core.api import Stopped
from srl_core.base.stop import StopFlag
from srl_core.streams import open_inference_link, open_sample_link
from tests.streams.specs import PATIENCE, answer, number_of, numbered, request, same_bytes


def produce(job: dict, stop: StopFlag) -> int:
    """Put `puts` samples; then report how many trajectories were dropped, or kill itself."""
    link = open_sample_link(job["link"], stop)
    producer = link.producer(job["index"])
    for number in range(job["puts"]):
        producer.put(numbered(1000 * job["index"] + number, 1 + number % 3))
    if job.get("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    print(producer.dropped, flush=True)
    sys.stdin.read()  # until the parent has received all
    producer.close()
    return 0


def consume(job: dict, stop: StopFlag) -> int:
    """Get samples of one producer up to number `last`; print those that came."""
    consumer = open_sample_link(job["link"], stop).consumer(0)
    got = []
    while not got or got[-1] < job["last"]:
        sample = consumer.get(PATIENCE)
        assert sample is not None
        got.append(number_of(sample.arrays))
        assert same_bytes(sample.arrays, numbered(got[-1], 1 + got[-1] % 3))
        sample.release()
    print(json.dumps(got), flush=True)
    consumer.close()
    return 0


def serve(job: dict, stop: StopFlag) -> int:
    """Answer until stopped."""
    server = open_inference_link(job["link"], stop).server(job["index"])
    try:
        while True:
            requests = server.receive(job["max_rows"], PATIENCE)
            assert requests is not None
            server.reply(requests, answer(requests.arrays))
    except Stopped:
        server.close()
    return 0


def ask(job: dict, stop: StopFlag) -> int:
    """Ask `turns` times with all members; each answer must be right."""
    client = open_inference_link(job["link"], stop).client(job["index"])
    for turn in range(job["turns"]):
        sent = [request(1000 * turn + 10 * job["index"] + m, 1 + (turn + m) % 4) for m in range(job["members"])]
        for m, arrays in enumerate(sent):
            client.post(m, arrays)
        client.flush()
        for m, arrays in enumerate(sent):
            reply = client.collect(m, PATIENCE)
            assert reply is not None
            assert same_bytes(reply, answer(arrays))
    client.close()
    return 0


def block(job: dict, stop: StopFlag) -> int:
    """Put until stopped."""
    producer = open_sample_link(job["link"], stop).producer(0)
    print("ready", flush=True)
    try:
        while True:
            producer.put(numbered(0, 1))
    except Stopped:
        return 0


def imports(job: dict, stop: StopFlag) -> int:
    """Whether the ends of this stream brought the socket library in."""
    open_sample_link(job["link"], stop).producer(0)
    print(json.dumps("zmq" in sys.modules), flush=True)
    return 0


if __name__ == "__main__":
    description = json.loads(sys.argv[1])
    sys.exit(globals()[description["do"]](description, StopFlag(description["stop"])))
