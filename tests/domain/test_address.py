"""Names of topics, groups and paths, and host addresses."""

from __future__ import annotations

import pytest

from domain import address


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("sensors/room1/temp", "sensors"),
        ("sensors", "sensors"),
        ("sensors/", "sensors"),
        ("/sensors", "mqtt_other"),
        ("$SYS/x", "mqtt_other"),
        ("a b/c", "mqtt_other"),
        ("%RETRY%g", "mqtt_other"),
        ("TBW102/x", "mqtt_other"),
        ("tbw102", "mqtt_other"),
        ("rmq_sys_wheel_timer", "mqtt_other"),
        ("x" * 128, "mqtt_other"),
        ("größe/1", "mqtt_other"),
    ],
)
def test_first_level_is_the_topic_when_it_may_be_one(path: str, topic: str) -> None:
    assert address.topic_of_path(path) == topic


def test_topic_and_group_names() -> None:
    assert address.is_topic("a" * 127)
    assert not address.is_topic("a" * 128)
    assert address.is_topic("%RETRY%" + "g" * 120 + "_" + "t" * 127)
    assert not address.is_topic("a/b")
    assert not address.is_topic("a\n")


def test_what_was_asked_before_changes_no_answer() -> None:
    """Names that are remembered are forgotten together when there are too many; those of the system never are plain."""
    for _ in range(2):
        assert address.is_topic("orders")
        assert not address.is_system_topic("orders")
        assert address.is_topic("Self_Test_Topic")
        assert address.is_system_topic("Self_Test_Topic")
        assert not address.is_topic("a/b")
    for number in range(3 * address.PLAIN_MAX):
        assert address.is_topic(f"orders-{number}")
        assert not address.is_system_topic(f"orders-{number}")
        assert len(address._PLAIN) <= address.PLAIN_MAX
    assert address.is_topic("orders")
    assert address.is_group("g" * 120)
    assert not address.is_group("")


def test_paths_are_bounded_and_free_of_wildcards() -> None:
    assert address.is_path("a//b/")
    assert not address.is_path("")
    assert not address.is_path("a/+/b")
    assert not address.is_path("a/#")
    assert not address.is_path("a\x00")
    assert not address.is_path("x" * 4097)
    assert address.is_path("/".join("a" * 128))
    assert not address.is_path("/".join("a" * 129))


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("10.0.0.1", "10.0.0.1:80"), ("::1", "[::1]:80"), ("fe80::1%eth0", "[fe80::1]:80"), ("10.0.0.\u00b2", "127.0.0.1:80"),
    ],
)  # fmt: skip
def test_hosts(host: str, text: str) -> None:
    assert address.host_text(address.host_bytes(host, 80)) == text


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("10.0.0.5:9876", ("10.0.0.5", 9876)),
        ("a.example:1", ("a.example", 1)),
        ("[2001:db8::7]:65535", ("2001:db8::7", 65_535)),
    ],
)
def test_an_endpoint_is_read_and_shown(text: str, endpoint: tuple[str, int]) -> None:
    assert address.endpoint_of(text) == endpoint
    assert address.endpoint_text(*endpoint) == text


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":9876", "[]:9876", "host:0", "host:65536", "host:-1", "host:\u0661", "host:1_0", "h:" + "1" * 5_000],
)
def test_what_is_no_endpoint(text: str) -> None:
    assert address.endpoint_of(text) is None


def test_offset_message_id_is_apaches() -> None:
    """MessageDecoder.createMessageId of 10.0.0.1:10911 and 0x1234."""
    text = address.offset_message_id(address.host_bytes("10.0.0.1", 10911), 0x1234)
    assert text == "0A00000100002A9F0000000000001234"
    assert address.physical_offset_of(text) == 0x1234
    assert address.physical_offset_of("short") == -1
    assert address.physical_offset_of("z" * 32) == -1


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("", ""),
        ("2001:db8::7", "2001:db8::/64"),
        ("2001:db8:0:0:ffff:ffff:ffff:ffff", "2001:db8::/64"),
        ("2001:db8:0:1::7", "2001:db8:0:1::/64"),
        ("fe80::7%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::1", "::/64"),
    ],
)
def test_who_has_one_ipv6_address_has_its_whole_network(host: str, network: str) -> None:
    assert address.network_of_host(host) == network
