"""Rate limits of connected clients: a handler before the access gate, which checks once for each batch of messages.

The throttle exists only if the settings limit rates.
"""

from __future__ import annotations

import logging
from typing import Final, final

from domain.client.mqtt_session import Attach, SendOnce
from domain.command import Command, Send
from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from gateway.guard.bucket import Bucket, Buckets, RateLimit
from gateway.guard.flapping import FlappingDetector
from gateway.guard.settings import CLOSE, WAIT, LimitsSettings

DELAYED_PROTOCOLS: Final = frozenset({"mqtt", "websocket"})
"""Labels of the protocols whose clients can be slowed down by not reading from them. Clients of others get a refusal."""

log = logging.getLogger("headgate.guard")


@final
class Throttle:
    """Limits messages and bytes of each connection and each user, and refuses flapping MQTT clients.

    held_off   number of CONNECTs of flapping clients that were refused, since the start
    """

    def __init__(self, limits: LimitsSettings, handler: Handler, clock: Clock) -> None:
        self.held_off = 0
        self._handle = handler.handle
        self._clock = clock
        self.apply(limits)

    def apply(self, limits: LimitsSettings) -> None:
        """Apply new limits, also to connected clients. All buckets start full."""
        self._wait = limits.mqtt_excess == WAIT
        self._code = {True: ErrorCode.RATE if limits.mqtt_excess == CLOSE else ErrorCode.QUOTA, False: ErrorCode.RATE}
        burst, keys = limits.burst_s, limits.keys_max
        self._rates = [
            (RateLimit(each, burst), by_bytes)
            for each, by_bytes in ((limits.messages_per_s, False), (limits.bytes_per_s, True))
            if each
        ]
        self._users: list[tuple[Buckets[str], bool]] = [
            (Buckets(RateLimit(each, burst), keys), by_bytes)
            for each, by_bytes in ((limits.user_messages_per_s, False), (limits.user_bytes_per_s, True))
            if each
        ]
        self._peers: list[tuple[Buckets[bytes], bool]] = [(Buckets(rate, keys), by_bytes) for rate, by_bytes in self._rates]
        self._connections: dict[ClientConnection, list[tuple[Bucket, bool]]] = {}
        window, hold = limits.flapping_window_s * SECOND_NS, limits.flapping_hold_s * SECOND_NS
        often = limits.flapping_connects
        self._flapping: FlappingDetector[tuple[str, str]] | None = (
            FlappingDetector(often, window, hold, keys) if often else None
        )
        self._limited = bool(self._rates or self._users)

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Pass a command on, throttle its sender, or refuse it."""
        kind = type(command)
        if self._limited and (kind is Send or kind is SendOnce):
            assert isinstance(command, Send | SendOnce)
            self._send(connection, command)
        elif kind is Attach and self._flapping is not None:
            assert isinstance(command, Attach)
            self._attach(connection, command, self._flapping)
        else:
            self._handle(connection, command)

    def _send(self, connection: ClientConnection, command: Send | SendOnce) -> None:
        now = self._clock.monotonic_ns()
        buckets = self._buckets(connection, command)
        wait_ns = max(bucket.wait_ns(now) for bucket, _ in buckets) if buckets else 0
        delayed = connection.protocol in DELAYED_PROTOCOLS
        if wait_ns and not (delayed and self._wait):
            self._refuse(connection, command, self._code[delayed], wait_ns)
            return
        for bucket, by_bytes in buckets:
            bucket.take(sum(len(message.body) for message in command.messages) if by_bytes else len(command.messages), now)
        if delayed and self._wait and buckets:
            wait_ns = max(bucket.wait_ns(now) for bucket, _ in buckets)
            if wait_ns:
                connection.driver.throttle(now + wait_ns)
        self._handle(connection, command)

    def _buckets(self, connection: ClientConnection, command: Send | SendOnce) -> list[tuple[Bucket, bool]]:
        """The buckets of the connection and of the user. On a datagram port the peer stands for the connection."""
        if connection.shared:
            host = command.messages[0].born_host if command.messages else b""
            payers = [(buckets.of(host), by_bytes) for buckets, by_bytes in self._peers]
        else:
            known = self._connections.get(connection)
            if known is None:
                known = self._connections[connection] = [(Bucket(rate), by_bytes) for rate, by_bytes in self._rates]
                connection.on_close.append(lambda: self._forget(connection))
            payers = known
        principal = getattr(command, "principal", None) or connection.principal
        if not self._users or principal is None:
            return payers
        return [*payers, *((buckets.of(principal.user), by_bytes) for buckets, by_bytes in self._users)]

    def _forget(self, connection: ClientConnection) -> None:
        del self._connections[connection]

    def _attach(self, connection: ClientConnection, command: Attach, flapping: FlappingDetector[tuple[str, str]]) -> None:
        """Check an MQTT client for flapping. The key has the user, so that no other user can get a client id refused."""
        principal = getattr(command, "principal", None)
        key = (principal.user if principal is not None else "", command.client_id)
        wait_ns = flapping.connect(key, self._clock.monotonic_ns())
        if wait_ns:
            self.held_off += 1
            if flapping.began:
                cause, remedy = "it connected too often", "if it may, raise limits.flapping_connects"
                text = "client %r of user %r is refused for %d s: %s: %s"
                facts = {"event": "held-off", "cause": cause, "remedy": remedy}
                log.warning(text, command.client_id, key[0], wait_ns // SECOND_NS, cause, remedy, extra=facts)
            self._refuse(connection, command, ErrorCode.RATE, wait_ns)
        else:
            self._handle(connection, command)

    def _refuse(self, connection: ClientConnection, command: Send | SendOnce | Attach, code: ErrorCode, wait_ns: int) -> None:
        what = "connects again too often" if isinstance(command, Attach) else "sends more than it may"
        text = f"the client {what}: come back in {max(1, wait_ns // MILLISECOND_NS)} ms"
        if command.ticket is not None and getattr(command, "wait", True):
            connection.refuse(command.ticket, Failure(code, text))
