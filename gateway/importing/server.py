"""One remoting server that is asked: a name server, a broker, or the node that gets everything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, final

import orjson

from domain.errors import ConfigError
from gateway.client.answer import ClientError, rejected
from gateway.client.connections import ServerConnections
from gateway.client.link import Request
from protocols.remoting.wire.frame import Frame

TIMEOUT_S: Final = 30.0
"""Seconds for the answers to one write of requests."""
PAGE: Final = 2_000
"""Topics or groups that are asked for at a time."""
_BARE_KEY = re.compile(rb"([{,]\s*)(-?\d+)(\s*:)")


@final
class Server:
    """Asks and waits. Every method raises ConfigError when the server does not answer, or not in RocketMQ's way.

    address       host:port
    what          what the server is, for errors: "name server", "broker broker-a", …
    """

    def __init__(self, address: str, what: str, connections: ServerConnections) -> None:
        self.address = address
        self.what = what
        self._connections = connections

    def __str__(self) -> str:
        return f"{self.what} at {self.address}"

    def ask(self, code: int, fields: Mapping[str, str] = {}, body: bytes = b"") -> Frame:
        """The answer to one request, whatever its code."""
        return self.ask_all([(code, fields, body)])[0]

    def ask_all(self, requests: Sequence[Request]) -> list[Frame]:
        """The answers in the order of the requests, whatever their codes."""
        try:
            return self._connections.ask_all(self.address, requests)
        except (OSError, ClientError) as error:
            raise ConfigError(f"{self} does not answer: {error}") from error

    def table(self, code: int, fields: Mapping[str, str] = {}) -> dict[str, object]:
        """The JSON object that answers a request. A refusal is a ConfigError."""
        return self._table(code, self.ask(code, fields))

    def all_of(self, code: int, kind: str, table: str) -> dict[str, dict[str, object]]:
        """The whole table `table` of all topics or groups, name -> configuration. A refusal is a ConfigError.

        It comes in pages; brokers before 5.4 answer with all of it. `kind`: Topic or Group, as the fields name it.
        """
        found: dict[str, dict[str, object]] = {}
        while True:
            frame = self.ask(code, {f"{kind.lower()}Seq": str(len(found)), f"max{kind}Num": str(PAGE)})
            page = objects(self._table(code, frame).get(table))
            is_new = page.keys() - found.keys()
            found.update(page)
            total = (frame.fields() or {}).get(f"total{kind}Num", "")
            if not is_new or not total.isdigit() or len(found) >= int(total):
                return found

    def _table(self, code: int, frame: Frame) -> dict[str, object]:
        if frame.code != 0:
            raise ConfigError(f"{self} refuses request {code}: {rejected(frame, str(self), self._connections.key)}")
        found = json_of(frame.body)
        if not isinstance(found, dict):
            raise ConfigError(f"{self} answers request {code} with what is no JSON object")
        return found


def json_of(body: bytes) -> object:
    """The JSON value of an answer whose keys may be bare numbers, as Java writes them; None for no body or no JSON."""
    if not body:
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.loads(_BARE_KEY.sub(rb'\1"\2"\3', body))
    except orjson.JSONDecodeError:
        return None


def objects(found: object) -> dict[str, dict[str, object]]:
    """The entries of a JSON object that are objects."""
    return {name: each for name, each in found.items() if isinstance(each, dict)} if isinstance(found, dict) else {}


def number(found: Mapping[str, object], name: str, default: int = 0) -> int:
    """A whole number of a JSON object."""
    value = found.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
