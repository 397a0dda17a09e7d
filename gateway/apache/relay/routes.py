"""Replies of name servers with addresses of brokers, rewritten to the addresses at which clients reach them here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from protocols.remoting import codes
from protocols.remoting.relayed.frame_slice import FrameSlice
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import encode
from protocols.remoting.wire.header import FLAG_RESPONSE

GET_SYSTEM_TOPICS: Final = 304
REWRITTEN: Final = frozenset({codes.GET_ROUTE, codes.GET_CLUSTER, GET_SYSTEM_TOPICS, codes.GET_BROKER_MEMBERS})
"""Request codes whose replies carry addresses of brokers."""


class RouteError(ValueError):
    """The reply is no valid reply of a name server; the text has the reason."""


class RoutedBroker:
    """One broker set of a reply.

    addresses  broker id -> address
    """

    __slots__ = ("addresses", "bean", "name")

    def __init__(self, bean: dict[str, object]) -> None:
        name, addresses = bean.get("brokerName"), bean.get("brokerAddrs")
        if not isinstance(name, str) or not isinstance(addresses, dict):
            raise RouteError("a broker in it has no name or no addresses")
        self.bean = bean
        self.name = name
        self.addresses: dict[int, str] = {}
        for each, where in addresses.items():
            if not str(each).removeprefix("-").isdecimal() or not isinstance(where, str):
                raise RouteError(f"the addresses of {name[:80]} are not broker ids with addresses")
            self.addresses[int(each)] = where

    def put(self, addresses: Mapping[int, str]) -> None:
        """Replace the addresses in the bean."""
        self.bean["brokerAddrs"] = {str(each): where for each, where in addresses.items()}


def parsed(body: bytes) -> dict[str, object]:
    """The JSON object of a reply. Raises RouteError."""
    try:
        found = fastjson.loads(body)
    except fastjson.DialectError as error:
        raise RouteError(f"it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RouteError("it is not a JSON object")
    return found


def brokers_of(found: dict[str, object]) -> list[RoutedBroker]:
    """The broker sets of a parsed reply to GET_ROUTE, GET_CLUSTER or GET_BROKER_MEMBERS. Raises RouteError."""
    beans: list[object] = []
    for name in ("brokerDatas", "brokerAddrTable", "brokerMemberGroup"):
        value = found.get(name)
        if name == "brokerMemberGroup" and value is not None:
            beans.append(value)
        elif isinstance(value, dict):
            beans.extend(value.values())
        elif isinstance(value, list):
            beans.extend(value)
    brokers: list[RoutedBroker] = []
    for each in beans:
        if not isinstance(each, dict):
            raise RouteError("a broker in it is not a JSON object")
        brokers.append(RoutedBroker(each))
    return brokers


def rewritten(found: dict[str, object], brokers: list[RoutedBroker], at: Callable[[str], str]) -> bytes:
    """The reply with `at(address)` in place of each address of a broker."""
    for broker in brokers:
        broker.put({each: at(where) for each, where in broker.addresses.items()})
    where = found.get("brokerAddr")
    if isinstance(where, str) and where:
        found["brokerAddr"] = at(where)
    return fastjson.dumps(found)


def refusal(frame: FrameSlice, text: str) -> bytes:
    """The failure that replaces an unusable reply."""
    return encode(codes.SYSTEM_ERROR, frame.opaque, fields={}, flag=FLAG_RESPONSE, remark=text, serialize=frame.serialize)
