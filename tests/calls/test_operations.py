"""Every operation's arguments and answers come back as they were, and no bytes of another node do more than a WireError."""

from __future__ import annotations

import contextlib
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ErrorCode, Failure
from domain.event import Leased
from domain.filter import sql, tag
from domain.filter.filter import Filter
from domain.message import Message, Placed
from domain.message_store import MessageStore
from domain.once import OnceKey
from domain.receipt import Receipt
from domain.store_ports import Expected, LeaseResult, ReadResult, SpaceLimit, StateChange, StatePairs
from domain.store_request import KeyQuery, LeaseRequest, PullRequest, ReadRequest
from domain.topic import Durability, Group, Topic
from protocols.remoting.calls.octets import Codec, WireError
from tests.calls import operations as of
from tests.calls.operations import OPERATIONS, Operation


def sql_filter(text: str) -> Filter:
    """A SQL92 filter."""
    found = sql.parse(text)
    assert not isinstance(found, Failure)
    return found


RECEIPT = Receipt(1, 1_700_000_000_000, 60_000, 999, 2, "broker-a", 3, 1 << 40, -1)
READ = ReadRequest("t", 3, 1 << 40, 32, 1 << 20, tag.parse("a||b"))
MESSAGE = Message(
    "tópico", b"\x00body", b"k\x01v\x02", queue_id=5, message_id="id", sys_flag=4, flag=-7, born_ms=9, born_host=b"\x01" * 20,
    reconsume_times=2, prepared_offset=1 << 41, retain=1,
)  # fmt: skip
CHANGES = [StateChange("latest", b"k", b"v", within=SpaceLimit(1, 2)), StateChange("session", b"\x00", None)]
OFFSETS = [("t", 0, 1 << 40), ("%RETRY%g", 1, 0)]

SAMPLES: dict[Operation[Any], tuple[tuple[Any, ...], Any]] = {
    of.APPEND: ((OnceKey("node", b"\x00\x01", b"d"), [MESSAGE, Message("t", b"")], CHANGES), [Placed(1, 2, 3, 4, "i", "h")]),
    of.READ: ((READ,), ReadResult("FOUND", [b"record", b""], 5, 0, 9, 7)),
    of.RECORD_AT: ((1 << 50,), b"record"),
    of.FIND: ((KeyQuery("t", "k", 0, 1 << 41, 32, 1 << 20, True),), [b"a", b"b"]),
    of.BOUNDS: (("t", 3), (5, 9)),
    of.IS_HOT: (("t", 3), True),
    of.SEARCH: (("t", 3, 1 << 41, True), 7),
    of.LEASE: (
        (LeaseRequest("g", "t", 32, 60_000, queue_id=-1, wanted=sql_filter("a > 1"), ordered=True, attempt_id="x"),),
        LeaseResult([Leased(b"record", RECEIPT, 2)], 1, 2, True),
    ),
    of.SETTLE: (("g", "t", [RECEIPT]), [None, Failure(ErrorCode.RECEIPT_EXPIRED, "gone")]),
    of.EXTEND: (("g", "t", [RECEIPT], 1 << 33), [RECEIPT, Failure(ErrorCode.RECEIPT_INVALID)]),
    of.OFFSET: (("g", "t", 0), 1 << 40),
    of.COMMIT: (("g", OFFSETS), None),
    of.RESET: (("g", OFFSETS), None),
    of.DROP_GROUP: (("g",), None),
    of.PULL: ((PullRequest("g", "m", "", READ),), ReadResult("EMPTY", [], 5, 0, 5)),
    of.REPORT: (("g", OFFSETS), None),
    of.PUT_TOPIC: ((Topic("t", 4, 4, durability=Durability.PAGE, attributes={"a": "b"}, created_ms=5),), None),
    of.DELETE_TOPIC: (("t",), None),
    of.PUT_GROUP: ((Group("g", orderly=True, attributes={"a": "b"}),), None),
    of.STATE_GET: (("latest", b"\x00k"), None),
    of.STATE_PAIRS: (("latest", b"", b"a", 10), StatePairs([(b"k", b"v")], b"k\x00")),
    of.STATE_KEYS: (("latest", b"", b"a", 10), [b"a", b"b"]),
    of.STATE_SIZE: (("latest",), (1, 2)),
    of.STATE_PUT: ((CHANGES, [Expected("session", b"k", None), Expected("session", b"l", b"v")]), None),
    of.END_TRANSACTION: (("g", "id", 5, -1, True), None),
    of.TRANSACTION_TOPIC: (("g", "id", -1), "t"),
    of.RECALL: (("t", 1 << 41, "id"), None),
    of.APPEND_PLAIN: (([MESSAGE], CHANGES), [Placed(1, 2, 3, 4, "i", "h")]),
    of.WITHDRAW: (("g", "t", [RECEIPT], True), None),
    of.RENEW: (("g", "m", True), None),
    of.RELEASE: (("g", "m", ["t", "u"]), None),
    of.PRESENT: (("g",), None),
}


PLAIN = (str, bytes, int, Failure, Topic, Group, OnceKey, type(None))


def plain(value: Any) -> Any:
    """A value that compares by its parts; filters by their expression."""
    if isinstance(value, list | tuple) and not isinstance(value, OnceKey):
        return [plain(each) for each in value]
    if hasattr(value, "expression"):
        return value.expression
    if isinstance(value, PLAIN):
        return value
    names = [name for name in dir(value) if not name.startswith("_") and not callable(getattr(value, name))]
    return [type(value).__name__, *((name, plain(getattr(value, name))) for name in names)]


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_arguments_and_answers_come_back_as_they_were(operation: Operation[Any]) -> None:
    arguments, answer = SAMPLES[operation]
    assert plain(operation.get_request(operation.put_request(*arguments))) == plain(list(arguments))
    assert plain(operation.get_answer(operation.put_answer(answer))) == plain(answer)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_an_operation_is_a_method_of_a_port(operation: Operation[Any]) -> None:
    port, _, method = operation.name.partition(".")
    assert hasattr(typing.get_type_hints(MessageStore)[port], method)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_half_of_a_request_is_none(operation: Operation[Any]) -> None:
    data = operation.put_request(*SAMPLES[operation][0])
    for end in range(len(data)):
        with pytest.raises(WireError):
            operation.get_request(data[:end])


@given(st.sampled_from(list(OPERATIONS.values())), st.binary(max_size=60))
def test_nonsense_is_a_wire_error_or_a_value(operation: Operation[Any], data: bytes) -> None:
    for take in (operation.get_request, operation.get_answer):
        with contextlib.suppress(WireError):
            take(data)


def test_numbers_are_taken_once() -> None:
    assert len({operation.name for operation in OPERATIONS.values()}) == len(OPERATIONS) == len(SAMPLES)
    assert all(isinstance(codec, Codec) for operation in OPERATIONS.values() for codec in operation.request)
