"""An endpoint with a gateway made of dictionaries, virtual time, and datagrams in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from domain.access.access import Authority
from domain.access.oscore import OscoreContexts
from domain.address import host_bytes
from domain.admin.oscore import HoldOscoreContext, OscoreRunReserved, ReserveOscoreRun
from domain.command import (
    Acknowledge,
    Command,
    DeleteLatest,
    Extend,
    QueryLatest,
    Receive,
    Send,
    Unwatch,
    Watch,
)
from domain.errors import Failure
from domain.event import Done, Event, LatestValue, Leased, Received, Refused, Sent, Settled, WatchedMessages, WatchStarted
from domain.filter.path_matching import matches, path_of
from domain.message import property as properties
from domain.message import record
from domain.message.message import RETAIN_SET, Message, Placed
from domain.message.receipt import Receipt
from gateway.node.settings_tables import read
from protocols.adapter import Peer
from protocols.coap.adapter import CoapAdapter
from protocols.coap.message import message, option
from protocols.coap.message.message import Packet, Pairs
from protocols.coap.observe.observations import Feed
from protocols.coap.settings import CoapSettings
from protocols.setting import Setting

SECOND = 1_000_000_000


class Dice:
    """Entropy that counts up."""

    def __init__(self) -> None:
        self.serial = 0

    def random(self) -> float:
        return 0.5

    def token(self, size: int) -> bytes:
        self.serial += 1
        return self.serial.to_bytes(size, "big")


def peer(port: int = 40_000, host: str = "192.0.2.1") -> Peer:
    return Peer(host, port, host_bytes(host, port))


class Stage:
    """An endpoint and its gateway.

    hold     True: commands are kept in `held` until `play`
    refuse   the failure that every Send and every claim of a security context gets; None: success
    run      the last run of numbers that was reserved
    claims   commands about security contexts
    """

    def __init__(self, authority: Authority | None = None, contexts: OscoreContexts | None = None, **options: Any) -> None:
        self.now = 1000 * SECOND
        self.wall_ms = 1_700_000_000_000
        self.refused: list[str] = []
        setting = Setting(
            "c", "b", "127.0.0.1", {"coap": 5683}, Dice(), lambda: self.wall_ms, authority,
            refused=lambda _protocol, word: self.refused.append(word), contexts=contexts,
        )  # fmt: skip
        self.setting = setting
        self.config = read(CoapSettings, "coap", options, {})
        self.endpoint = CoapAdapter(setting, self.config).bind(self.now)
        self.log: list[tuple[Message, bytes]] = []
        self.latest: dict[str, bytes] = {}
        self.watches: list[Watch] = []
        self.leased: dict[str, Receipt] = {}
        self.queue: list[bytes] = []
        self.commands: list[Command] = []
        self.hold = False
        self.held: list[Command] = []
        self.refuse: Failure | None = None
        self.parked: list[Receive] = []
        self.mid = 0
        self.run = 100
        self.claims: list[Command] = []

    def push(self, data: bytes, source: Peer | None = None) -> list[Packet]:
        """Receive one datagram; returns the datagrams sent, decoded."""
        self.carry_out(self.endpoint.receive(data, source or peer(), self.now))
        return self.out()

    def raw(self, data: bytes, source: Peer | None = None) -> list[bytes]:
        self.carry_out(self.endpoint.receive(data, source or peer(), self.now))
        return self.out_raw()

    def request(
        self, code: int, path: str, payload: bytes = b"", *, kind: int = message.CON, token: bytes = b"tk", mid: int = -1,
        pairs: Sequence[tuple[int, bytes]] = (), query: Sequence[str] = (), source: Peer | None = None,
    ) -> list[Packet]:  # fmt: skip
        return self.push(self.build(code, path, payload, kind=kind, token=token, mid=mid, pairs=pairs, query=query), source)

    def build(
        self, code: int, path: str, payload: bytes = b"", *, kind: int = message.CON, token: bytes = b"tk", mid: int = -1,
        pairs: Sequence[tuple[int, bytes]] = (), query: Sequence[str] = (),
    ) -> bytes:  # fmt: skip
        options: Pairs = [(option.URI_PATH, level.encode()) for level in path.split("/")]
        options += [(option.URI_QUERY, text.encode()) for text in query]
        if mid < 0:
            self.mid += 1
            mid = self.mid
        return message.encode(kind, code, mid, token, message.join([*options, *pairs]), payload)

    def out_raw(self) -> list[bytes]:
        return [data for data, _ in self.endpoint.outgoing()]

    def out(self) -> list[Packet]:
        packets = []
        for data in self.out_raw():
            packet = message.decode(data)
            assert packet is not None
            packets.append(packet)
        return packets

    def advance(self, seconds: float) -> list[Packet]:
        """Advance the virtual clock, and call `expire` at each deadline."""
        end = self.now + int(seconds * SECOND)
        while True:
            due = self.endpoint.deadline()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.carry_out(self.endpoint.expire(self.now))
        self.now = end
        self.wall_ms += int(seconds * 1000)
        return self.out()

    def settle(self) -> None:
        """Execute commands that events have caused."""
        while self.endpoint.deadline() == 0:
            self.carry_out(self.endpoint.expire(self.now))

    def play(self) -> list[Packet]:
        """Execute the commands in `held`."""
        self.play_held()
        return self.out()

    def play_held(self) -> None:
        """As `play`; `out` or `out_raw` takes what is sent."""
        held, self.held = self.held, []
        for command in held:
            self._handle(command)
        self.settle()

    def arrive(self, body: bytes, path: str = "t") -> list[Packet]:
        """A message for the members that wait."""
        self.queue.append(self.publish(path, body))
        parked, self.parked = self.parked, []
        for command in parked:
            self._receive(command)
        self.settle()
        return self.out()

    def publish(self, path: str, body: bytes, retain: bool = False, stored: bytes = b"") -> bytes:
        """Store a message as another protocol does."""
        topic = path.split("/", maxsplit=1)[0]
        if topic != path:
            stored += properties.entry(properties.ORIGIN_MQTT_TOPIC, path)
        _, data = self._append(Message(topic, body, stored, retain=RETAIN_SET if retain else 0))
        return data

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Execute commands, and those that their events cause."""
        for command in commands:
            self.commands.append(command)
            if self.hold:
                self.held.append(command)
            else:
                self._handle(command)
        self.settle()

    def _append(self, stored: Message) -> tuple[Placed, bytes]:
        serial = len(self.log)
        name = stored.message_id or f"ID{serial:030d}"
        stored.properties = properties.with_values(stored.properties, {properties.UNIQ_KEY: name})
        stored.queue_id = 0
        data = record.encode(stored, serial, serial * 1000, self.wall_ms, host_bytes("127.0.0.1", 10911))
        self.log.append((stored, data))
        path = path_of(stored.topic, stored.properties)
        if stored.retain == RETAIN_SET:
            self.latest[path] = data
        for watch in self.watches:
            if matches(watch.pattern, path):
                self._answer(WatchedMessages(watch.ticket, [data]))
        return Placed(0, serial, serial * 1000, self.wall_ms, name), data

    def _answer(self, event: Event) -> None:
        self.endpoint.answer(event, self.now)

    def _handle(self, command: Command) -> None:
        if isinstance(command, Send):
            if self.refuse is not None:
                self._answer(Refused(command.ticket, self.refuse))
                return
            placed = [self._append(stored)[0] for stored in command.messages]
            if command.wait:
                self._answer(Sent(command.ticket, placed))
        elif isinstance(command, QueryLatest):
            self._answer(LatestValue(command.ticket, self.latest.get(command.path)))
        elif isinstance(command, DeleteLatest):
            self.latest.pop(command.path, None)
            self._answer(Done(command.ticket))
        elif isinstance(command, Watch):
            self.watches.append(command)
            self._answer(WatchStarted(command.ticket))
        elif isinstance(command, Unwatch):
            self.watches = [watch for watch in self.watches if watch.ticket is not command.ticket]
        elif isinstance(command, Receive):
            self._receive(command)
        elif isinstance(command, Acknowledge):
            known = self.leased.pop(command.receipts[0].text(), None)
            self._answer(Settled(command.ticket, [None if known is not None else _expired()]))
        elif isinstance(command, ReserveOscoreRun | HoldOscoreContext):
            self._claim(command)
        elif isinstance(command, Extend):
            self.leased.pop(command.receipts[0].text(), None)

    def _claim(self, command: ReserveOscoreRun | HoldOscoreContext) -> None:
        self.claims.append(command)
        if self.refuse is not None:
            self._answer(Refused(command.ticket, self.refuse))
        elif isinstance(command, HoldOscoreContext):
            self.held_by(command)
            self._answer(Done(command.ticket))
        else:
            self.run += 1
            self._answer(OscoreRunReserved(command.ticket, self.run))

    def held_by(self, command: HoldOscoreContext) -> None:
        """A process holds a security context now."""

    def _receive(self, command: Receive) -> None:
        leased: list[Leased] = []
        if isinstance(command.ticket, Feed) and not self.queue and command.wait_ms:
            self.parked.append(command)
            return
        if self.queue:
            receipt = Receipt(0, self.wall_ms, command.invisible_ms, 0, 0, "b", 0, len(self.leased))
            self.leased[receipt.text()] = receipt
            leased.append(Leased(self.queue.pop(0), receipt, 1))
        self._answer(Received(command.ticket, leased, self.wall_ms, command.invisible_ms))


def _expired() -> Failure:
    from domain.errors import ErrorCode

    return Failure(ErrorCode.RECEIPT_EXPIRED, "the lease is another's")


def values(packet: Packet, number: int) -> list[bytes]:
    return [value for key, value in packet.options if key == number]
