"""Rate limits of connected clients: a handler before the access gate, which checks once for each batch of messages.

A command costs what it makes the log grow by: messages count by their bodies, every other command by the bytes that it has
written. The throttle exists only if the settings limit rates.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, final

from domain.access.principal import GATEWAY, Principal
from domain.address import host_text, network_of_host
from domain.client.mqtt_session import Attach, SendOnce, Subscribe, Subscribed
from domain.command import Command, Send, SendRetry
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.limits import HANDSHAKE_NS, MILLISECOND_NS, SECOND_NS
from domain.message.message import RETAIN_NONE, SYS_PREPARED
from domain.ports import Clock
from gateway.connection.client_connection import ClientConnection
from gateway.connection.handler import Handler
from gateway.guard.bucket import Bucket, Buckets, RateLimit
from gateway.guard.flapping import FlappingDetector
from gateway.guard.settings import CLOSE, WAIT, LimitsSettings
from gateway.guard.writes import OWN, SETTLED_BYTES, Writes, settled

DELAYED_PROTOCOLS: Final = frozenset({"mqtt", "websocket"})
"""Labels of the protocols whose clients can be slowed down by not reading from them. Clients of others get a refusal."""
LONG_DEBT_NS: Final = HANDSHAKE_NS
"""A debt that takes longer is refused also where a delay is usual: who connects again for each command gets round a delay."""

log = logging.getLogger("headgate.guard")


class Log(NamedTuple):
    """The log and the commands that write to it, as the throttle sees them.

    written   returns the bytes that were accepted for the log, a number that only grows
    writes    the commands that write
    """

    written: Callable[[], int] = int
    writes: Writes = OWN


NO_LOG: Final = Log()


@final
class Throttle:
    """Limits messages and bytes of each connection, address and user, and refuses flapping MQTT clients.

    Counts since the start:
    held_off   CONNECTs of flapping clients that were refused
    refused    commands that were refused because of a rate
    delayed    times that a client was not read because of a rate
    written    bytes that were charged
    """

    def __init__(self, limits: LimitsSettings, handler: Handler, clock: Clock, of_log: Log = NO_LOG) -> None:
        self.held_off = self.refused = self.delayed = self.written = 0
        self._handle = handler.handle
        self._clock = clock
        self._log_bytes = of_log.written
        self._writes = of_log.writes
        self.apply(limits)

    def apply(self, limits: LimitsSettings) -> None:
        """Apply new limits, also to connected clients. All buckets start full."""
        self._wait = limits.mqtt_excess == WAIT
        self._code = {True: ErrorCode.RATE if limits.mqtt_excess == CLOSE else ErrorCode.QUOTA, False: ErrorCode.RATE}
        burst, keys = limits.burst_s, limits.keys_max

        def rates(messages_per_s: int, bytes_per_s: int) -> list[tuple[RateLimit, bool]]:
            return [(RateLimit(each, burst), by) for each, by in ((messages_per_s, False), (bytes_per_s, True)) if each]

        def buckets(of: list[tuple[RateLimit, bool]]) -> list[tuple[Buckets[str | bytes], bool]]:
            return [(Buckets(rate, keys), by_bytes) for rate, by_bytes in of]

        self._rates = rates(limits.messages_per_s, limits.bytes_per_s)
        self._peers = buckets(self._rates)
        self._addresses = buckets(rates(limits.address_messages_per_s, limits.address_bytes_per_s))
        self._users = buckets(rates(limits.user_messages_per_s, limits.user_bytes_per_s))
        self._connections: dict[ClientConnection, list[tuple[Bucket, bool]]] = {}
        window, hold = limits.flapping_window_s * SECOND_NS, limits.flapping_hold_s * SECOND_NS
        often = limits.flapping_connects
        self._flapping: FlappingDetector[tuple[str, str]] | None = (
            FlappingDetector(often, window, hold, keys) if often else None
        )
        self._limited = bool(self._rates or self._addresses or self._users)

    def figures(self) -> dict[str, float]:
        """Counters by their names on the metrics page."""
        return {
            "held_off_total": self.held_off,
            "rate_refused_total": self.refused,
            "rate_delayed_total": self.delayed,
            "rate_charged_bytes_total": self.written,
        }

    def handle(self, connection: ClientConnection, command: Command) -> None:
        """Pass a command on, throttle its sender, or refuse it."""
        kind = type(command)
        if kind is Attach and self._flapping is not None:
            assert isinstance(command, Attach)
            if self._flaps(connection, command, self._flapping):
                return
        if not self._limited or connection.principal is GATEWAY or kind in self._writes.carrying:
            self._handle(connection, command)
        elif kind is Send or kind is SendOnce or kind is SendRetry:
            assert isinstance(command, Send | SendOnce)
            self._send(connection, command)
        else:
            self._other(connection, command)

    def _send(self, connection: ClientConnection, command: Send | SendOnce) -> None:
        now = self._clock.monotonic_ns()
        sender = command.messages[0].born_host if connection.shared and command.messages else b""
        buckets = self._buckets(connection, command, sender)
        delayed = connection.protocol in DELAYED_PROTOCOLS
        wait_ns = _longest(buckets, now)
        if wait_ns and not (delayed and self._wait):
            self._refuse(connection, command, self._code[delayed], wait_ns)
            return
        # The store writes a half message once more when it is committed.
        size = sum([len(each.body) << (each.sys_flag & SYS_PREPARED != 0) for each in command.messages])
        wait_ns = self._charge(buckets, len(command.messages), size, now)
        if delayed and self._wait and wait_ns:
            self._delay(connection, now + wait_ns)
        self._handle(connection, command)

    def _other(self, connection: ClientConnection, command: Command) -> None:
        """Carry out a command that is no message, and charge what it has written."""
        now = self._clock.monotonic_ns()
        kind, writes = type(command), self._writes
        buckets = self._buckets(connection, command, connection.sender)
        delayed = self._wait and connection.protocol in DELAYED_PROTOCOLS
        if kind in writes.setting or kind in writes.refusable:
            wait_ns = _longest(buckets, now)
            patience_ns = LONG_DEBT_NS if delayed or kind in writes.refusable else 0
            if wait_ns > patience_ns:
                code = ErrorCode.RATE if kind is Attach else self._code[connection.protocol in DELAYED_PROTOCOLS]
                self._refuse(connection, command, code, wait_ns)
                return
        if kind in writes.later and not connection.shared:  # of a datagram port, another peer would pay
            connection.count_writes(partial(self._wrote, buckets))
        before = self._log_bytes()
        self._handle(connection, command)
        size = 0 if kind in writes.paid else max(self._log_bytes() - before, 0)
        settles = kind in writes.settling
        if settles:
            size += SETTLED_BYTES * settled(command)
        elif isinstance(command, Attach) and command.will is not None:  # it is written once more when it is published
            size += len(command.will.message.body) << (command.will.message.retain != RETAIN_NONE)
        counted = kind in writes.setting or kind in writes.leaving or (size > 0 and not settles)
        if counted or size:
            wait_ns = self._charge(buckets, int(counted), size, now)
            if wait_ns and (delayed or kind not in writes.setting):
                self._delay(connection, now + wait_ns)

    def _charge(self, buckets: list[tuple[Bucket, bool]], messages: int, size: int, now: int) -> int:
        """Take messages and bytes from the buckets. Returns the time until something may be taken again."""
        self.written += size
        for bucket, by_bytes in buckets:
            bucket.take(size if by_bytes else messages, now)
        return _longest(buckets, now)

    def _wrote(self, buckets: list[tuple[Bucket, bool]], size: int) -> None:
        """Charge what a command has written in a later turn: the next command of its sender pays."""
        self._charge(buckets, 0, size, self._clock.monotonic_ns())

    def _delay(self, connection: ClientConnection, until_ns: int) -> None:
        self.delayed += 1
        connection.driver.throttle(until_ns)

    def _buckets(self, connection: ClientConnection, command: Command, sender: bytes) -> list[tuple[Bucket, bool]]:
        """The buckets of the connection, of the address and of the user. On a datagram port the peer stands for the connection.

        `sender`: the peer of a datagram port; b"": not known, or the connection has one only.
        """
        if not connection.shared:
            known = self._connections.get(connection)
            if known is None:
                known = [(Bucket(rate), by_bytes) for rate, by_bytes in self._rates]
                if known and not connection.closed:
                    self._connections[connection] = known
                    connection.on_close.append(lambda: self._forget(connection))
            found = list(known)
        elif sender:
            found = [(buckets.of(sender), by_bytes) for buckets, by_bytes in self._peers]
        else:
            found = []
        principal: Principal | None = getattr(command, "principal", None) or connection.principal
        if self._addresses:
            host = connection.host
            if not host and sender:
                host = network_of_host(host_text(sender).rpartition(":")[0].strip("[]"))
            if host:
                found += [(buckets.of(host), by_bytes) for buckets, by_bytes in self._addresses]
        if principal is not None and principal is not GATEWAY:
            found += [(buckets.of(principal.user), by_bytes) for buckets, by_bytes in self._users]
        return found

    def _forget(self, connection: ClientConnection) -> None:
        del self._connections[connection]

    def _flaps(self, connection: ClientConnection, command: Attach, flapping: FlappingDetector[tuple[str, str]]) -> bool:
        """Refuse an MQTT client that flaps. The key has the user, so that no other user can get a client id refused."""
        principal = getattr(command, "principal", None)
        key = (principal.user if principal is not None else "", command.client_id)
        wait_ns = flapping.connect(key, self._clock.monotonic_ns())
        if not wait_ns:
            return False
        self.held_off += 1
        if flapping.began:
            cause, remedy = "it connected too often", "if it may, raise limits.flapping_connects"
            text = "client %r of user %r is refused for %d s: %s: %s"
            facts = {"event": "held-off", "cause": cause, "remedy": remedy}
            log.warning(text, command.client_id, key[0], wait_ns // SECOND_NS, cause, remedy, extra=facts)
        _answer(connection, command, Failure(ErrorCode.RATE, f"the client connects again too often: {_later(wait_ns)}"))
        return True

    def _refuse(self, connection: ClientConnection, command: Command, code: ErrorCode, wait_ns: int) -> None:
        self.refused += 1
        what = "sends more than it may" if isinstance(command, Send | SendOnce) else "has more written than it may"
        _answer(connection, command, Failure(code, f"the client {what}: {_later(wait_ns)}"))


def _longest(buckets: list[tuple[Bucket, bool]], now: int) -> int:
    """Nanoseconds until something may be taken from each of the buckets."""
    return max([bucket.wait_ns(now) for bucket, _ in buckets], default=0)


def _later(wait_ns: int) -> str:
    return f"come back in {max(1, wait_ns // MILLISECOND_NS)} ms"


def _answer(connection: ClientConnection, command: Command, failure: Failure) -> None:
    """Answer a command that is refused, if it expects an answer."""
    ticket = getattr(command, "ticket", None)
    if ticket is None or not getattr(command, "wait", True):
        return
    if isinstance(command, Send | SendOnce):
        connection.refuse(ticket, failure)
    elif isinstance(command, Subscribe):
        connection.answer(Subscribed(ticket, [failure] * len(command.subscriptions)))
    else:
        connection.answer(Refused(ticket, failure))
