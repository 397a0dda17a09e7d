"""The operations of a store that another node may call: one for each method of the ports."""

from __future__ import annotations

import enum
from typing import Any, Final, Generic, TypeVar, final

from protocols.remoting.calls import values
from protocols.remoting.calls.octets import BOOL, DATA, I32, I64, NOTHING, TEXT, Codec, Out, Reader, listed, optional

A = TypeVar("A")

NO_DONE: Final = -1
"""`Operation.done_at` of a method without a callback."""


class Repeat(enum.Enum):
    """What happens when an operation is carried out twice with the same arguments. See `StoreLink.connected`.

    HARMLESS   nothing more than by the first time, so a call is sent again to a store that has started again
    ONCE       more than by the first time, so it is not: what became of a call that was sent and not answered is unknown.
               While a store lives it carries a number out once, however often the call is sent
    KEYED      nothing: the arguments have a key, by which the store knows a message that it has, also when it has started again
    """

    HARMLESS = "harmless"
    ONCE = "once"
    KEYED = "keyed"


@final
class Operation(Generic[A]):
    """A method of a port of the store, and how its arguments and its answer are written.

    number    names it between nodes, 2 bytes
    name      `port.method` of domain.message_store.MessageStore
    repeat    what a second time does
    request   codecs of the arguments, `done` left out
    answer    codec of what `done` gets, unless that is a Failure
    done_at   number of the arguments before `done`; NO_DONE: the method has no `done`, and is answered when it returns
    """

    __slots__ = ("answer", "done_at", "name", "number", "repeat", "request")

    def __init__(
        self,
        number: int,
        name: str,
        repeat: Repeat,
        request: tuple[Codec[Any], ...],
        answer: Codec[A],
        done_at: int | None = None,
    ) -> None:
        """`done_at` None: `done` is the last argument."""
        self.number = number
        self.name = name
        self.repeat = repeat
        self.request = request
        self.answer = answer
        self.done_at = len(request) if done_at is None else done_at

    def put_request(self, *arguments: Any) -> bytes:
        """The arguments as bytes. Raises ValueError when there are too few or too many."""
        out: Out = []
        for codec, argument in zip(self.request, arguments, strict=True):
            codec.put(out, argument)
        return b"".join(out)

    def get_request(self, data: bytes) -> list[Any]:
        """The arguments, from bytes. Raises WireError."""
        reader = Reader(data)
        return [codec.get(reader) for codec in self.request]

    def put_answer(self, value: A) -> bytes:
        """What `done` got as bytes."""
        out: Out = []
        self.answer.put(out, value)
        return b"".join(out)

    def get_answer(self, data: bytes) -> A:
        """What `done` got, from bytes. Raises WireError."""
        return self.answer.get(Reader(data))


OPERATIONS: Final[dict[int, Operation[Any]]] = {}
"""Number -> operation. A number never gets another meaning; 20 has none."""


def _operation(
    number: int, name: str, repeat: Repeat, request: tuple[Codec[Any], ...], answer: Codec[A], done_at: int | None = None
) -> Operation[A]:
    made = OPERATIONS[number] = Operation(number, name, repeat, request, answer, done_at)
    return made


_H, _O, _K = Repeat.HARMLESS, Repeat.ONCE, Repeat.KEYED

APPEND: Final = _operation(1, "log.append_once", _K, (values.ONCE_KEY, values.MESSAGES, values.CHANGES), values.PLACED, 2)
READ: Final = _operation(2, "log.read", _H, (values.READ,), values.READ_RESULT)
RECORD_AT: Final = _operation(3, "log.record_at", _H, (I64,), DATA)
FIND: Final = _operation(4, "log.find", _H, (values.KEY_QUERY,), listed(DATA))
BOUNDS: Final = _operation(5, "log.bounds", _H, (TEXT, I32), values.BOUNDS)
IS_HOT: Final = _operation(6, "log.is_hot", _H, (TEXT, I32), BOOL)
SEARCH: Final = _operation(7, "log.search", _H, (TEXT, I32, I64, BOOL), I64)
LEASE: Final = _operation(8, "leases.lease", _O, (values.LEASE,), values.LEASE_RESULT)
SETTLE: Final = _operation(9, "leases.settle", _H, (TEXT, TEXT, values.RECEIPTS), values.OUTCOMES)
EXTEND: Final = _operation(10, "leases.extend", _O, (TEXT, TEXT, values.RECEIPTS, I64), values.EXTENDED)
OFFSET: Final = _operation(11, "positions.offset", _H, (TEXT, TEXT, I32), I64)
COMMIT: Final = _operation(12, "positions.commit", _O, (TEXT, values.OFFSETS), NOTHING)
RESET: Final = _operation(13, "positions.reset", _O, (TEXT, values.OFFSETS), NOTHING)
DROP_GROUP: Final = _operation(14, "positions.drop_group", _H, (TEXT,), NOTHING)
PULL: Final = _operation(15, "pulls.pull", _O, (values.PULL,), values.READ_RESULT)
REPORT: Final = _operation(16, "pulls.report", _O, (TEXT, values.OFFSETS), NOTHING)
PUT_TOPIC: Final = _operation(17, "metadata.put_topic", _O, (values.TOPIC,), NOTHING)
DELETE_TOPIC: Final = _operation(18, "metadata.delete_topic", _O, (TEXT,), NOTHING)
PUT_GROUP: Final = _operation(19, "metadata.put_group", _O, (values.GROUP,), NOTHING)
STATE_GET: Final = _operation(21, "state.get", _H, (TEXT, DATA), optional(DATA))
STATE_PAIRS: Final = _operation(22, "state.pairs", _H, (TEXT, DATA, DATA, I32), values.STATE_PAIRS)
STATE_KEYS: Final = _operation(23, "state.keys", _H, (TEXT, DATA, DATA, I32), listed(DATA))
STATE_SIZE: Final = _operation(24, "state.size", _H, (TEXT,), values.BOUNDS)
STATE_PUT: Final = _operation(25, "state.put", _O, (values.CHANGES, values.EXPECTED), NOTHING, 1)
END_TRANSACTION: Final = _operation(26, "transactions.end", _H, (TEXT, TEXT, I64, I64, BOOL), NOTHING)
TRANSACTION_TOPIC: Final = _operation(27, "transactions.topic", _H, (TEXT, TEXT, I64), TEXT)
RECALL: Final = _operation(28, "timers.recall", _O, (TEXT, I64, TEXT), NOTHING)
APPEND_PLAIN: Final = _operation(29, "log.append", _O, (values.MESSAGES, values.CHANGES), values.PLACED, 1)
WITHDRAW: Final = _operation(30, "leases.withdraw", _O, (TEXT, TEXT, values.RECEIPTS, BOOL), NOTHING, NO_DONE)
RENEW: Final = _operation(31, "pulls.renew", _O, (TEXT, TEXT, BOOL), NOTHING, NO_DONE)
RELEASE: Final = _operation(32, "pulls.release", _O, (TEXT, TEXT, listed(TEXT)), NOTHING, NO_DONE)
PRESENT: Final = _operation(33, "transactions.present", _O, (TEXT,), NOTHING, NO_DONE)
