"""The bytes that peers make the node hold: one bound, shared between hosts."""

from __future__ import annotations

from protocols.uploads import Uploads, UploadShare


def test_a_host_gets_half_of_what_is_free_and_there_is_room_for_another() -> None:
    uploads = Uploads(1_000)
    first, second = UploadShare(uploads, "10.0.0.1"), UploadShare(uploads, "10.0.0.2")
    assert first.take(500)
    assert not first.take(1)
    assert second.take(250)


def test_the_addresses_of_one_ipv6_network_have_one_share() -> None:
    uploads = Uploads(1_000)
    shares = [UploadShare(uploads, f"2001:db8::{number}") for number in range(20)]
    assert [share.take(250) for share in shares[:3]] == [True, True, False]
    assert UploadShare(uploads, "2001:db8:0:1::1").take(250)
