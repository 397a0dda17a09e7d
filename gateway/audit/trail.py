"""The lines of the audit log: logins and refusals, the first of a kind at once and others as counts, and changes, each one.

Lines go to a file of their own (`gateway.audit.audit_file`); where there is none, nothing is made. Decision 132.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, final

import orjson

from domain.access.principal import Principal
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused
from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.audit.actions import ACTIONS, shown
from gateway.audit.audit_sink import SINK
from gateway.connection.client_connection import ClientConnection

KINDS_MAX: Final = 4_096
"""Kinds of logins and refusals that are counted at a time. Further ones count together, without names: a client chooses
names, and must not fill the log with them."""
CROWDED: Final = f"more than {KINDS_MAX} kinds at a time: further ones are counted together"
STEP: Final = 256
"""Counts that are written in one turn."""
TEXT_CHARS_MAX: Final = 256
OK: Final = "ok"
Verb = Callable[[ClientConnection, Any], None]
Kind = tuple[str, ...]
"""What recurs: the values of those fields of its lines that do not differ, the event first."""
FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "login": ("event", "user", "from", "outcome"),
    "refusal": ("event", "user", "from", "outcome", "protocol", "action"),
}


@final
class AuditTrail:
    """The lines of one side of clients.

    _counts   kind of login or refusal -> how often it has recurred since its last line; the oldest first
    """

    def __init__(self, clock: Clock, interval_s: int) -> None:
        """`interval_s`: seconds between two lines of one kind."""
        self._clock = clock
        self._interval_ns = interval_s * SECOND_NS
        self._counts: dict[Kind, int] = {}
        self._is_due = False

    # Logins and refusals

    def login(self, host: str, user: str, failure: Failure | None) -> None:
        """A login as `user` from `host` has been looked at. None: it has succeeded."""
        if SINK.write is not None:
            kind = "login", user[:TEXT_CHARS_MAX], host, _code(failure)
            self._recurring(kind, {} if failure is None else _detail(failure))

    def refused(self, connection: ClientConnection, principal: Principal, what: str, failure: Failure) -> None:
        """A command has been refused to a user who may not do it."""
        if SINK.write is not None:
            user = principal.user[:TEXT_CHARS_MAX]
            kind = "refusal", user, principal.host, _code(failure), connection.protocol, what
            self._recurring(kind, {"client": connection.client_id[:TEXT_CHARS_MAX], **_detail(failure)})

    def _recurring(self, kind: Kind, more: Mapping[str, object]) -> None:
        """Write a line when the kind is new, else count. `more`: further fields of the line."""
        if kind not in self._counts and len(self._counts) >= KINDS_MAX:
            kind, more = _nameless(kind), {"detail": CROWDED}
        count = self._counts.get(kind)
        if count is not None:
            self._counts[kind] = count + 1
            return
        self._counts[kind] = 0
        self._write({**_fields(kind), **more})
        self._later(self._interval_ns)

    def _later(self, after_ns: int) -> None:
        if not self._is_due:
            self._is_due = True
            self._clock.call_at(self._clock.monotonic_ns() + after_ns, partial(self._write_counts, None))

    def _write_counts(self, left: list[Kind] | None) -> None:
        """Write what has recurred, a part in each turn, and forget what has not."""
        left = list(self._counts) if left is None else left
        part, left = left[:STEP], left[STEP:]
        for kind in part:
            count = self._counts.pop(kind, 0)
            if count:
                self._write_count(kind, count)
                self._counts[kind] = 0
        if left:
            self._clock.call_at(self._clock.monotonic_ns(), partial(self._write_counts, left))
            return
        self._is_due = False
        if self._counts:
            self._later(self._interval_ns)

    def _write_count(self, kind: Kind, count: int) -> None:
        if count:
            self._write({**_fields(kind), "count": count, "seconds": self._interval_ns // SECOND_NS})

    # Changes

    def verb(self, kind: type[Command], verb: Verb) -> Verb:
        """`verb`, which writes a line when a command of `kind` is answered; itself for commands that change nothing."""
        action = ACTIONS.get(kind)
        if action is None:
            return verb
        name, target = action

        def audited(connection: ClientConnection, command: Any) -> None:
            if SINK.write is not None:
                principal = getattr(command, "principal", None) or connection.principal
                who = principal if isinstance(principal, Principal) else None
                line = _change(name, connection, who, shown(target(command)))
                connection.watch_answer(getattr(command, "ticket", None), partial(self._answered, line))
            verb(connection, command)

        return audited

    def _answered(self, line: dict[str, object], event: Event | None) -> None:
        """The command of `line` is answered. None: its connection has ended before."""
        if event is None:
            self._write({**line, "outcome": "unknown", "detail": "the connection ended before the answer"})
        else:
            failure = event.failure if isinstance(event, Refused) else None
            self._write({**line, "outcome": _code(failure), **({} if failure is None else _detail(failure))})

    def operated(self, action: str, user: str, host: str, outcome: str) -> None:
        """An administrator has done something at the admin port, or was refused that: refusals are counted by kind."""
        if SINK.write is None:
            return
        if outcome == ErrorCode.NOT_ALLOWED.value:
            self._recurring(("refusal", user, host, outcome, "admin", action), {})
        else:
            line = {"event": "change", "action": action, "user": user, "from": host, "protocol": "admin", "outcome": outcome}
            self._write(line)

    def _write(self, line: Mapping[str, object]) -> None:
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        if SINK.write is not None:
            SINK.write(_text({"time": now.replace("+00:00", "Z"), **line}))


def _text(line: Mapping[str, object]) -> str:
    try:
        return orjson.dumps(line, default=str).decode()
    except orjson.JSONEncodeError:  # half of a surrogate pair, or an integer of more than 64 bits: a client chooses them
        return json.dumps(line, default=str)


def _nameless(kind: Kind) -> Kind:
    """The kind that counts those of an event and outcome which find no room."""
    return tuple(value if name in ("event", "outcome") else "" for name, value in zip(FIELDS[kind[0]], kind, strict=True))


def _fields(kind: Kind) -> dict[str, object]:
    return dict(zip(FIELDS[kind[0]], kind, strict=True))


def _code(failure: Failure | None) -> str:
    return OK if failure is None else failure.code.value


def _detail(failure: Failure) -> dict[str, object]:
    return {"detail": failure.text[:TEXT_CHARS_MAX]}


def _change(name: str, connection: ClientConnection, who: Principal | None, target: Mapping[str, object]) -> dict[str, object]:
    return {
        "event": "change", "action": name, "user": "" if who is None else who.user,
        "from": connection.host if who is None else who.host or connection.host, "protocol": connection.protocol,
        "client": connection.client_id[:TEXT_CHARS_MAX], "target": dict(target),
    }  # fmt: skip
