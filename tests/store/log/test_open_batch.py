"""The open batch: its state changes become one record, and a failed level answers every append once."""

from __future__ import annotations

from domain.errors import ErrorCode, Failure
from domain.message.message import LOCAL_HOST, Placed
from domain.message.record import Record
from domain.store.store_event import unheard
from domain.store.store_ports import StateChange
from store.events import StoreEvents
from store.log import batch
from store.log.open_batch import Effects, OpenBatch, Pending
from store.state import change
from tests.simulation.kit.clock import VirtualClock

BASE = 5_000
LONG = b"v" * change.LONG_VALUE_BYTES
BROKEN = Failure(ErrorCode.STORE_UNAVAILABLE, "the log is broken")


def test_a_batch_without_changes_gets_no_state_record() -> None:
    found = OpenBatch(BASE, 1, 2)
    found.seal(1_000, LOCAL_HOST)
    assert (found.parts, found.end) == ([], BASE + batch.HEADER_BYTES)


def test_all_changes_become_one_record_behind_the_messages() -> None:
    found = OpenBatch(BASE, 1, 2)
    found.parts.append(b"m" * 100)
    found.end += 100
    found.changes += [StateChange("a", b"k", b"1"), StateChange("a", b"k", None), StateChange("b", b"", b"2")]
    found.seal(1_000, LOCAL_HOST)
    state = Record(found.parts[1])
    assert (state.topic, state.physical_offset, state.store_ms) == (change.STATE_TOPIC, BASE + batch.HEADER_BYTES + 100, 1_000)
    assert list(change.decode(state.body)) == found.changes
    assert found.end == BASE + batch.HEADER_BYTES + sum(map(len, found.parts))


def test_a_long_value_is_found_in_the_log_where_its_change_says() -> None:
    found = OpenBatch(BASE, 1, 2)
    found.changes += [StateChange("a", b"short", b"1"), StateChange("a", b"long", LONG), StateChange("a", b"more", LONG + b"w")]
    found.seal(1_000, LOCAL_HOST)
    data = batch.encode(found.parts, BASE, 1_000, batch.HEADER_BYTES, batch.Writer(), 0)
    assert found.changes[0].at == -1
    for each in found.changes[1:]:
        assert each.value is not None
        assert data[each.at - BASE : each.at - BASE + len(each.value)] == each.value


def test_the_state_record_fits_into_the_bytes_kept_free_for_it() -> None:
    found = OpenBatch(BASE, 1, 2)
    changes = [StateChange("session", b"key", LONG), StateChange("a", b"", None)]
    found.changes += changes
    found.reserved += change.size(changes)
    before = found.end
    found.seal(1_000, b"\xfe\x80" + bytes(18))
    assert found.end - before <= found.reserved


def test_a_failed_level_answers_every_append_once() -> None:
    answers: list[list[Placed] | Failure] = []
    effects = Effects(BASE)
    effects.pending += [Pending(answers.append, [], (), flushed, 0) for flushed in (True, False)]
    effects.pending.append(Pending(None, [], (), True, 0))
    effects.fail(BROKEN, StoreEvents(unheard, VirtualClock()))
    effects.fail(BROKEN, StoreEvents(unheard, VirtualClock()))
    assert answers == [BROKEN, BROKEN]


def test_an_append_made_while_others_are_refused_is_not_answered_twice() -> None:
    answers: list[list[Placed] | Failure] = []
    effects = Effects(BASE)

    def refused(answer: list[Placed] | Failure) -> None:
        answers.append(answer)
        effects.fail(BROKEN, StoreEvents(unheard, VirtualClock()))

    effects.pending += [Pending(refused, [], (), True, 0), Pending(answers.append, [], (), True, 0)]
    effects.fail(BROKEN, StoreEvents(unheard, VirtualClock()))
    assert answers == [BROKEN, BROKEN]
