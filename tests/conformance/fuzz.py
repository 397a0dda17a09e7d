"""Mutated packets into the real connection, with the real use cases behind it and a store in memory.

    python -m tests.conformance.fuzz --packets 5000000 --seed 1

Sessions of random packets, each of them valid when it is made, are damaged in places and cut into random pieces. Whatever
comes: nothing raises; what the server sends can be read, and carries reason codes that its packets may carry; the connection
ends with a reason of the closed list; a packet that `grammar` finds malformed ends it; memory stays bounded.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from gateway.runtime.compiled import activate

if __name__ == "__main__":
    # What is compiled is found from here on: before anything of it is imported.
    print(activate(), flush=True)

from protocols.mqtt import status
from protocols.mqtt.connect import Auth, Connack, Disconnect
from protocols.mqtt.packet import Packet
from protocols.mqtt.publish import Ack
from protocols.mqtt.subscribe import Suback
from tests.conformance import grammar
from tests.protocols.mqtt.stage import Broker, Client

ROUND: Final = 20_000
"""Packets after which a new broker is made, so that stored data does not count as memory growth."""
GROWTH_KIB: Final = 64 * 1024
"""How much a process may grow from its third round on."""

TOPICS: Final = ("t", "t/a", "u/b/c", "$SYS/x", "$share/g/t", "größe/1", "/", "x" * 300)
FILTERS: Final = ("t", "t/#", "+/a", "#", "$share/g/t/#", "$SYS/#", "a/#/b", "", "+/+", "u/b/c")
METHODS: Final = ("SCRAM-SHA-256", "JWT", "x")


def short(value: int) -> bytes:
    return value.to_bytes(2, "big")


def blob(data: bytes) -> bytes:
    return short(len(data)) + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


class Author:
    """Makes valid packets of one session, and mutates them."""

    def __init__(self, pick: random.Random, version: int) -> None:
        self.pick = pick
        self.version = version
        self.makers: tuple[Callable[[], bytes], ...] = (
            self.publish, self.publish, self.publish, self.publish, self.ack, self.ack, self.subscribe, self.subscribe,
            self.unsubscribe, lambda: b"\xc0\x00", self.disconnect, self.auth,
        )  # fmt: skip
        self.damages: tuple[Callable[[bytes], bytes], ...] = (
            self.flip, self.flip, self.lie, self.cut, self.splice, self.insert, self.flags, lambda _: pick.randbytes(8)
        )  # fmt: skip

    # Packets

    def word(self) -> str:
        return self.pick.choice(("", "k", "größe", "v" * 200, "\ufeff", "a b"))

    def section(self, *known: bytes) -> bytes:
        """Some of `known` properties and user properties, in any order."""
        if self.version != 5:
            return b""
        chosen = [one for one in known if self.pick.random() < 0.3]
        for _ in range(self.pick.choice((0, 0, 1, 2))):
            chosen.append(b"\x26" + blob(self.word().encode()) + blob(self.word().encode()))
        self.pick.shuffle(chosen)
        body = b"".join(chosen)
        return varint(len(body)) + body

    def framed(self, first: int, body: bytes) -> bytes:
        return bytes((first,)) + varint(len(body)) + body

    def connect(self) -> bytes:
        pick = self.pick
        name = b"MQIsdp" if self.version == 3 else b"MQTT"
        flags = pick.choice((0, 2)) if self.version != 3 else 2
        tail = b""
        if pick.random() < 0.3:
            qos = pick.randrange(3)
            flags |= 4 | qos << 3 | pick.choice((0, 0x20))
            will = self.section(b"\x18" + bytes(4), b"\x01\x01", b"\x02\0\0\0\x05", b"\x03\0\x01t", b"\x09\0\x01c")
            tail = will + blob(pick.choice(TOPICS).encode()) + blob(pick.randbytes(pick.randrange(9)))
        if pick.random() < 0.3:
            flags |= 0xC0
            tail += blob(b"user") + blob(b"password")
        given = self.section(
            b"\x11" + bytes((0, 0, 0, pick.randrange(9))), b"\x21" + short(pick.randrange(1, 9)), b"\x19\x01",
            b"\x17" + bytes((pick.randrange(2),)), b"\x22" + short(pick.randrange(4)),
            b"\x27" + (40 + pick.randrange(400)).to_bytes(4, "big"),
            *([b"\x15" + blob(pick.choice(METHODS).encode())] if pick.random() < 0.2 else ()),
        )  # fmt: skip
        client_id = blob(b"c%d" % pick.randrange(6))
        head = blob(name) + bytes((self.version, flags)) + short(pick.choice((0, 9, 600)))
        return self.framed(0x10, head + given + client_id + tail)

    def publish(self) -> bytes:
        pick = self.pick
        qos = pick.randrange(3)
        topic = pick.choice(TOPICS) if pick.random() < 0.3 else pick.choice(TOPICS[:3])
        given = self.section(
            b"\x01\x01", b"\x02" + pick.randbytes(4), b"\x03" + blob(self.word().encode()), b"\x08" + blob(b"re/ply"),
            b"\x09" + blob(pick.randbytes(4)), *([b"\x23" + short(pick.randrange(1, 4))] if pick.random() < 0.3 else ()),
        )  # fmt: skip
        first = 0x30 | qos << 1 | pick.randrange(2) | (8 if qos and pick.random() < 0.2 else 0)
        identity = short(pick.randrange(1, 40)) if qos else b""
        return self.framed(first, blob(topic.encode()) + identity + given + pick.randbytes(pick.choice((0, 1, 20, 300))))

    def ack(self) -> bytes:
        kind = self.pick.choice((4, 5, 6, 7))
        body = short(self.pick.randrange(1, 40))
        if self.version == 5 and self.pick.random() < 0.4:
            body += bytes((self.pick.choice((0, 0x10, 0x92, 0x80)),)) + self.section(b"\x1f" + blob(b"why"))
        return self.framed(kind << 4 | (2 if kind == 6 else 0), body)

    def subscribe(self) -> bytes:
        pick = self.pick
        body = short(pick.randrange(1, 40)) + self.section(b"\x0b" + varint(pick.choice((1, 300, 268_435_455))))
        for _ in range(pick.choice((1, 1, 2, 5))):
            options = pick.randrange(3) | (pick.choice((0, 4, 8, 16, 32)) if self.version == 5 else 0)
            body += blob(pick.choice(FILTERS).encode()) + bytes((options,))
        return self.framed(0x82, body)

    def unsubscribe(self) -> bytes:
        body = short(self.pick.randrange(1, 40)) + self.section()
        names = [self.pick.choice(FILTERS).encode() for _ in range(self.pick.choice((1, 3)))]
        return self.framed(0xA2, body + b"".join(map(blob, names)))

    def disconnect(self) -> bytes:
        if self.version != 5 or self.pick.random() < 0.3:
            return b"\xe0\x00"
        code = bytes((self.pick.choice((0, 4, 0x82)),))
        return self.framed(0xE0, code + self.section(b"\x11\0\0\0\x03", b"\x1f" + blob(b"bye")))

    def auth(self) -> bytes:
        if self.version != 5:
            return b"\xc0\x00"
        given = self.section(b"\x15" + blob(self.pick.choice(METHODS).encode()), b"\x16" + blob(b"n,,n=a,r=b"))
        return self.framed(0xF0, bytes((self.pick.choice((0x18, 0x19)),)) + given)

    # Damage

    def flip(self, data: bytes) -> bytes:
        out = bytearray(data)
        for _ in range(self.pick.choice((1, 1, 2, 8))):
            out[self.pick.randrange(len(out))] ^= 1 << self.pick.randrange(8)
        return bytes(out)

    def lie(self, data: bytes) -> bytes:
        """Another length, of the packet or of something in it."""
        at = self.pick.randrange(1, len(data))
        said = self.pick.choice((0, 1, 2, 127, 128, 255, data[at] + 1 & 255, data[at] - 1 & 255))
        return data[:at] + bytes((said,)) + data[at + 1 :]

    def cut(self, data: bytes) -> bytes:
        return data[: self.pick.randrange(1, len(data) + 1)]

    def splice(self, data: bytes) -> bytes:
        other = self.pick.choice(self.makers)()
        return data[: self.pick.randrange(1, len(data) + 1)] + other[self.pick.randrange(len(other)) :]

    def insert(self, data: bytes) -> bytes:
        at = self.pick.randrange(len(data) + 1)
        return data[:at] + self.pick.randbytes(self.pick.choice((1, 2, 5))) + data[at:]

    def flags(self, data: bytes) -> bytes:
        return bytes((data[0] & 0xF0 | self.pick.randrange(16),)) + data[1:]

    def session(self, length: int, damaged: bool) -> list[bytes]:
        """CONNECT and what follows; in a damaged session one packet in four is damaged."""
        out = [self.connect()]
        out += [self.pick.choice(self.makers)() for _ in range(length - 1)]
        if not damaged:
            return out
        return [self.pick.choice(self.damages)(one) if self.pick.random() < 0.25 else one for one in out]


class Fuzz:
    """A run. `ends` counts how sessions ended, `malformed` those that had to."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.packets = 0
        self.sessions = 0
        self.malformed = 0
        self.ends: Counter[str] = Counter()

    def round(self, packets: int) -> None:
        """Send this many packets to one new broker; afterwards it must have no connections."""
        broker = Broker(unanswered_bytes_max=100_000)
        end = self.packets + packets
        while self.packets < end:
            self._session(broker)
            if len(broker.clients) > 8:
                broker.clients[0].drop()
        for client in list(broker.clients):
            client.drop()
        broker.run(100_000)
        assert broker.clients == []

    def _session(self, broker: Broker) -> None:
        pick = self.pick
        author = Author(pick, pick.choice((3, 4, 5, 5, 5)))
        damaged = pick.random() < 0.7
        parts = author.session(pick.choice((1, 3, 12, 12, 30)), damaged)
        client = broker.client(author.version)
        data = b"".join(parts)
        self.packets += len(parts)
        self.sessions += 1
        whole, client.decoder.version = grammar.packet(data, 0)
        # A malformed CONNECT is refused in the version that the server has decoded.
        client.stalled = whole < 0
        at = 0
        while at < len(data) and not client.gone:
            step = pick.choice((1, 7, 60, 500, 5000))
            client.send(data[at : at + step], wait=False)
            at += step
            if pick.random() < 0.2:
                broker.run(pick.choice((0.5, 5, 50)))
        broker.run(5)
        self._check(client, data)

    def _check(self, client: Client, data: bytes) -> None:
        refusal = b"".join(client.connection.outgoing())
        assert refusal[:1] in (b"", b"\x20"), refusal
        check_answers(client.take())
        must = must_end(data)
        self.malformed += must
        assert not must or client.gone, f"a malformed packet was taken: {data.hex()}"
        if client.gone:
            assert client.reason in status.CLOSED or client.reason == "", client.reason
            self.ends[client.reason] += 1
        else:
            self.ends["open"] += 1


def check_answers(packets: list[Packet]) -> None:
    """Reason codes are those that their packets may carry (MQTT 5; the versions before have a few of them)."""
    for packet in packets:
        if isinstance(packet, Connack):
            assert packet.code <= 5 or packet.code in status.CONNACK_CODES, packet.code
        elif isinstance(packet, Disconnect):
            assert packet.code in status.DISCONNECT_CODES, packet.code
        elif isinstance(packet, Auth):
            assert packet.code in (0, 0x18)
        elif isinstance(packet, Suback):
            legal = {0, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91} if packet.un else {0, 1, 2, *status.SUBACK_CODES}
            assert set(packet.codes) <= legal, packet.codes
        elif isinstance(packet, Ack):
            assert packet.code in ({0, 0x10, *status.PUBLISH_CODES} if packet.kind < 6 else {0, 0x92}), packet.code


def must_end(data: bytes) -> bool:
    """True when a client's bytes must end the connection: they have a malformed packet or a DISCONNECT."""
    version = 0
    while data:
        kind = data[0] >> 4
        size, version = grammar.packet(data, version)
        if size == grammar.MALFORMED or (size >= 0 and kind == 14):
            return True
        if size == grammar.INCOMPLETE:
            return False
        data = data[size:]
    return False


def resident_kib() -> int:
    """Peak resident memory of this process, KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(arguments: list[str]) -> int:
    """Run the fuzzer and print the result."""
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    fuzz = Fuzz(options.seed)
    began = time.monotonic()
    settled = 0
    number = 0
    while fuzz.packets < options.packets:
        fuzz.round(min(ROUND, options.packets - fuzz.packets))
        number += 1
        if number == 3:
            settled = resident_kib()
        if number % 10 == 0:
            print(f"{fuzz.packets} packets, {fuzz.sessions} sessions, {resident_kib() // 1024} MiB", flush=True)
        if settled and resident_kib() - settled > GROWTH_KIB:
            print(f"memory grows: {settled} KiB after three rounds, {resident_kib()} KiB now")
            return 1
    spent = time.monotonic() - began
    print(f"{fuzz.packets} packets, {fuzz.sessions} sessions, seed {options.seed}: {spent:.0f} s, {resident_kib() // 1024} MiB")
    print(f"{fuzz.malformed} sessions had to end; ends: {dict(fuzz.ends.most_common())}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
