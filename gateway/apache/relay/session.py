"""Session of one client connection of the relay: its own connections to servers, requests, replies, and servers' requests."""

from __future__ import annotations

from typing import Final, final

from domain.address import endpoint_text
from domain.limits import SECOND_NS
from gateway.apache.relay import stored
from gateway.apache.relay.asked import AskedOfClient
from gateway.apache.relay.fan import Fan, Fans
from gateway.apache.relay.named_broker import (
    FROM_BROKERS,
    TO_ALL_BROKERS,
    TO_ALL_NAMESERVERS,
    TO_ANY_BROKER,
    TO_NAMESERVER,
    named_broker,
    names_brokers,
)
from gateway.apache.relay.servers import NAMESERVER, RelayServers
from gateway.apache.relay.uplink import FULL_BYTES, Uplink
from gateway.connection.client_connection import ClientConnection
from protocols.host_shares import HostShare
from protocols.remoting import codes
from protocols.remoting.relayed.exchange import RelayOutput, RelayReading
from protocols.remoting.relayed.frame_slice import FrameSlice
from protocols.remoting.wire.frame import encode
from protocols.remoting.wire.header import FLAG_ONEWAY, FLAG_RESPONSE

WAITING_MAX: Final = 65_536
"""Requests that one server has not answered; beyond, the client is not read."""
FORGET_NS: Final = 60 * SECOND_NS
"""Time after which a request that was not answered counts no more while it keeps the client from being read."""
TO_SEVERAL: Final = TO_ALL_BROKERS | TO_ALL_NAMESERVERS
FANNED: Final = -1
"""In `Uplink.special`: the reply is one of several."""


@final
class RelaySession:
    """The relay of one client connection.

    pin         address of the server that the client's port stands for, NAMESERVER, or "": requests name their target
    _uplinks    key -> connection; a key is an address, or NAMESERVER
    _direct     numbers of route requests of clients that do not name the broker in their requests
    _held       bytes that wait for servers that do not read now, within the limit that all clients share
    _heartbeat  the client's last heartbeat, sent first on a new connection to a broker where requests name their target
    """

    def __init__(self, servers: RelayServers, client: ClientConnection, pin: str) -> None:
        self.pin = pin
        self._servers = servers
        self._brokers = servers.brokers
        self._client = client
        self._uplinks: dict[str, Uplink] = {}
        self._fans = Fans()
        self._asked = AskedOfClient()
        self._heartbeat = b""
        self._direct: set[int] = set()
        self._out: list[bytes] = []
        self._reading = True
        self._forgetting = False
        self._held = HostShare(servers.held, client.host)
        self._ended = False
        client.on_close.append(self.end)
        client.on_stalled = self._stalled
        client.on_writable = self._writable

    def unanswered_bytes(self) -> int:
        """Bytes of requests that servers have not answered, and of those that wait for a connection."""
        return sum(each.waiting_bytes + each.queued_bytes for each in self._uplinks.values())

    # From the client

    def take(self, frames: list[FrameSlice]) -> None:
        """Pass on frames of the client. Adjacent frames for the same server are written together."""
        run: Uplink | None = None
        start = end = 0
        data = frames[0].data
        for frame in frames:
            if run is not None and frame.code in TO_SEVERAL and self.pin in ("", NAMESERVER):
                run.write(data[start:end])
                run = None
            uplink = self._answer_of_client(frame) if frame.flag & 1 else self._target(frame)
            if uplink is not run or frame.data is not data or frame.start != end:
                if run is not None:
                    run.write(data if start == 0 and end == len(data) else data[start:end])
                run, data, start = uplink, frame.data, frame.start
            end = frame.end
        if run is not None:
            run.write(data if start == 0 and end == len(data) else data[start:end])
        self._flush()
        self.regulate()

    def _target(self, frame: FrameSlice) -> Uplink | None:
        """The connection to which a request is written unchanged; None: the request is handled already."""
        pin = self.pin
        if pin and pin != NAMESERVER:
            name = frame.field("bname")
            key = pin if not name or self._brokers.holds(name, pin) else self._brokers.master(name)
        elif pin or frame.code in TO_NAMESERVER or frame.code in FROM_BROKERS:
            key = self._nameserver(frame)
        else:
            key = self._broker(frame)
        if not key:
            return None
        uplink = self._uplinks.get(key) or self._linked(key, frame)
        if uplink is None:
            return None
        if (uplink.full or not uplink.open) and not self._held.take(frame.size):
            self._refuse(frame, codes.SYSTEM_BUSY, f"{uplink.name} does not take what waits for it: send later, or elsewhere")
            return None
        if uplink.full and not pin:
            self._refuse(
                frame, codes.SYSTEM_BUSY, f"{uplink.name} does not read what this client sends: send later, or elsewhere"
            )
            return None
        if frame.flag & FLAG_ONEWAY == 0:
            if self._servers.rewritten(frame.code) if key == NAMESERVER else stored.looked_at(frame):
                uplink.special[frame.opaque] = frame.code
                if frame.code == codes.GET_ROUTE and not names_brokers(frame):
                    self._direct.add(frame.opaque)
            uplink.asked(frame)
        return uplink

    def _nameserver(self, frame: FrameSlice) -> str:
        if frame.code in FROM_BROKERS:
            self._refuse(frame, codes.NOT_SUPPORTED, "brokers register at the name servers, and not at a gateway before them")
            return ""
        if frame.code in TO_ALL_NAMESERVERS and not frame.oneway and len(self._servers.nameservers()) > 1:
            self._fan(frame, self._servers.nameservers(), all_must=True)
            return ""
        return NAMESERVER

    def _broker(self, frame: FrameSlice) -> str:
        """The target address of a request at a port that is no broker's; "": the request is handled already."""
        name = named_broker(frame)
        found = self._brokers.master(name) if name else ""
        masters = self._brokers.masters() if not found else []
        if found or (len(masters) == 1 and not name):
            return found or masters[0]
        if not name and masters:
            if frame.code in TO_ALL_BROKERS:
                if frame.code == codes.HEARTBEAT:
                    self._heartbeat = frame.numbered(frame.opaque, FLAG_ONEWAY)
                self._fan(frame, masters, all_must=False)
                return ""
            if frame.code in TO_ANY_BROKER:
                return masters[0]
        if not masters:
            self._refuse(frame, codes.SERVICE_NOT_AVAILABLE, "no broker is known yet: the name servers have told of none")
        elif name:
            self._refuse(frame, codes.SERVICE_NOT_AVAILABLE, f"broker {name[:80]} is not known to the name servers")
        else:
            text = f"the request names no broker; each has a port of its own here: {self._servers.where()}"
            self._refuse(frame, codes.NOT_SUPPORTED, text)
        return ""

    def _linked(self, key: str, frame: FrameSlice) -> Uplink | None:
        """A new connection; None: there is none, and the request is answered with a failure."""
        made = self._servers.link(key, self)
        if isinstance(made, str):
            self._refuse(frame, codes.SERVICE_NOT_AVAILABLE, made)
            return None
        self._uplinks[key] = made
        if self._client.stalled:
            made.set_reading(False)
        if self._heartbeat and not self.pin and key != NAMESERVER:
            made.write(self._heartbeat)
        return made

    def _fan(self, frame: FrameSlice, keys: list[str], all_must: bool) -> None:
        """Send a request to several servers; the client gets one answer."""
        fan = Fan(all_must)
        if not frame.oneway:
            self._fans.add(frame.opaque, fan)
        for key in keys:
            uplink = self._uplinks.get(key)
            if uplink is None:
                made = self._servers.link(key, self)
                if isinstance(made, str):
                    fan.failed(self._refusal(frame.opaque, frame.serialize, codes.SERVICE_NOT_AVAILABLE, made))
                    continue
                uplink = self._uplinks[key] = made
            if not frame.oneway:
                uplink.asked(frame)
                uplink.special[frame.opaque] = FANNED
                fan.wait_for(uplink)
            uplink.write(frame.whole)
        if not frame.oneway:
            self._out += self._fans.settled(frame.opaque)

    def _answer_of_client(self, frame: FrameSlice) -> Uplink | None:
        """Pass on the client's reply to a request of a server."""
        found = self._asked.answered(frame.opaque)
        if found is None:
            return None
        uplink, opaque = found
        if opaque == frame.opaque:
            return uplink
        uplink.write(frame.numbered(opaque))
        return None

    def _refuse(self, frame: FrameSlice, code: int, text: str) -> None:
        if not frame.oneway:
            self._out.append(self._refusal(frame.opaque, frame.serialize, code, text))

    def _refusal(self, opaque: int, serialize: int, code: int, text: str) -> bytes:
        return encode(code, opaque, fields={}, flag=FLAG_RESPONSE, remark=text, serialize=serialize)

    def _flush(self) -> None:
        if self._out:
            out, self._out = self._out, []
            self._client.answer(RelayOutput(out))

    # From servers

    def received(self, uplink: Uplink, frames: list[FrameSlice]) -> None:
        """Pass on frames of a server. Adjacent unchanged frames are written together."""
        data = frames[0].data
        start = end = frames[0].start
        for frame in frames:
            piece: bytes | None = None
            if frame.flag & 1:
                uplink.answered(frame.opaque)
                if uplink.special and frame.opaque in uplink.special:
                    piece = self._special(uplink, frame)
            elif frame.flag & FLAG_ONEWAY == 0:
                piece = self._asked_by(uplink, frame)
            if piece is not None:
                if end > start:
                    self._out.append(data[start:end])
                if piece:
                    self._out.append(piece)
                start = frame.end
            end = frame.end
        if end > start:
            self._out.append(data if start == 0 and end == len(data) else data[start:end])
        self._flush()
        if not self._reading:
            self.regulate()

    def _special(self, uplink: Uplink, frame: FrameSlice) -> bytes | None:
        """The bytes that replace a reply; b"": nothing is written, None: the reply is unchanged."""
        code = uplink.special.pop(frame.opaque)
        if code != FANNED:
            if frame.code != codes.SUCCESS or frame.body_at == frame.end:
                return None
            direct = frame.opaque in self._direct
            self._direct.discard(frame.opaque)
            return self._servers.reply(code, frame, direct)
        self._out += self._fans.answered(uplink, frame)
        return b""

    def _asked_by(self, uplink: Uplink, frame: FrameSlice) -> bytes | None:
        """A request of a server, rewritten for the client; None: unchanged."""
        number = self._asked.add(uplink, frame.opaque)
        return None if number == frame.opaque else frame.numbered(number)

    def lost(self, uplink: Uplink, reason: str) -> None:
        """The connection to a server has ended. The requests that it has not answered are refused.

        A client that has connected to the port of that server is disconnected: it looks for another one then, or tries again.
        """
        self._servers.lost(uplink, reason)
        key = next((key for key, each in self._uplinks.items() if each is uplink), None)
        if key is not None:
            del self._uplinks[key]
        text = f"{uplink.name} at {endpoint_text(*uplink.where)}: {reason}"
        for opaque in list(uplink.waiting):
            refusal = self._refusal(opaque, uplink.serialize, codes.SERVICE_NOT_AVAILABLE, text)
            is_fanned = uplink.special.get(opaque) == FANNED and opaque in self._fans
            self._out += self._fans.lost(uplink, opaque, refusal) if is_fanned else (refusal,)
        self._asked.forget(uplink)
        self._flush()
        if self.pin and key == self.pin and not self._ended:
            self._client.driver.close()
        else:
            self.regulate()

    # Back-pressure

    def regulate(self) -> None:
        """Stop reading from the client while servers do not read its requests, or have too many of them in flight."""
        if self._ended:
            return
        size = count = 0
        full = waits = False
        for each in self._uplinks.values():
            size += each.waiting_bytes + each.queued_bytes
            count += len(each.waiting)
            full = full or each.full or each.queued_bytes > FULL_BYTES
            waits = waits or each.full or not each.open
        if not waits and self._held.held:
            self._held.release()
        beyond = size > self._servers.unanswered_bytes_max or count > WAITING_MAX
        reading = not beyond and not (full and self.pin != "")
        if beyond and not self._forgetting:
            self._forgetting = True
            self._servers.clock.call_at(self._servers.clock.monotonic_ns() + FORGET_NS, self._forget)
        if reading is not self._reading:
            self._reading = reading
            self._client.answer(RelayReading(reading))

    def _forget(self) -> None:
        """Drop the older half of the requests in flight from the count, since the client was not read for FORGET_NS."""
        self._forgetting = False
        if self._reading or self._ended:
            return
        for uplink in self._uplinks.values():
            for opaque in list(uplink.waiting)[: (len(uplink.waiting) + 1) // 2]:
                uplink.answered(opaque)
                uplink.special.pop(opaque, None)
        self.regulate()

    def _stalled(self) -> None:
        """The client does not read."""
        for each in self._uplinks.values():
            each.set_reading(False)

    def _writable(self) -> None:
        """The client reads again."""
        for each in self._uplinks.values():
            each.set_reading(True)

    def end(self) -> None:
        """Close the connections to servers, since the client's connection has ended."""
        self._ended = True
        for each in self._uplinks.values():
            each.close()
        self._uplinks.clear()
        self._fans.clear()
        self._asked.clear()
        self._held.release()
