"""Refusals as problem documents (RFC 9457) with a stable `code`."""

from __future__ import annotations

from typing import Final

import orjson

from domain.errors import ErrorCode, Failure
from protocols.cloudevents.event import CloudEventError
from protocols.cloudevents.http import KNOWN
from protocols.http.response import Fields, Response
from protocols.http.status import PHRASE, RETRY_AFTER_S, STATUS

CHALLENGES: Final = [(b"www-authenticate", b'Basic realm="headgate", charset="UTF-8"'), (b"www-authenticate", b"Bearer")]
PROBLEM: Final = (b"content-type", b"application/problem+json")


class RefusalError(Exception):
    """A request is refused with `response`. Raised and caught inside this package."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def problem(status: int, code: str, detail: str, fields: Fields | None = None, **facts: object) -> Response:
    """A problem document. `code` is stable; `detail` is a sentence for people; `facts` are further members."""
    document: dict[str, object] = {
        "type": f"urn:headgate:problem:{code}",
        "title": PHRASE[status],
        "status": status,
        "code": code,
        "detail": detail,
        **facts,
    }
    out = [PROBLEM]
    if fields:
        out.extend(fields)
    if status == 401:
        out += CHALLENGES
    after = RETRY_AFTER_S.get(status)
    if after is not None:
        out.append((b"retry-after", b"%d" % after))
    response = Response(status, out, orjson.dumps(document))
    response.refusal = code
    return response


def of_failure(failure: Failure) -> Response:
    """The problem document of a domain failure, which the gateway has counted."""
    code = failure.code
    response = problem(STATUS[code], code.value, failure.text or code.value.replace("-", " "))
    response.refusal = ""
    return response


def head_too_large(what: str, bytes_max: int) -> Response:
    """431 for the head of a request, or its trailer."""
    return problem(431, "head-too-large", f"{what} is above {bytes_max} bytes")


def target_too_long(bytes_max: int) -> Response:
    """414."""
    return problem(414, "target-too-long", f"the request target is above {bytes_max} bytes")


def content_too_large(bytes_max: int) -> Response:
    """413 for content that a request may have, and that is too long."""
    return problem(413, ErrorCode.MESSAGE_TOO_LARGE.value, f"the content is above {bytes_max} bytes", limit=bytes_max)


def no_proxy() -> Response:
    """405 for CONNECT."""
    return problem(405, "method-not-allowed", "this is no proxy", [(b"allow", b"")])


def too_slow() -> Response:
    """408."""
    return problem(408, "request-timeout", "the request did not arrive in time")


def draining() -> Response:
    """503 for a request that is incomplete when the node stops."""
    return problem(503, ErrorCode.DRAINING.value, "the node stops: send the request again, to another node")


def unsent_answers(size: int) -> Response:
    """429 in place of a large response to a client that has not read `size` bytes of earlier responses."""
    return problem(429, ErrorCode.RATE.value, f"{size} bytes of answers wait for this client to read them: ask again")


def of_event_error(error: CloudEventError) -> Response:
    """The problem document of an invalid CloudEvent, with the name of the invalid attribute."""
    if error.unsupported:
        fields = [(b"accept", KNOWN.encode())]
        return problem(415, ErrorCode.MEDIA_TYPE.value, error.text, fields)
    status, code = event_error(error)
    if error.attribute:
        return problem(status, code.value, error.text, attribute=error.attribute)
    return problem(status, code.value, error.text)


def event_error(error: CloudEventError) -> tuple[int, ErrorCode]:
    """Status and code of one invalid event."""
    if error.too_large:
        return 413, ErrorCode.MESSAGE_TOO_LARGE
    if error.unrouted:
        return 404, ErrorCode.TOPIC_NOT_FOUND
    return 400, ErrorCode.MESSAGE_ILLEGAL


def refuse(code: ErrorCode, detail: str, **facts: object) -> RefusalError:
    """A refusal with the status of `code`."""
    return RefusalError(problem(STATUS[code], code.value, detail, None, **facts))
