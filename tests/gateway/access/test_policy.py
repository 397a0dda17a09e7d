"""Policies: the order of precedence, by table and against a naive implementation."""

from __future__ import annotations

import ipaddress
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.access.access import ALL, ALLOW, CLUSTER, DENY, EVERY, GET, GROUP, PUB, SUB, TOPIC, AccessPolicy
from gateway.access.policy import Entries, Entry
from gateway.access.source import SourceAddresses


def allow(resource: str, *actions: str, sources: tuple[str, ...] = (), default: bool = False) -> AccessPolicy:
    return AccessPolicy(resource, actions or (ALL,), ALLOW, sources, default)


def deny(resource: str, *actions: str, sources: tuple[str, ...] = (), default: bool = False) -> AccessPolicy:
    return AccessPolicy(resource, actions or (ALL,), DENY, sources, default)


@pytest.mark.parametrize(
    ("policies", "kind", "name", "actions", "host", "expected"),
    [
        ([], TOPIC, "t", (PUB,), "10.0.0.1", False),
        ([allow("Topic:t", PUB)], TOPIC, "t", (PUB,), "10.0.0.1", True),
        ([allow("Topic:t", PUB)], TOPIC, "t", (SUB,), "10.0.0.1", False),
        ([allow("Topic:t", PUB)], TOPIC, "t", (PUB, SUB, GET), "10.0.0.1", True),
        ([allow("Topic:t", PUB)], GROUP, "t", (PUB,), "10.0.0.1", False),
        ([allow("Topic:t", PUB)], TOPIC, "tt", (PUB,), "10.0.0.1", False),
        ([allow("*")], CLUSTER, "c", (GET,), "10.0.0.1", True),
        ([allow("*"), deny("Topic:*")], TOPIC, "t", (PUB,), "10.0.0.1", False),
        ([allow("*"), deny("Topic:*")], GROUP, "g", (SUB,), "10.0.0.1", True),
        ([deny("*"), allow("Topic:*")], TOPIC, "t", (PUB,), "10.0.0.1", True),
        ([deny("Topic:a*"), allow("Topic:ab*")], TOPIC, "abc", (PUB,), "10.0.0.1", True),
        ([allow("Topic:a*"), deny("Topic:ab*")], TOPIC, "abc", (PUB,), "10.0.0.1", False),
        ([deny("Topic:abc*"), allow("Topic:abc")], TOPIC, "abc", (PUB,), "10.0.0.1", True),
        ([allow("Topic:abc"), deny("Topic:abc", PUB)], TOPIC, "abc", (PUB,), "10.0.0.1", False),
        ([allow("Topic:*"), deny("Topic:*", SUB)], TOPIC, "abc", (PUB, SUB), "10.0.0.1", False),
        ([allow("Topic:t", sources=("10.0.0.0/8",))], TOPIC, "t", (PUB,), "10.9.9.9", True),
        ([allow("Topic:t", sources=("10.0.0.0/8",))], TOPIC, "t", (PUB,), "11.0.0.1", False),
        ([allow("Topic:t", sources=("10.0.0.0/8",))], TOPIC, "t", (PUB,), "no address", False),
        ([deny("Topic:t", sources=("10.0.0.1",)), allow("Topic:*")], TOPIC, "t", (PUB,), "10.0.0.2", True),
        ([allow("Topic:t", default=True)], TOPIC, "t", (PUB,), "10.0.0.1", True),
        ([deny("Topic:*"), allow("Topic:t", default=True)], TOPIC, "t", (PUB,), "10.0.0.1", False),
        ([deny("Topic:u"), allow("Topic:t", default=True)], TOPIC, "t", (PUB,), "10.0.0.1", True),
        ([allow("Topic:*", SUB)], TOPIC, EVERY, (SUB,), "10.0.0.1", True),
        ([allow("Topic:a*", SUB)], TOPIC, EVERY, (SUB,), "10.0.0.1", False),
        ([allow("Topic:*", SUB), deny("Topic:secret", SUB)], TOPIC, EVERY, (SUB,), "10.0.0.1", False),
        ([allow("Topic:*", SUB), deny("Topic:secret", PUB)], TOPIC, EVERY, (SUB,), "10.0.0.1", True),
    ],
)
def test_the_first_entry_in_order_decides(
    policies: list[AccessPolicy], kind: str, name: str, actions: tuple[str, ...], host: str, expected: bool
) -> None:
    assert Entries(policies).allow(kind, name, actions, host) is expected
    assert Entries(reversed(policies)).allow(kind, name, actions, host) is expected


RESOURCES = ["*", *(f"{kind}:{name}" for kind, name in product((TOPIC, GROUP), ("a", "ab", "abc", "a*", "ab*", "abc*", "*")))]
policies = st.builds(
    AccessPolicy,
    st.sampled_from(RESOURCES),
    st.lists(st.sampled_from((ALL, PUB, SUB, GET)), min_size=1, max_size=2, unique=True).map(tuple),
    st.sampled_from((ALLOW, DENY)),
    st.sampled_from(((), ("10.0.0.0/8",), ("10.0.0.1", "192.168.0.0/16"))),
    st.booleans(),
)


def naive(entries: list[AccessPolicy], kind: str, name: str, actions: tuple[str, ...], host: str) -> bool:
    """By the words of the rules: keep what fits, then narrow down, one criterion after the other."""
    address = ipaddress.ip_address(host)

    def fits(entry: AccessPolicy) -> bool:
        about, _, wanted = entry.resource.partition(":")
        named = entry.resource == "*" or (
            about == kind and (wanted == name or (wanted.endswith("*") and name.startswith(wanted[:-1])))
        )
        acting = ALL in entry.actions or any(action in entry.actions for action in actions)
        placed = not entry.sources or any(address in ipaddress.ip_network(source) for source in entry.sources)
        return named and acting and placed

    left = [entry for entry in entries if fits(entry)]
    if any(not entry.default for entry in left):
        left = [entry for entry in left if not entry.default]
    if any(entry.resource != "*" for entry in left):
        left = [entry for entry in left if entry.resource != "*"]
    if any(not entry.resource.endswith("*") for entry in left):
        left = [entry for entry in left if not entry.resource.endswith("*")]
    longest = max((len(entry.resource) for entry in left), default=0)
    left = [entry for entry in left if len(entry.resource) == longest]
    return bool(left) and all(entry.decision == ALLOW for entry in left)


@settings(max_examples=100)
@given(
    st.lists(policies, max_size=8),
    st.sampled_from((TOPIC, GROUP)),
    st.sampled_from(("a", "ab", "abc", "abcd", "b")),
    st.sampled_from(((PUB,), (SUB,), (PUB, SUB, GET))),
    st.sampled_from(("10.0.0.1", "10.1.1.1", "192.168.3.4", "8.8.8.8")),
)
def test_it_decides_as_the_naive_twin(
    entries: list[AccessPolicy], kind: str, name: str, actions: tuple[str, ...], host: str
) -> None:
    assert Entries(entries).allow(kind, name, actions, host) is naive(entries, kind, name, actions, host)


@settings(max_examples=100)
@given(st.lists(policies, max_size=8), st.sampled_from((PUB, SUB)))
def test_what_is_allowed_on_all_is_allowed_on_each(entries: list[AccessPolicy], action: str) -> None:
    asked = Entries(entries)
    if asked.allow(TOPIC, EVERY, (action,), "10.0.0.1"):
        assert all(asked.allow(TOPIC, name, (action,), "10.0.0.1") for name in ("a", "ab", "abc", "abcd", "b", "z"))


@pytest.mark.parametrize(
    "policy",
    [
        allow(""), allow("Topic"), allow("Topic:"), allow("Queue:a"), allow("Topic:a*b"), allow("**"),
        AccessPolicy("*", ()),
        allow("*", "Any"),
        AccessPolicy("*", (PUB,), "Maybe"), allow("*", sources=("10.0.0",)), allow("*", sources=("10.*.0.1",)),
        allow("*", sources=("10.0.0.9-10.0.0.1",)), allow("Topic:" + "x" * 600),
    ],
)  # fmt: skip
def test_what_is_no_policy_is_refused(policy: AccessPolicy) -> None:
    with pytest.raises(ValueError, match=r"."):
        Entry(policy)


@pytest.mark.parametrize(
    ("source", "inside", "outside"),
    [
        ("10.0.0.1", "10.0.0.1", "10.0.0.2"),
        ("10.0.0.1", "::ffff:10.0.0.1", "::1"),
        ("10.0.*.*", "10.0.255.3", "10.1.0.0"),
        ("10.0.0.1-10.0.1.4", "10.0.1.4", "10.0.1.5"),
        ("10.0.0.1-9", "10.0.0.9", "10.0.0.10"),
        ("fd00::/8", "fd12::1", "fe80::1"),
    ],
)
def test_sources(source: str, inside: str, outside: str) -> None:
    assert SourceAddresses(source).holds(inside)
    assert not SourceAddresses(source).holds(outside)
