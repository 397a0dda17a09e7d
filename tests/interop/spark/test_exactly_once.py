"""A Spark query into Parquet, with kill -9 of its driver and of the node: every message exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

import pytest

from domain.address import TEMPLATE_TOPIC
from gateway.client.answer import ClientError
from gateway.client.client import Client
from tests.gateway.connectors.spark.session import ROOT, SLOW_WORKER, environment
from tests.interop.node import Node
from tests.patience import until
from tests.stored_records import stored_records

pytestmark = [pytest.mark.interop, pytest.mark.slow]
TOPIC = "deliveries"
PATIENCE_S = 300.0
"""For what takes seconds: on a machine that others load, a Java machine alone takes a minute to start."""
ENOUGH = 500
"""Messages that are sent at least, however slow the producer is."""


class Producer:
    """A thread that sends numbered messages until the block ends; `acknowledged`: those whose send was confirmed."""

    def __init__(self, nameserver: str) -> None:
        self.acknowledged: list[str] = []
        self._client = Client(nameserver, timeout_s=2, retry_s=30)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(60)
        self._client.close()

    def wait_for(self, count: int) -> None:
        """Wait until `count` messages are acknowledged."""
        until(lambda: len(self.acknowledged) >= count, PATIENCE_S)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            body = f"m{number}"
            number += 1
            try:
                self._client.send(TOPIC, body.encode())
            except ClientError:
                time.sleep(0.1)
            else:
                self.acknowledged.append(body)
            time.sleep(0.002)


class Driver:
    """The Spark driver as its own process group: a kill ends Python and its Java machine together."""

    def __init__(self, nameserver: str, folder: Path, output: Path | None = None) -> None:
        self._folder = folder
        self._command = [sys.executable, "-m", "tests.interop.spark.query", nameserver, TOPIC, str(folder)]
        if output:
            self._command.append(str(output))
        self.log = folder / "driver.log"
        folder.mkdir(exist_ok=True)
        self._start()

    def _start(self) -> None:
        """Begin the query, again when Spark has given up its Python process, for which it waits 10 s only."""
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, env=os.environ | environment(), stdout=log, stderr=log, start_new_session=True
            )

    def committed(self) -> int:
        """Micro-batches in the checkpoint's log of commits."""
        return len([one for one in (self._folder / "checkpoint" / "commits").glob("*") if one.name.isdigit()])

    def wait_for_batches(self, more: int) -> None:
        """Wait until `more` further micro-batches are committed."""
        goal = self.committed() + more

        def reached() -> bool:
            if self.process.poll() is not None:
                assert SLOW_WORKER in self._text(), self._text()
                self._start()
            return self.committed() >= goal

        until(reached, PATIENCE_S, lambda: f"{more} batches\n{self._text()}")

    def _text(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def kill(self) -> None:
        """SIGKILL to driver and Java machine."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> None:
        """Wait until the process ends by itself."""
        while True:
            try:
                status = self.process.wait(PATIENCE_S)
            finally:
                if self.process.poll() is None:
                    self.kill()
            if status == 0:
                return
            assert SLOW_WORKER in self._text(), self._text()
            self._start()


def begin(nameserver: str) -> None:
    """Send the first message, which creates the topic; waits until the node has stored the template of new topics."""
    with Client(nameserver) as client:
        until(lambda: TEMPLATE_TOPIC in client.topics(), PATIENCE_S)
        client.send(TOPIC, b"first")


def stored(nameserver: str) -> list[tuple[int, int, str]]:
    """(queue, offset, body) of every message in the topic, read by our client."""
    with Client(nameserver) as client:
        records = stored_records(client, TOPIC)
    return sorted((record.queue_id, record.queue_offset, record.body.decode()) for record in records)


def delivered(nameserver: str, folder: Path) -> list[tuple[int, int, str]]:
    """(queue, offset, body) of every row that the query wrote, after a last run to the end."""
    output = folder / "rows.json"
    Driver(nameserver, folder, output).finish()
    return sorted((queue, offset, body) for queue, offset, body in json.loads(output.read_text()))


def test_every_message_once_through_kills_of_the_driver(tmp_path: Path) -> None:
    with Node(tmp_path / "node") as node:
        nameserver = f"127.0.0.1:{node.port('nameserver')}"
        begin(nameserver)
        with Producer(nameserver) as producer:
            for batches, rest_s in ((2, 0.0), (3, 0.07)):
                driver = Driver(nameserver, tmp_path / "query")
                try:
                    driver.wait_for_batches(batches)
                    time.sleep(rest_s)
                finally:
                    driver.kill()
            producer.wait_for(ENOUGH)
        rows = delivered(nameserver, tmp_path / "query")
        assert rows == stored(nameserver)
        assert len(rows) == len(set(rows)), "no message twice"
        # A send whose answer came too late was repeated: there may be more rows than acknowledged messages.
        assert set(producer.acknowledged) <= {body for _, _, body in rows}


def test_every_message_once_through_kills_of_the_node(tmp_path: Path) -> None:
    with Node(tmp_path / "node") as node:
        nameserver = f"127.0.0.1:{node.port('nameserver')}"
        begin(nameserver)
        with Producer(nameserver) as producer:
            driver = Driver(nameserver, tmp_path / "query")
            try:
                for batches in (2, 3, 2):
                    driver.wait_for_batches(batches)
                    node.kill()
                    node.start()
                driver.wait_for_batches(2)
            finally:
                driver.kill()
            producer.wait_for(ENOUGH)
        rows = delivered(nameserver, tmp_path / "query")
        assert rows == stored(nameserver)
        assert len(rows) == len(set(rows))
        assert {body for _, _, body in rows} >= {"first", *producer.acknowledged}
