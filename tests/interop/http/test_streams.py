"""Streams as programs use them: curl and Node against a node that is killed meanwhile, and no message twice or never."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.http.curl import CURL, VERSIONS, Curl
from tests.interop.node import Node
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.skipif(CURL is None, reason="curl is not installed")]

WAIT_S = 60.0


class Stream:
    """curl on one stream, and what it has printed."""

    def __init__(self, node: Node, file: Path, path: str, *arguments: str) -> None:
        self.file = file
        command = ["curl", "-sSN", "--max-time", "120", *arguments, f"http://127.0.0.1:{node.port('http')}{path}"]
        with file.open("wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.DEVNULL)

    def text(self) -> str:
        """Its output so far."""
        return self.file.read_text()

    def lines(self) -> list[dict[str, str]]:
        """Complete lines of JSON."""
        return [json.loads(line) for line in self.text().split("\n")[:-1] if line.startswith("{")]

    def texts(self) -> list[str]:
        """The bodies of the messages so far."""
        return [line["text"] for line in self.lines() if "text" in line]

    def events(self) -> list[tuple[str, str]]:
        """(id, body) of complete events."""
        found = re.findall(r"id: (\S+)\ndata: (.*)\n\n", self.text())
        return [(identity, json.loads(data)["text"]) for identity, data in found]

    def stop(self) -> None:
        """End curl."""
        self.process.kill()
        self.process.wait()


@contextmanager
def stream(node: Node, folder: Path, path: str, *arguments: str) -> Iterator[Stream]:
    """A stream while the block runs."""
    running = Stream(node, folder / f"stream-{time.monotonic_ns()}", path, *arguments)
    try:
        yield running
    finally:
        running.stop()


def send(node: Node, topic: str, *bodies: str) -> None:
    """Send messages as one batch."""
    items = "".join(json.dumps({"text": body}) + "\n" for body in bodies)
    status, _, _ = Curl(node, VERSIONS[0])(
        f"/v1/topics/{topic}/messages:batch", "-H", "Content-Type: application/x-ndjson", content=items.encode()
    )
    assert status == 200


def test_curl_follows_a_topic(curl: Curl, tmp_path: Path) -> None:
    topic = f"follow-{curl.tag}"
    send(curl.node, topic, "m0", "m1")
    with stream(curl.node, tmp_path, f"/v1/topics/{topic}:consume?from=first&text=true", curl.version) as running:
        until(lambda: len(running.texts()) == 2, WAIT_S, lambda: "what was stored")
        for at in range(2, 20):
            send(curl.node, topic, f"m{at}")
        until(lambda: len(running.texts()) >= 20, WAIT_S, lambda: "what arrives")
        assert sorted(running.texts()) == sorted(f"m{at}" for at in range(20))


@pytest.mark.parametrize("version", VERSIONS)
def test_readers_resume_over_kill_9_without_a_gap_or_a_doubling(tmp_path: Path, version: str) -> None:
    with Node(tmp_path / "node") as node:
        send(node, "killed", "m0")
        path = "/v1/topics/killed:consume?text=true"
        events: list[tuple[str, str]] = []
        sent = 1
        position = ""
        for _ in range(3):
            fields = ["-H", "Accept: text/event-stream"] + (["-H", f"Last-Event-ID: {position}"] if position else [])
            with stream(node, tmp_path, f"{path}&from=first", version, *fields) as running:
                until(lambda running=running: "id: " in running.text(), WAIT_S, lambda: "the stream began")  # type: ignore[misc]
                for at in range(sent, sent + 30):
                    send(node, "killed", f"m{at}")
                sent += 30
                node.kill()
                running.process.wait(WAIT_S)
                events += running.events()
                position = re.findall(r"id: (\S+)\n", running.text())[-1]
            node.start()
        with stream(node, tmp_path, f"{path}&from={position}", version) as running:
            until(lambda: len(events) + len(running.texts()) >= sent, WAIT_S, lambda: "everything that was stored")
            texts = [text for _, text in events] + running.texts()
        assert sorted(texts) == sorted(f"m{at}" for at in range(sent))


def test_a_group_is_leased_to_a_stream_and_acknowledged_by_a_call(curl: Curl, tmp_path: Path) -> None:
    topic = f"leased-{curl.tag}"
    send(curl.node, topic, *[f"m{at}" for at in range(50)])
    done: set[str] = set()
    path = f"/v1/groups/g-{curl.tag}/topics/{topic}:consume?max=10&text=true&invisible_ms=60000"
    with stream(curl.node, tmp_path, path, curl.version) as running:
        until(lambda: len(running.lines()) == 10, WAIT_S, lambda: "as many as may be in flight")
        time.sleep(0.3)
        assert len(running.lines()) == 10
        while len(done) < 50:
            fresh = [line["receipt"] for line in running.lines() if line["receipt"] not in done]
            if fresh:
                assert all(result["ok"] for result in curl.settle("ack", topic, fresh))
                done |= set(fresh)
            time.sleep(0.02)
        assert sorted(running.texts()) == sorted(f"m{at}" for at in range(50))
    assert curl.receive(topic, "max=32&wait_ms=200") == []


def test_curl_sends_a_stream_and_gets_a_result_for_each_record(curl: Curl, tmp_path: Path) -> None:
    topic = f"upload-{curl.tag}"
    arguments = ["-X", "POST", "-T", "-", "-H", "Content-Type: application/x-ndjson"]
    records = b"".join(json.dumps({"text": f"m{at}"}).encode() + b"\n" for at in range(5_000))
    command = ["curl", "-sSN", "--max-time", "60", curl.version, *arguments]
    url = f"http://127.0.0.1:{curl.node.port('http')}/v1/topics/{topic}/messages:stream"
    done = subprocess.run([*command, url], input=records, capture_output=True, timeout=WAIT_S, check=True)
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == list(range(5_000))
    with stream(curl.node, tmp_path, f"/v1/topics/{topic}:consume?from=first&text=true", curl.version) as reader:
        until(lambda: len(reader.texts()) >= 5_000, WAIT_S, lambda: "all of them")
        assert len(set(reader.texts())) == 5_000


def test_a_result_comes_before_the_next_record_is_sent(node: Node) -> None:
    head = "POST /v1/topics/turns/messages:stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    record = b'{"text":"x"}\n'
    with socket.create_connection(("127.0.0.1", node.port("http")), timeout=WAIT_S) as client:
        client.sendall(f"{head}Content-Type: application/x-ndjson\r\n\r\n".encode())
        received = client.recv(65_536)
        for at in range(20):
            client.sendall(b"%x\r\n%b\r\n" % (len(record), record))
            while b'"seq":%d,' % at not in received:
                received += client.recv(65_536)
        client.sendall(b"0\r\n\r\n")
        while not received.endswith(b"0\r\n\r\n"):
            received += client.recv(65_536)


def test_a_slow_reader_costs_less_than_a_mebibyte(node: Node, tmp_path: Path) -> None:
    for _ in range(8):
        send(node, "slow", *["x" * 4_000] * 500)
    request = b"GET /v1/topics/slow:consume?from=first HTTP/1.1\r\nHost: localhost\r\n\r\n"
    readers = [socket.create_connection(("127.0.0.1", node.port("http"))) for _ in range(4)]
    try:
        for reader in readers:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            reader.sendall(request)
        most = 0.0
        for _ in range(20):
            time.sleep(0.1)
            found = re.search(r"^headgate_unread_held_bytes (\S+)$", node.admin("/metrics"), re.M)
            assert found is not None
            most = max(most, float(found.group(1)))
        assert 0 < most < len(readers) * 1024 * 1024
    finally:
        for reader in readers:
            reader.close()


def test_a_token_of_the_query_is_in_no_log(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text("[access]\n")
    node = Node(tmp_path / "node", "--config", str(file), "--admin", "root:a-long-password")
    with node:
        status, _, _ = Curl(node, VERSIONS[0])("/v1/topics/t:consume?access_token=forged-secret")
        assert status == 401
        status, fields, _ = Curl(node, VERSIONS[0])("/v1/topics/t:consume?access_token=forged-secret&from=nowhere")
        assert (status, "www-authenticate" in fields) == (401, True)
    assert "forged-secret" not in node.text()


SCRIPT = """
const [url, count] = process.argv.slice(2);
const answer = await fetch(url + "/v1/topics/node:consume?from=first&text=true");
let rest = "", texts = [];
for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + part).split("\\n");
  rest = lines.pop();
  texts.push(...lines.filter(line => line).map(line => JSON.parse(line).text));
  if (texts.length >= count) break;
}
console.log(JSON.stringify(texts));
"""


def test_fetch_of_node_reads_lines(node: Node, tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed: its fetch was not run")
    send(node, "node", *[f"m{at}" for at in range(100)])
    script = tmp_path / "reader.mjs"
    script.write_text(SCRIPT)
    url = f"http://127.0.0.1:{node.port('http')}"
    done = subprocess.run(["node", str(script), url, "100"], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)) == sorted(f"m{at}" for at in range(100))
