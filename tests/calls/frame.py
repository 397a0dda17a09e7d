"""The body of a frame between nodes: the calls, or the answers, of one turn of the event loop. Numbers are big-endian.

calls      version 1 byte, `settled` 8, count 4; for each: number 8, operation 2, length of the request 4, request
answers    version 1 byte, count 4; for each: number 8, failed 1, then the length of the value 4 and the value, or a Failure
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, final

from domain.errors import ErrorCode, Failure
from domain.limits import REMOTING_FRAME_BYTES_MAX
from protocols.remoting.calls.octets import Out, Reader, WireError, put_data
from protocols.remoting.calls.values import FAILURE

VERSION: Final = 1
"""Version of the bodies that this node writes. It also reads the version before."""
_CALLS: Final = struct.Struct(">BqI")
_CALL: Final = struct.Struct(">qH")
_ANSWERS: Final = struct.Struct(">BI")
_ANSWER: Final = struct.Struct(">qB")
CALLS_MAX: Final = 65_536
"""Most calls, or answers, of one body."""
BODY_BYTES: Final = 1024 * 1024
"""Bytes of calls, or answers, after which a body is closed: one frame is carried out in one turn."""
CALL_BYTES_MAX: Final = REMOTING_FRAME_BYTES_MAX - BODY_BYTES - 64 * 1024
"""Bytes of one request or one answer, so that the frame with it is one of the remoting protocol."""


@final
class CallBytes(NamedTuple):
    """One call.

    number      counts the calls of one caller to one life of the store, from 1
    operation   `Operation.number`
    request     its arguments, as `Operation.put_request` writes them
    """

    number: int
    operation: int
    request: bytes


@final
class AnswerBytes(NamedTuple):
    """One answer.

    number    of the call
    answer    a value, as `Operation.put_answer` writes it, or why there is none
    """

    number: int
    answer: bytes | Failure


def too_large(what: str, size: int) -> Failure | None:
    """MESSAGE_TOO_LARGE for a request or an answer of `size` bytes that fits into no frame."""
    if size <= CALL_BYTES_MAX:
        return None
    return Failure(
        ErrorCode.MESSAGE_TOO_LARGE, f"{what} has {size} bytes, at most {CALL_BYTES_MAX} go between nodes: ask for less"
    )


def put_calls(settled: int, calls: list[CallBytes]) -> bytes:
    """A body with calls. `settled`: the caller needs no answer of a call with a lower number."""
    out: Out = [_CALLS.pack(VERSION, settled, len(calls))]
    for call in calls:
        out.append(_CALL.pack(call.number, call.operation))
        put_data(out, call.request)
    return b"".join(out)


def get_calls(body: bytes) -> tuple[int, list[CallBytes]]:
    """(`settled`, calls) of a body. Raises WireError: it is no such body, of an unknown version, or too long."""
    reader = Reader(body)
    version, settled, count = reader.unpack(_CALLS)
    _check(version, count)
    calls = [CallBytes(*reader.unpack(_CALL), reader.data()) for _ in range(count)]  # type: ignore[call-arg]
    if reader.left:
        raise WireError(f"{reader.left} bytes follow the last call")
    return settled, calls


def put_answers(answers: list[AnswerBytes]) -> bytes:
    """A body with answers."""
    out: Out = [_ANSWERS.pack(VERSION, len(answers))]
    for number, answer in answers:
        out.append(_ANSWER.pack(number, isinstance(answer, Failure)))
        if isinstance(answer, Failure):
            FAILURE.put(out, answer)
        else:
            put_data(out, answer)
    return b"".join(out)


def get_answers(body: bytes) -> list[AnswerBytes]:
    """The answers of a body. Raises WireError as `get_calls` does."""
    reader = Reader(body)
    version, count = reader.unpack(_ANSWERS)
    _check(version, count)
    answers: list[AnswerBytes] = []
    for _ in range(count):
        number, failed = reader.unpack(_ANSWER)
        answers.append(AnswerBytes(number, FAILURE.get(reader) if failed else reader.data()))
    if reader.left:
        raise WireError(f"{reader.left} bytes follow the last answer")
    return answers


def _check(version: int, count: int) -> None:
    if version not in (VERSION, VERSION - 1):
        raise WireError(f"version {version} of calls is not known here, {VERSION} is")
    if count > CALLS_MAX:
        raise WireError(f"a body has {count} calls, {CALLS_MAX} are allowed")
