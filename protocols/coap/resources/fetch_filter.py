"""Bodies of FETCH: selection of the messages for a client (RFC 8132, section 2)."""

from __future__ import annotations

from typing import Final, final

from domain.address import topic_of_path
from domain.errors import Failure
from domain.filter import expression
from domain.filter.filter import SQL92, TAG, Filter
from domain.filter.path_matching import is_filter
from domain.filter.stored_path_filter import path_filter
from protocols.coap.message import cbor, message
from protocols.coap.message.media import CBOR
from protocols.coap.message.option import ABSENT, Fault, Options
from protocols.coap.resources import translate

_KEYS: Final = {"path": "", "tag": TAG, "sql": SQL92}


@final
class FetchFilter:
    """The selection of a FETCH.

    pattern  MQTT filter of paths: "path" of the body, else exactly the path
    text     the filter expression with its kind; "" for none
    filter   the compiled expression; None: every message on the paths
    """

    __slots__ = ("filter", "path", "pattern", "text")

    def __init__(self, path: str, pattern: str, text: str, compiled: Filter | None) -> None:
        self.path = path
        self.pattern = pattern
        self.text = text
        self.filter = compiled

    def of_group(self) -> Filter | Fault | None:
        """Filter with which a group receives; None: every message of the topic. Fault 4.22 for two filters."""
        if self.pattern == self.path:
            return self.filter
        if self.filter is not None:
            return Fault(message.UNPROCESSABLE, "a group receives by path, tag or sql: by one of them")
        return path_filter(topic_of_path(self.path), [self.pattern])


def read(options: Options, body: bytes) -> FetchFilter | Fault:
    """Read a FETCH of `/mq/{topic}[/{sub…}]`. Fault: 4.00 for a body that is no map, 4.15 for another format, 4.22 for its
    contents."""
    path = translate.path_of(options)
    if isinstance(path, Fault):
        return path
    if options.content_format not in (ABSENT, CBOR):
        return Fault(message.UNSUPPORTED_FORMAT, "the body of FETCH is application/cbor (60)")
    wanted = cbor.text_map(body)
    if wanted is None:
        return Fault(message.BAD_REQUEST, "the body of FETCH is a CBOR map of texts")
    if not wanted.keys() <= _KEYS.keys() or ("tag" in wanted and "sql" in wanted):
        return Fault(message.UNPROCESSABLE, "members are path, and tag or sql")
    pattern = wanted.get("path", path)
    topic = path.split("/", 1)[0]
    if not is_filter(pattern) or pattern.split("/", 1)[0] != topic:
        return Fault(message.UNPROCESSABLE, f"path is an MQTT filter that begins with {topic}")
    found: Filter | Failure | None = None
    text = ""
    for name in ("tag", "sql"):
        if name in wanted:
            text = f"{name}\x00{wanted[name]}"
            found = expression.compiled(_KEYS[name], wanted[name])
    if isinstance(found, Failure):
        return Fault(message.UNPROCESSABLE, found.text)
    return FetchFilter(path, pattern, text, found)
