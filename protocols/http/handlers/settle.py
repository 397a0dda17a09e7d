"""`:ack`, `:nack` and `:extend`: settlement of leased messages, with one result for each receipt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, final

import orjson

from domain import limits
from domain.command import Acknowledge, Command, Extend
from domain.errors import ErrorCode, Failure
from domain.event import Event, Extended, Settled
from domain.message import receipt as receipts
from domain.message.receipt import Receipt
from protocols.http.argument import group, parameters, topic
from protocols.http.handler import Handler, Match, Outcome
from protocols.http.problem import refuse
from protocols.http.request import Request
from protocols.http.response import JSON, Response

RECEIPTS_MAX: Final = 1_024
BODY_BYTES_MAX: Final = 256 * 1024
"""The content is decoded in one turn: 1 MiB of nested arrays took up to 100 ms."""

_NOT_A_RECEIPT: Final = Failure(ErrorCode.RECEIPT_INVALID, "this is no receipt")


class SettleReceipts(Handler):
    """`{"receipts": [...]}` in, `{"results": [...]}` out: one element for each receipt, in order.

    A result has `receipt` and `ok`; `code` and `detail` when it is not ok; after `:extend` also `next`, the new receipt.
    The status is 200 whatever the results are; a malformed receipt fails only its own element.

    duration   name of the member with a duration in milliseconds; "": there is none
    required   True: the duration must be present and at least 1
    """

    __slots__ = ("_texts", "_valid")
    body_max = BODY_BYTES_MAX
    duration: str = ""
    required: bool = False

    def __init__(self, match: Match) -> None:
        super().__init__(match)
        self._texts: list[str] = []
        self._valid: list[bool] = []

    def start(self, request: Request, ticket: object) -> Outcome:
        """Decode the receipts and the duration -> one command."""
        parameters(self._match)
        try:
            found = orjson.loads(request.body)
        except orjson.JSONDecodeError:
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, 'the content is JSON: {"receipts": ["..."]}') from None
        texts = found.get("receipts") if isinstance(found, dict) else None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            texts = []
        if not 0 < len(texts) <= RECEIPTS_MAX:
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"receipts is an array of 1 to {RECEIPTS_MAX} strings", member="receipts")
        for name in found:
            if name not in ("receipts", self.duration):
                raise refuse(ErrorCode.ARGUMENT_ILLEGAL, f"member {name} is unknown", member=name)
        duration_ms = self._duration(found)
        parsed = [receipts.parse(text) for text in texts]
        self._texts = texts
        self._valid = [one is not None for one in parsed]
        good = [one for one in parsed if one is not None]
        if not good:
            return None, self._response([])
        return self._command(ticket, good, duration_ms), None

    def _duration(self, found: dict[str, object]) -> int:
        value = found.get(self.duration)
        if value is None and not self.required:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not int(self.required) <= value <= limits.INVISIBLE_MS_MAX:
            least = int(self.required)
            detail = f"{self.duration} is a whole number from {least} to {limits.INVISIBLE_MS_MAX}"
            raise refuse(ErrorCode.ARGUMENT_ILLEGAL, detail, member=self.duration)
        return value

    def _command(self, ticket: object, good: list[Receipt], duration_ms: int) -> Command:
        return Extend(ticket, group(self._match), topic(self._match), good, duration_ms)

    def finish(self, event: Event) -> Response:
        """Settled, Extended or Refused."""
        if isinstance(event, Settled | Extended):
            return self._response(event.outcomes)
        return super().finish(event)

    def _response(self, outcomes: Sequence[Receipt | Failure | None]) -> Response:
        return Response(200, [JSON], settlement_results(self._texts, self._valid, outcomes, self.required))


def settlement_results(
    texts: Sequence[str], valid: Sequence[bool], outcomes: Sequence[Receipt | Failure | None], extends: bool
) -> bytes:
    """`{"results": [...]}`: one element for each receipt in `texts`, as in SettleReceipts.

    valid      False: the receipt is malformed, and `outcomes` has no element for it
    extends    True: an outcome that is a Receipt is given as `next`
    """
    pending = iter(outcomes)
    results: list[dict[str, object]] = []
    for text, is_valid in zip(texts, valid, strict=True):
        outcome = next(pending) if is_valid else _NOT_A_RECEIPT
        if isinstance(outcome, Failure):
            detail = outcome.text or outcome.code.value.replace("-", " ")
            results.append({"receipt": text, "ok": False, "code": outcome.code.value, "detail": detail})
        elif isinstance(outcome, Receipt) and extends:
            results.append({"receipt": text, "ok": True, "next": outcome.text()})
        else:
            results.append({"receipt": text, "ok": True})
    return orjson.dumps({"results": results})


@final
class AckReceipts(SettleReceipts):
    """`POST /v1/groups/{group}/topics/{topic}:ack`."""

    description: ClassVar[str] = "`:ack`: the message is acknowledged, and never redelivered to this group."
    __slots__ = ()

    def _command(self, ticket: object, good: list[Receipt], duration_ms: int) -> Command:
        return Acknowledge(ticket, group(self._match), topic(self._match), good)


@final
class NackReceipts(SettleReceipts):
    """`POST /v1/groups/{group}/topics/{topic}:nack`."""

    description: ClassVar[str] = "`:nack`: the message is released; redelivered at once, or after `delay_ms`."
    __slots__ = ()
    duration = "delay_ms"


@final
class ExtendReceipts(SettleReceipts):
    """`POST /v1/groups/{group}/topics/{topic}:extend`."""

    description: ClassVar[str] = "`:extend`: the lease ends `invisible_ms` from now."
    __slots__ = ()
    duration = "invisible_ms"
    required = True
