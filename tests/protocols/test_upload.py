"""Room for the incomplete packet of one connection."""

from __future__ import annotations

from protocols.host_shares import UNCOUNTED_BYTES_MAX, HostShares
from protocols.upload import COUNTED_BYTES_MAX, RETRY_NS, Upload

MIB = 1024 * 1024
NOW = 5


def test_a_packet_counts_with_all_its_bytes_when_it_begins_and_is_returned_behind_its_end() -> None:
    shares = HostShares(48 * MIB)
    upload = Upload(shares, "10.0.0.1")
    assert upload.begin(4 * MIB, NOW)
    assert upload.begin(4 * MIB, NOW)
    assert shares.bytes_held == 4 * MIB
    assert upload.begin(MIB, NOW), "the next packet is smaller"
    assert shares.bytes_held == MIB
    assert upload.begin(0, NOW)
    assert shares.bytes_held == 0


def test_a_small_packet_is_not_counted() -> None:
    shares = HostShares(0)
    assert Upload(shares, "10.0.0.1").begin(UNCOUNTED_BYTES_MAX, NOW)
    assert shares.bytes_held == 0


def test_one_host_gets_half_and_another_one_has_room() -> None:
    shares = HostShares(48 * MIB)
    taken = [Upload(shares, "10.0.0.1") for _ in range(100)]
    assert sum(each.begin(4 * MIB, NOW) for each in taken) == 6
    assert Upload(shares, "10.0.0.2").begin(4 * MIB, NOW)


def test_who_found_no_room_asks_again_and_is_refused_once() -> None:
    shares = HostShares(16 * MIB)
    first, second = Upload(shares, "10.0.0.1"), Upload(shares, "10.0.0.1")
    assert first.begin(8 * MIB, NOW)
    assert not second.begin(8 * MIB, NOW)
    assert second.retry_ns == NOW + RETRY_NS
    assert not second.begin(8 * MIB, second.retry_ns)
    assert (second.retry_ns, shares.refused) == (NOW + 2 * RETRY_NS, 1)
    first.begin(0, NOW)
    assert second.begin(8 * MIB, second.retry_ns)
    assert second.retry_ns == 0


def test_a_huge_packet_has_room_and_a_connection_that_ends_returns_it() -> None:
    shares = HostShares(48 * MIB)
    upload = Upload(shares, "10.0.0.1")
    assert upload.begin(1 << 30, NOW)
    assert shares.bytes_held == COUNTED_BYTES_MAX
    del upload
    assert shares.bytes_held == 0
