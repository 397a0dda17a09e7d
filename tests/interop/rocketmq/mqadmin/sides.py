"""The two ways to an Apache cluster for mqadmin: straight at its servers, and through a gateway; and what a command says there.

Every command is given twice, with names of its own: `{side}` in a command is "straight" or "headgate", of the same length.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.process import bound
from tests.interop.remoting.java import JavaClient
from tests.interop.rocketmq.relays import RelayNode

STRAIGHT: Final = "straight"
THROUGH: Final = "headgate"
_MASKS: Final = (
    (re.compile(r"(?m)^\s+(at |\.\.\. \d+ more).*$"), ""),
    (re.compile(r"\b\d+#\d+\b"), "<client>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.,:]\d+)?"), "<time>"),
    (re.compile(r"\b(1[6-9]\d{11}|20\d{12,15})\b"), "<time>"),
    (re.compile(r"\b[0-9A-F]{32,56}\b"), "<id>"),
    (re.compile(r"\b(\d+\.){3}\d+@[\w#]+"), "<client>"),
    (re.compile(r"(/0x[0-9a-f]+)?@[0-9a-f]+\b"), "<object>"),
    (re.compile(r"127\.0\.0\.1:\d{4,5}\b"), "<port of a client>"),
    (re.compile(r"(?<![\d.])\d+\.\d+(E-?\d+)?(?![\d.])"), "<number>"),
    (re.compile(r"[ \t]+"), " "),
)
"""What differs between any two runs of a command, and what stands for it: places in Java programs, times, ids, ports, rates."""


@dataclass(frozen=True)
class Side:
    """One way to the cluster.

    name          STRAIGHT or THROUGH
    nameserver    host:port for `-n`
    brokers       name of a broker -> its address for `-b`; each is a placeholder
    own           name of a server -> its own address, whatever is before it
    client        the id of the consumer that is connected this way
    offset_id     of a message that its producer has sent
    unique_id     of the same message
    folder        for files
    more          further placeholders
    """

    name: str
    nameserver: str
    brokers: Mapping[str, str]
    own: Mapping[str, str]
    client: str
    offset_id: str
    unique_id: str
    folder: Path
    more: Mapping[str, str] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        """`text` with the names and addresses of this side."""
        words = {
            **self.brokers, "nameserver": self.nameserver, "side": self.name, "client": self.client,
            "offset-id": self.offset_id, "unique-id": self.unique_id, "folder": str(self.folder), **self.more,
        }  # fmt: skip
        for name, value in words.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def neutral(self, text: str) -> list[str]:
        """The lines of `text`, sorted, with placeholders for what is this side's, without what is of the other side."""
        other = THROUGH if self.name == STRAIGHT else STRAIGHT
        text = "\n".join(line for line in text.splitlines() if other not in line)
        known = {self.nameserver: "{nameserver}", **{address: f"{{{name}}}" for name, address in self.brokers.items()}}
        for name, address in self.own.items():
            known.setdefault(address, f"<own address of {name}>")
        for address, name in known.items():
            text = re.sub(rf"(?<![\d.]){re.escape(address)}(?!\d)", name, text)
        text = text.replace(str(self.folder), "{folder}").replace(self.name, "{side}")
        for pattern, instead in _MASKS:
            text = pattern.sub(instead, text)
        return sorted(filter(None, (line.strip() for line in text.splitlines())))


@contextmanager
def connected(java: JavaClient, nameserver: str, topic: str) -> Iterator[list[str]]:
    """A producer and a consumer of `topic`, until the end of the block -> [id of the client, an offset id, a unique id].

    Two messages are in each queue of the topic, and are consumed.
    """
    command = bound([*java.command("Tools"), "placed", nameserver, topic])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert len(said) == 3, " ".join(said) + process.stdout.read(4_000)
        yield said
    finally:
        process.kill()
        process.wait()


@contextmanager
def sides(
    java: JavaClient, nameserver: str, servers: Mapping[str, str], relay: RelayNode, folder: Path
) -> Iterator[tuple[Side, Side]]:
    """Both ways to a cluster, with a producer and a consumer connected by each.

    nameserver   host:port of Apache's own
    servers      name of a broker -> its own address
    """
    own = {**servers, "nameserver": nameserver}
    ports = {name: relay.port_of(address) for name, address in servers.items()}
    with ExitStack() as stack:
        made: list[Side] = []
        for name, where, brokers in ((STRAIGHT, nameserver, servers), (THROUGH, relay.nameserver, ports)):
            client, offset_id, unique_id = stack.enter_context(connected(java, where, f"Tools_{name}"))
            place = folder / name
            place.mkdir()
            topics = [{"topicName": f"Listed_{name}", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}]
            (place / "topics.json").write_text(json.dumps(topics))
            (place / "groups.json").write_text(json.dumps([{"groupName": f"cg_listed_{name}", "retryMaxTimes": 3}]))
            made.append(Side(name, where, brokers, own, client, offset_id, unique_id, place))
        straight, through = made
        yield straight, through


def files(folder: Path) -> str:
    """The JSON files of a folder with what is in them, a value a line."""
    found = [(path.name, json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
    return "\n".join(f"{name} {json.dumps(told, indent=1, sort_keys=True)}" for name, told in found)
