"""Sinks: URLs that may be one, and addresses that a sink may have."""

from __future__ import annotations

import pytest

from domain.subscription.filters import SubscriptionError
from domain.subscription.sink import SETTING, Sink, networks, refusal, sink

LOOPBACK = (
    "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::127.0.0.1",
    "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "0.0.0.0", "::", "::ffff:0.0.0.0",
    "0:0:0:0:0:0:0:1", "0:0:0:0:0:ffff:127.0.0.1",
)  # fmt: skip
INSIDE = (
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "fe80::1", "fe80::1%eth0", "fd00:ec2::254",
    "fc00::1", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "224.0.0.1", "ff02::1", "240.0.0.1",
    "255.255.255.255", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fec0::1", "::ffff:10.0.0.1",
)  # fmt: skip
PUBLIC = ("8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::")
SPELLINGS = (
    "http://127.1/", "http://127.0.1/", "http://2130706433/", "http://0x7f000001/", "http://0x7f.0x0.0x0.0x1/",
    "http://0177.0.0.1/", "http://017700000001/", "http://0x7f.1/", "http://127.0.0.01/", "http://0/", "http://00/",
    "http://0x/", "http://256.0.0.1/", "http://127.0.0.1.1/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://[::1/",
    "http://[127.0.0.1]:x/", "http://[::1%25lo]/", "http://%31%32%37.0.0.1/", "http://127.0.0.1%00.example/",
    "http://example.com\\@127.0.0.1/", "http://127.0.0.1\t/", "http:///127.0.0.1", "http:127.0.0.1", "//127.0.0.1/",
    "http://user@127.0.0.1/", "http://user:pass@127.0.0.1/", "http://@127.0.0.1/", "http://127.0.0.1:0/",
    "http://127.0.0.1:99999/", "http://127.0.0.1:-1/", "http://127.0.0.1#x", "file:///etc/passwd", "ftp://127.0.0.1/",
    "gopher://127.0.0.1/", "unix:///run/x", "data:,x", "javascript:1", "",
)  # fmt: skip
"""Forty ways to write an address or a URL that is not taken as it stands."""


@pytest.mark.parametrize("url", SPELLINGS)
def test_other_spellings_are_refused(url: str) -> None:
    with pytest.raises(SubscriptionError) as error:
        sink(url)
    assert error.value.member == "sink"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://Example.com/a?b=c", Sink(True, "example.com", 443, "/a?b=c")),
        ("http://127.0.0.1:8080", Sink(False, "127.0.0.1", 8080, "/")),
        ("https://[2606:4700::1]:444/x", Sink(True, "2606:4700::1", 444, "/x")),
        ("https://a-b_c.example./", Sink(True, "a-b_c.example.", 443, "/")),
    ],
)
def test_sinks(url: str, found: Sink) -> None:
    assert sink(url) == found


@pytest.mark.parametrize("address", LOOPBACK + INSIDE)
def test_addresses_that_are_not_public_are_refused_with_the_setting_that_allows_them(address: str) -> None:
    assert "[webhook] allow" in refusal(address, True, ())


@pytest.mark.parametrize("address", ["168.63.129.16", "::ffff:168.63.129.16", "3fff::1", "3fff:fff::1", "5f00::1"])
def test_addresses_that_only_look_public_are_refused(address: str) -> None:
    """Azure's host of a machine; RFC 9637 and RFC 9602: in no public routing."""
    assert SETTING in refusal(address, True, ())
    assert refusal(address, True, networks(["168.63.129.16/32", "3fff::/20", "5f00::/16"])) == ""


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_open_over_https_alone(address: str) -> None:
    assert refusal(address, True, ()) == ""
    assert refusal(address, False, ()) != ""
    assert refusal(address, False, networks(["0.0.0.0/0", "::/0"])) == ""


def test_a_network_that_is_allowed_is_open_for_what_stands_for_it_too() -> None:
    allow = networks(["127.0.0.0/8"])
    assert refusal("127.0.0.1", False, allow) == ""
    assert refusal("::ffff:127.0.0.1", False, allow) == ""
    assert refusal("::1", False, allow) != "", "another network"
    assert refusal("::1", False, networks(["::1/128"])) == ""
    assert refusal("10.0.0.1", True, allow) != ""
    assert refusal("no address", True, allow) != ""
