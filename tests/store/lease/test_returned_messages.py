"""Late returns: which messages a puller is given again, and which of its reports prove that it has handled them."""

from __future__ import annotations

from domain.errors import ErrorCode
from store.lease import returned_messages
from store.lease.table import LeaseTable

FAR_MS = 100_000


def pulled_table(count: int) -> LeaseTable:
    """The puller holds the offsets 0 to `count` - 1; nothing is free."""
    table = LeaseTable("g", "t", 0, 0)
    for offset in range(count):
        table.lease(offset, 1_000, FAR_MS).pulled = True
    return table


def free(table: LeaseTable, *offsets: int) -> None:
    """Receivers have had these offsets and gave them back."""
    for offset in offsets:
        lease = table.leases[offset]
        lease.pulled = False
        assert table.release(offset, lease.pop_ms, 1_500) is not None


def lease_again(table: LeaseTable, *offsets: int) -> None:
    """The puller gets free messages from before its offset."""
    pop_ms = table.next_pop_ms(2_000)
    for offset in offsets:
        table.lease(offset, pop_ms, FAR_MS)
    returned_messages.record_leased(table, list(offsets))


def test_free_messages_below_the_offset_are_found_lowest_first() -> None:
    table = pulled_table(9)
    free(table, 6, 2, 4, 8)
    assert returned_messages.find(table, 8, 10) == [2, 4, 6]
    assert returned_messages.find(table, 8, 2) == [2, 4]


def test_nothing_is_found_when_all_free_messages_lie_ahead() -> None:
    table = pulled_table(9)
    free(table, 6, 7)
    assert returned_messages.find(table, 6, 10) == []


def test_settled_messages_and_those_leased_again_are_not_found() -> None:
    table = pulled_table(6)
    free(table, 1, 2, 3)
    assert table.settle(1, 1_000) is None
    table.lease(2, 2_000, FAR_MS)
    assert returned_messages.find(table, 6, 10) == [3]
    assert table.settle(3, 1_000) is None
    assert returned_messages.find(table, 6, 10) == []


def test_what_the_puller_itself_let_expire_is_not_a_late_return() -> None:
    table = pulled_table(3)
    table.leases[0].end_ms = 1_200
    table.end_heap = [(1_200, 0)]
    assert table.expire(1_200) == [0]
    assert table.leases[0].pulled
    assert returned_messages.find(table, 3, 10) == []


def test_a_report_beyond_the_head_of_the_delivery_settles() -> None:
    table = pulled_table(5)
    free(table, 1)
    lease_again(table, 1)
    returned_messages.settle_handled(table, 5)
    assert 1 in table.leases
    table.lease(5, table.next_pop_ms(3_000), FAR_MS).pulled = True
    returned_messages.settle_handled(table, 6)
    assert 1 not in table.leases
    assert table.late_returns == {}


def test_a_report_that_went_back_to_the_message_and_then_passed_it_settles() -> None:
    table = pulled_table(8)
    returned_messages.settle_handled(table, 7)
    free(table, 2)
    lease_again(table, 2)
    returned_messages.settle_handled(table, 2)
    assert 2 in table.leases
    returned_messages.settle_handled(table, 3)
    assert 2 not in table.leases


def test_a_report_of_the_message_itself_or_of_the_earlier_position_proves_nothing() -> None:
    table = pulled_table(8)
    returned_messages.settle_handled(table, 7)
    free(table, 2)
    lease_again(table, 2)
    for position in (1, 2, 7, 8):
        returned_messages.settle_handled(table, position)
        assert table.leases[2].fleeting


def test_with_other_late_returns_in_hand_a_lower_report_proves_nothing() -> None:
    table = pulled_table(8)
    returned_messages.settle_handled(table, 7)
    free(table, 2, 4)
    lease_again(table, 2)
    lease_again(table, 4)
    returned_messages.settle_handled(table, 5)
    assert 2 not in table.leases
    assert 4 in table.leases


def test_a_puller_that_moved_back_gets_its_late_returns_again() -> None:
    table = pulled_table(8)
    free(table, 2, 4)
    lease_again(table, 2, 4)
    assert returned_messages.find(table, 8, 10) == []
    assert returned_messages.puller_moved_back(table, 2_500)
    assert returned_messages.find(table, 8, 10) == [2, 4]
    assert not returned_messages.puller_moved_back(table, 2_600)


def test_after_the_puller_moved_back_a_lower_report_proves_nothing() -> None:
    table = pulled_table(8)
    returned_messages.settle_handled(table, 7)
    free(table, 2)
    returned_messages.puller_moved_back(table, 1_600)
    returned_messages.settle_handled(table, 6)
    assert table.reported == returned_messages.REPORTS_MOVED_BACK
    lease_again(table, 2)
    returned_messages.settle_handled(table, 3)
    assert 2 in table.leases
    returned_messages.settle_handled(table, 9)
    assert 2 not in table.leases


def test_a_released_late_return_is_no_longer_settled_by_the_old_lease() -> None:
    table = pulled_table(4)
    free(table, 1)
    lease_again(table, 1)
    old_pop_ms = table.leases[1].pop_ms
    assert returned_messages.release_leased(table, 2_500)
    table.lease(1, table.next_pop_ms(3_000), FAR_MS)
    failure = table.settle(1, old_pop_ms)
    assert failure is not None
    assert failure.code is ErrorCode.RECEIPT_EXPIRED


def test_a_late_return_that_somebody_else_leased_is_not_freed() -> None:
    table = pulled_table(4)
    free(table, 1)
    lease_again(table, 1)
    table.lease(1, table.next_pop_ms(3_000), FAR_MS)
    assert not returned_messages.release_leased(table, 3_500)
    assert not table.leases[1].free
