"""Every copy that the node makes of a message can be stored: marks fit into what clients leave, and give way in older messages.

Bounds: 32,767 bytes of properties, 31,743 of them for clients (domain.limits).
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from domain import limits
from domain.message import property as properties
from domain.message.message import SYS_PREPARED, Message
from domain.message.property import encode as stored_form
from domain.message.record import Record, encode
from domain.subscription.courier import SinkAnswer
from gateway.usecase.consume.dead_letters import copy_of, delay_if_room, make_dead_letter
from gateway.webhooks.delivery.dead_letter import dead_letter
from store.delay import parking
from store.lease.lease_records import retry_copy
from store.transaction import half

MOST = limits.PROPERTIES_BYTES_MAX
HOST = bytes(15) + b"\x01" + bytes(4)
GROUP = "g" * limits.GROUP_CHARS_MAX
TOPIC = "t" * limits.TOPIC_CHARS_MAX
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
ID = "F" * limits.MARKED_ID_BYTES_MAX
OF_NODE = {"UNIQ_KEY": ID, "HG_PROTOCOL": "cloudevents", "HG_PRINCIPAL": "u" * 64}
"""What stands beside the properties of a client when its message is stored."""
DLQ = {"DLQ_ORIGIN_TOPIC": TOPIC, "DLQ_ORIGIN_MESSAGE_ID": ID}
SENT_BACK = {"ORIGIN_MESSAGE_ID": ID, "RETRY_TOPIC": TOPIC}


def largest(most: int = limits.CLIENT_PROPERTIES_BYTES_MAX, marks: Mapping[str, str] = OF_NODE, end: bytes = b"\x02") -> bytes:
    """A record of TOPIC with `most` bytes of a client's properties."""
    stored = stored_form(marks.items()) + b"user\x01" + b"v" * (most - 6) + end
    return encode(Message(TOPIC, b"x", stored, queue_id=0), 0, 0, 1, HOST)


def notified(message: Message) -> dict[str, str]:
    """The properties of a copy, which can be stored."""
    assert len(message.properties) <= MOST
    record = encode(message, 1 << 60, 1 << 60, 1 << 60, HOST)
    found = properties.decode(Record(record).properties)
    assert found.pop("user"), "what the client has sent is kept"
    return found


def as_record(message: Message) -> Record:
    return Record(encode(message, 0, 0, 1, HOST))


def test_all_marks_fit_behind_what_a_client_may_send() -> None:
    """The longest life of a message: POP moves it, a consumer gives it back with a delay, it dies and is given again."""
    record = largest()
    moved = retry_copy(record, f"{RETRY}+{TOPIC}", TOPIC, 9, 1 << 60)
    assert notified(moved) == {**OF_NODE, "RETRY_TOPIC": TOPIC, "1ST_POP_TIME": str(1 << 60)}
    late = retry_copy(record, RETRY, TOPIC, 9, 1 << 60, sent_back=True)
    assert notified(late) == {**OF_NODE, **SENT_BACK, "1ST_POP_TIME": str(1 << 60)}
    changes = {**SENT_BACK, "TIMER_DELAY_MS": str(limits.DELAY_MS_MAX)}
    back = copy_of(as_record(moved), RETRY, reconsume_times=1, changes=changes)
    delay_if_room(back)
    assert notified(back).items() >= changes.items()
    back.queue_id = 0
    parked = parking.park(back, 1 << 40, 0)
    assert isinstance(parked, Message)
    assert notified(parked).items() >= {**changes, "REAL_TOPIC": RETRY, "REAL_QID": "0"}.items()
    assert notified(parking.delivered(as_record(parked).data)).items() >= SENT_BACK.items()
    dead = copy_of(as_record(back), DEAD, reconsume_times=16, changes=DLQ)
    assert notified(dead).items() >= {**OF_NODE, **SENT_BACK, **DLQ}.items()
    again = copy_of(as_record(dead), DEAD, reconsume_times=16, changes={"RETRY_TOPIC": f"%DLQ%{GROUP}"})
    assert notified(again)["RETRY_TOPIC"] == f"%DLQ%{GROUP}"


def test_the_marks_of_delays_and_transactions_fit() -> None:
    delayed = Message(TOPIC, b"x", Record(largest(limits.CLIENT_PROPERTIES_BYTES_MAX)).properties, queue_id=2**31 - 1)
    delayed.properties = properties.with_values(delayed.properties, {"HG_LATEST": "x", "HG_EXPIRE_MS": str(1 << 60)})
    timer = parking.parked_until(delayed, 1 << 42)
    assert notified(timer)["REAL_TOPIC"] == TOPIC
    assert len(parking.parked_until(Message("%RETRY%" + "r" * 248, b"", b"", queue_id=2**31 - 1), 10**18).properties) <= (
        limits.PARKED_MARKS_BYTES_MAX
    )
    prepared = half.prepared(Message(TOPIC, b"x", delayed.properties, queue_id=2**31 - 1, message_id=ID, sys_flag=SYS_PREPARED))
    marks = notified(prepared)
    assert (marks["REAL_TOPIC"], marks["__transactionId__"]) == (TOPIC, ID)
    assert notified(half.given_up(as_record(prepared).data)) == marks


def test_a_dead_letter_of_a_webhook_tells_its_reason_as_far_as_there_is_room() -> None:
    answer = SinkAnswer(500, (), b"", text="\U0001f600" * 512)
    sink = "https://sink.example/" + "s" * 2_000
    for marks in (OF_NODE, {**OF_NODE, "CE_specversion": "1.0"}):
        prefix = "CE_" if "CE_specversion" in marks else ""
        found = notified(dead_letter(Record(largest(marks=marks)), "d", GROUP, sink, answer))
        assert found.items() >= {**DLQ, "HG_DLQ_GROUP": GROUP, f"{prefix}knativeerrorcode": "500"}.items()
        assert found[f"{prefix}knativeerrordest"].startswith("https://sink.example/")
    short = notified(dead_letter(Record(largest(1_000)), "d", GROUP, sink, answer))
    assert short["knativeerrordata"] == "\U0001f600" * 512
    assert len(short["knativeerrordest"]) == 512


@pytest.mark.parametrize("end", [b"\x02", b""])
@pytest.mark.parametrize("free", [0, 1, 2, 20, 60, 200, 400, 900])
def test_a_message_of_an_earlier_version_is_copied_with_the_marks_that_it_has_room_for(free: int, end: bytes) -> None:
    """Earlier versions took 32,767 bytes from clients. Such a message is never lost, and holds up no queue."""
    record = largest(MOST - free - 15 + 1 - len(end), {"UNIQ_KEY": "M" * 5}, end)
    assert len(Record(record).properties) == MOST - free
    moved = retry_copy(record, f"{RETRY}+{TOPIC}", TOPIC, 9, 1 << 60)
    assert notified(moved)["UNIQ_KEY"] == "MMMMM"
    assert ("1ST_POP_TIME" in notified(moved)) == (free >= 200), "the topic is the more needed mark"
    assert "RETRY_TOPIC" not in notified(retry_copy(record, RETRY, TOPIC, 9, 1, sent_back=True)) or free >= 60
    back = copy_of(Record(record), RETRY, reconsume_times=1, changes={**SENT_BACK, "DELAY": "3"})
    delay_if_room(back)
    assert ("DELAY" in notified(back)) == (free == 900), "without room for a delay it comes again at once"
    assert "RETRY_TOPIC" not in notified(back) or "ORIGIN_MESSAGE_ID" in notified(back), (
        "whose it is does not depend on the room"
    )
    back.queue_id = 0
    assert isinstance(parking.park(back, 1, 0), Message)
    notified(copy_of(Record(record), DEAD, reconsume_times=1, changes=DLQ))
    notified(dead_letter(Record(record), "d", GROUP, "https://sink.example/", SinkAnswer(500, (), b"no", text="")))
    sent = Message(RETRY, b"x", Record(record).properties)
    make_dead_letter(GROUP, sent)
    assert (sent.topic, len(sent.properties) <= MOST) == (DEAD, True)
    notified(sent)


def test_an_id_is_written_into_a_mark_when_it_is_short() -> None:
    assert [properties.id_mark(each) for each in ("", "M", ID, ID + "F", "é" * 33)] == ["-", "M", ID, "-", "-"]
