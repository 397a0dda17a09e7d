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


def test_bytes_that_exist_are_counted_without_room_and_name_the_heaviest_host() -> None:
    uploads = Uploads(1_000)
    light, heavy = UploadShare(uploads, "10.0.0.1"), UploadShare(uploads, "10.0.0.2")
    light.hold(300)
    assert not uploads.over
    heavy.hold(900)
    assert (uploads.bytes_held, uploads.over, uploads.heaviest()) == (1_200, True, "10.0.0.2")
    heavy.hold(100)
    assert (uploads.bytes_held, uploads.over, uploads.heaviest()) == (400, False, "10.0.0.1")
    del light, heavy
    assert (uploads.bytes_held, uploads.heaviest()) == (0, "")
