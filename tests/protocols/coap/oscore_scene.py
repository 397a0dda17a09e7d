"""An endpoint and a device that has a security context of OSCORE; the same over a stream."""

from __future__ import annotations

from typing import Any

from domain.admin.oscore import HoldOscoreContext
from protocols.adapter import Peer
from protocols.coap.message import message
from protocols.coap.message.frame import Frame
from protocols.coap.message.message import Packet
from tests.protocols.coap.oscore_device import Answer, Authority, Device, context
from tests.protocols.coap.stage import Stage, peer
from tests.protocols.coap.test_stream import StreamStage

UNAUTHORIZED = message.UNAUTHORIZED


class Scene:
    """An endpoint, its gateway, and a device with a security context.

    sent   the datagrams of the device
    """

    def __init__(self, **options: Any) -> None:
        self.context = context()
        self.authority = Authority(self.context)
        self.stage = Stage(self.authority, self.authority.contexts, **options)
        self.stage.held_by = self._held  # type: ignore[method-assign]
        self.device = Device(self.context)
        self.sent: list[bytes] = []
        self.mid = 1_000

    def _held(self, command: HoldOscoreContext) -> None:
        self.authority.contexts.holders[command.user] = command.holder

    def restart(self) -> None:
        """The node starts anew, with the store that it had."""
        log, run = self.stage.log, self.stage.run
        self.stage = Stage(self.authority, self.authority.contexts)
        self.stage.held_by = self._held  # type: ignore[method-assign]
        self.stage.log, self.stage.run = log, run
        self.stage.setting.kept["coap.oscore"].echoes.secret = b"another process"  # type: ignore[attr-defined]

    def datagram(self, code: int, path: str, payload: bytes = b"", *, token: bytes = b"tk", **options: Any) -> bytes:
        self.mid += 1
        data = self.device.request(code, path, payload, token=token, mid=self.mid, **options)
        self.sent.append(data)
        return data

    def ask(self, code: int, path: str, payload: bytes = b"", *, source: Peer | None = None, **options: Any) -> Answer:
        """Send a request, and repeat it with the Echo value that it is answered with."""
        answer = self.push(self.datagram(code, path, payload, **options), source)
        if answer.code == UNAUTHORIZED and answer.echo is not None and "echo" not in options:
            return self.ask(code, path, payload, source=source, echo=answer.echo, **options)
        return answer

    def push(self, data: bytes, source: Peer | None = None) -> Answer:
        (raw,) = self.stage.raw(data, source)
        return self.device.read(raw)

    def note(self) -> tuple[Answer, Packet]:
        """The one notification that is sent, opened and as it was sent; it is acknowledged."""
        (raw,) = self.stage.out_raw()
        found = message.decode(raw)
        assert found is not None
        self.stage.carry_out(self.stage.endpoint.receive(message.empty(message.ACK, found.mid), peer(), self.stage.now))
        return self.device.read(raw), found

    def again(self, data: bytes) -> Packet:
        """Send a datagram of the device again, with another message id, from another port."""
        self.mid += 1
        moved = data[:2] + self.mid.to_bytes(2, "big") + data[4:]
        (packet,) = self.stage.push(moved, peer(50_000))
        return packet


class StreamScene(Scene):
    """A connection over TCP in the place of the endpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.wire = StreamStage(authority=self.authority, contexts=self.authority.contexts)
        self.wire.held_by = self._held  # type: ignore[method-assign]
        self.stage = self.wire

    def push(self, data: bytes, source: Peer | None = None) -> Answer:
        """Send a message over the connection."""
        found = message.decode(data)
        assert found is not None
        framed = self.wire.client.encode(found.code, found.token, message.join(found.options), found.payload)
        self.wire.carry_out(self.wire.connection.receive(framed, self.wire.now))
        (answer,) = self.received()
        return answer

    def received(self) -> list[Answer]:
        """What has come over the connection."""
        return [self.device.read(_datagram(frame)) for frame in self.wire.frames()]


def _datagram(frame: Frame) -> bytes:
    return bytes((0x60 | len(frame.token), frame.code, 0, 1)) + frame.token + frame.rest
