"""A push consumer of Apache's own Java client, straight at Apache's side."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.process import bound
from gateway.client.client import Client
from gateway.client.link import Link
from protocols.remoting import codes
from tests.interop.remoting.java import JavaClient
from tests.interop.rocketmq.failover.send_request import send_request
from tests.patience import until

START_S = 120.0
SEND_S = 10.0


class JavaMember:
    """What one member of a group has consumed, as it prints it."""

    def __init__(self, output: Path) -> None:
        self._output = output

    def lines(self) -> list[list[str]]:
        """(word, body, seconds since 1970) of each line that it has printed."""
        return [line.split() for line in self._output.read_text(errors="replace").splitlines()]

    def done(self) -> set[str]:
        """The bodies that it has consumed."""
        return {line[1] for line in self.lines() if line[0] == "done"}


def until_positioned(members: Sequence[JavaMember], client: Client, topic: str) -> None:
    """Wait until each member reads each queue of a topic.

    A new group of Apache's client begins at the end of a queue that was empty when it asked for its position, and so leaves out
    what came before it asked for the end. So messages are sent to each queue, again and again, until each member has one.
    """
    route = client.route(topic)
    sent: set[str] = set()

    def each_has_all() -> bool:
        for queue in route.queues:
            body = f"first/{queue.broker}/{queue.queue_id}"
            sent.add(body)
            link = Link(route.addresses[queue.broker], SEND_S)
            try:
                assert link.ask([send_request(queue, body)])[0].code == codes.SUCCESS
            finally:
                link.close()
        time.sleep(0.2)
        return all(sent <= member.done() for member in members)

    until(each_has_all, START_S, lambda: str([sorted(sent - member.done()) for member in members]))


@contextmanager
def java_member(java: JavaClient, nameservers: str, group: str, topic: str, output: Path) -> Iterator[JavaMember]:
    """A member until the end of the block. `output`: a file for what it prints."""
    with output.open("wb") as file:
        arguments = ("push", nameservers, "none", group, topic)
        process = subprocess.Popen(
            bound([*java.command("Member"), *arguments]), stdout=file, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
    member = JavaMember(output)
    try:
        until(lambda: any(line[0] == "ready" for line in member.lines() if line), START_S)
        yield member
    finally:
        process.kill()
        process.wait()
