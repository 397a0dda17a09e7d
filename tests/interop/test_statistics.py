"""Statistics of topics and groups for known traffic: messages by three protocols, three groups of three protocols."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.interop.grpc.java import compiled
from tests.interop.grpc.member import Member
from tests.interop.grpc.setup import make_topic
from tests.interop.mqtt.paho_client import PahoClient
from tests.interop.node import Node
from tests.interop.remoting.java import JavaClient, build
from tests.patience import until

pytestmark = pytest.mark.interop
TOPIC = "Counted"
EACH = 10
MORE = 5
GROUPS = ("cg_Counted", "cg_grpc", "cg_mqtt")
"""Groups of a remoting client, a gRPC client, and an MQTT client with a shared subscription."""


def publish(share: PahoClient, count: int) -> None:
    for at in range(count):
        share.publish(f"{TOPIC}/room", b"mqtt %d" % at)


class Remoting:
    """The Java client as a producer of ten messages and a consumer, in a process of its own."""

    def __init__(self, java: JavaClient, nameserver: str) -> None:
        command = [*java.command("Tools"), "member", nameserver, TOPIC]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seen(self) -> int:
        """Number of messages that it has consumed; their positions are committed."""
        assert self._process.stdin is not None
        self._process.stdin.write("?")
        self._process.stdin.flush()
        return int(self._line().split()[1])

    def end(self) -> None:
        """End the process."""
        self._process.communicate(timeout=30)


COMMANDS = (
    ("topicStatus", "-t", TOPIC),
    ("statsAll", "-t", TOPIC),
    ("consumerProgress",),
    ("brokerConsumeStats", "-b", "{broker}"),
    *(("consumerProgress", "-g", group, "-s", "true") for group in GROUPS),
)
Said = dict[tuple[str, ...], str]


class Facts(NamedTuple):
    """Output of the commands, number of stored messages at that time, and number of messages that were not consumed."""

    said: Said
    stored: int
    behind: int


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Facts, Facts]]:
    """Results while all members are connected, and after they have left and five more messages were sent."""
    java = build(tmp_path_factory.mktemp("java"))
    sdk = compiled(tmp_path_factory.mktemp("sdk"))
    with Node(tmp_path_factory.mktemp("node")) as node:
        broker = f"127.0.0.1:{node.port('remoting')}"
        nameserver = f"127.0.0.1:{node.port('nameserver')}"

        def stored(least: int) -> int:
            """Number of stored messages, counted by reading: an SDK may send a message twice when its answer was late.

            printMsg passes over a queue whose answer is late for it, so it is asked again until it has seen `least`.
            """
            counts = [0]

            def read() -> bool:
                text = java.admin("printMsg", "-t", TOPIC, "-n", nameserver)
                counts.append(sum(line.startswith("MSGID: ") for line in text.splitlines()))
                return counts[-1] >= least

            until(read, 60, lambda: f"{counts[-1]} of {least} messages are stored")
            return counts[-1]

        def ask() -> Said:
            return {
                words: java.admin(*(word.replace("{broker}", broker) for word in words), "-n", nameserver) for words in COMMANDS
            }

        make_topic(node, TOPIC, "NORMAL")
        share = PahoClient(node, "share")
        share.client.subscribe(f"$share/cg_mqtt/{TOPIC}/#", qos=1)
        remoting = Remoting(java, nameserver)
        try:
            with Member(sdk, node, tmp_path_factory.mktemp("member"), TOPIC, "cg_grpc", count=EACH) as member:
                publish(share, EACH)
                count = stored(3 * EACH)
                member.until(lambda lines: sum(line[0] == "seen" for line in lines) >= count)
                until(lambda: len(share.got) >= count, 60, lambda: f"{len(share.got)} messages at the MQTT member")
                until(lambda: remoting.seen() >= count, 60, lambda: f"{remoting.seen()} messages at the remoting member")
                time.sleep(1)
                there = Facts(ask(), count, 0)
        finally:
            remoting.end()
            share.leave()
        late = PahoClient(node, "late")
        publish(late, MORE)
        late.leave()
        assert stored(count + MORE) == count + MORE
        yield there, Facts(ask(), count + MORE, MORE)


def rows(text: str, first: str) -> list[list[str]]:
    """Lines of a table whose first word is `first`, as lists of words."""
    return [line.split() for line in text.splitlines() if line.startswith(f"{first} ")]


def test_a_topic_has_as_many_messages_as_were_sent(facts: tuple[Facts, Facts]) -> None:
    for said, count, _ in facts:
        queues = rows(said["topicStatus", "-t", TOPIC], "broker-a")
        assert len(queues) == 4
        assert sum(int(queue[3]) - int(queue[2]) for queue in queues) == count


@pytest.mark.parametrize("group", GROUPS)
def test_each_group_is_as_far_as_it_was(facts: tuple[Facts, Facts], group: str) -> None:
    for said, count, behind in facts:
        text = said["consumerProgress", "-g", group, "-s", "true"]
        assert f"Consume Diff Total: {behind}" in text, text
        assert sum(int(queue[3]) for queue in rows(text, TOPIC)) == count, text


def test_the_remoting_member_has_its_queues(facts: tuple[Facts, Facts]) -> None:
    words = ("consumerProgress", "-g", "cg_Counted", "-s", "true")
    there, later = (each.said[words] for each in facts)
    assert all(re.fullmatch(r"[0-9.]+", queue[5]) for queue in rows(there, TOPIC)), there
    assert all(queue[5] == "N/A" for queue in rows(later, TOPIC)), later


@pytest.mark.parametrize("group", GROUPS)
def test_sums_of_a_day(facts: tuple[Facts, Facts], group: str) -> None:
    for said, count, behind in facts:
        table = {row[1]: row for row in rows(said["statsAll", "-t", TOPIC], TOPIC)}
        assert set(table) == set(GROUPS)
        _, _, accumulated, _, _, today_in, today_out = table[group]
        assert (int(accumulated), int(today_in), int(today_out)) == (behind, count, count - behind), table[group]


def test_the_backlog_of_the_broker(facts: tuple[Facts, Facts]) -> None:
    for said, _, behind in facts:
        text = said["brokerConsumeStats", "-b", "{broker}"]
        assert f"Diff Total: {len(GROUPS) * behind}" in text, text
        assert {row[1] for row in rows(text, TOPIC)} == set(GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_the_list_of_groups_has_their_members(facts: tuple[Facts, Facts], group: str) -> None:
    words = ("consumerProgress",)
    (now,), (then,) = (rows(each.said[words], group) for each in facts)
    assert now[1] == "1", now
    assert then[1] == "0", then
