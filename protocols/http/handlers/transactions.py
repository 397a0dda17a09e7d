"""Transactions and recall: `…/messages:prepare`, `…/transactions/{id}:commit` and `:rollback`, `:recall`."""

from __future__ import annotations

from typing import ClassVar, Final, final

import orjson

from domain.command import Send
from domain.errors import ErrorCode
from domain.event import Event, Sent
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, SYS_PREPARED
from domain.transaction import COMMIT, ROLLBACK, EndTransaction, Recalled, RecallMessage
from protocols.http.argument import parameters, topic
from protocols.http.handler import Handler, Outcome
from protocols.http.handlers.content import members, text
from protocols.http.handlers.send import PostMessage
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response

BODY_BYTES_MAX: Final = 16 * 1024


@final
class PrepareMessage(PostMessage):
    """`POST /v1/topics/{path…}/messages:prepare`."""

    description: ClassVar[str] = (
        "As a message is sent, but nobody sees it before its transaction is committed: 201 with `transaction`. The producer "
        "group is the topic, as with the gRPC SDKs: a producer of theirs is asked when nobody decides in time."
    )
    __slots__ = ()

    def start(self, request: Request, ticket: object) -> Outcome:
        """One Send of a half message."""
        command, _ = super().start(request, ticket)
        assert isinstance(command, Send)
        message = command.messages[0]
        if message.retain != RETAIN_NONE or self._due_ms:
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, "a message of a transaction is not delayed, and is no latest value")
        message.sys_flag |= SYS_PREPARED
        message.properties += properties.encode([(properties.TRAN_MSG, "true"), (properties.PGROUP, message.topic)])
        return command, None

    def finish(self, event: Event) -> Response:
        """Sent or Refused."""
        if not isinstance(event, Sent):
            return super().finish(event)
        identity = event.placed[0].message_id
        where = f"/v1/topics/{self._match.topic}/transactions/{identity}".encode()
        out = {"topic": self._match.topic, "transaction": identity}
        return Response(201, [JSON, (b"location", where)], orjson.dumps(out))


class EndHandler(Handler):
    """204 when it is decided, durably; again when it was decided so before.

    outcome   COMMIT or ROLLBACK
    """

    __slots__ = ()
    outcome: str = COMMIT

    def start(self, request: Request, ticket: object) -> Outcome:
        """EndTransaction."""
        parameters(self._match)
        return EndTransaction(ticket, topic(self._match), self._match.names["transaction"], self.outcome), None


@final
class CommitTransaction(EndHandler):
    """`POST /v1/topics/{topic}/transactions/{transaction}:commit`."""

    description: ClassVar[str] = "`:commit`: consumers get the message."
    __slots__ = ()


@final
class RollBackTransaction(EndHandler):
    """`POST /v1/topics/{topic}/transactions/{transaction}:rollback`."""

    description: ClassVar[str] = "`:rollback`: nobody gets the message."
    __slots__ = ()
    outcome = ROLLBACK


@final
class RecallDelayed(Handler):
    """`POST /v1/topics/{topic}:recall`."""

    description: ClassVar[str] = (
        '`:recall`: a delayed message is not delivered. Content: `{"recall": "…"}`, as the answer to its sender has it.'
    )
    __slots__ = ()
    body_max = BODY_BYTES_MAX

    def start(self, request: Request, ticket: object) -> Outcome:
        """RecallMessage."""
        parameters(self._match)
        found = members(request, ("recall",), '{"recall": "…"}')
        return RecallMessage(ticket, topic(self._match), text(found, "recall")), None

    def finish(self, event: Event) -> Response:
        """Recalled or Refused."""
        if not isinstance(event, Recalled):
            return super().finish(event)
        return Response(200, [JSON], orjson.dumps({"id": event.message_id}))
