"""The body of an answer as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.brokers.refusal import BrokerAnswerError
from protocols.remoting.wire import fastjson


def value_in(text: bytes) -> object:
    """The value of a JSON text, None for text that cannot be read."""
    try:
        return fastjson.loads(text)
    except fastjson.DialectError:
        return None


def document(body: bytes) -> Mapping[str, object]:
    """The object. Raises BrokerAnswerError with what is wrong."""
    try:
        found = fastjson.loads(body)
    except fastjson.DialectError as error:
        raise BrokerAnswerError(f"a body that cannot be read ({error})") from error
    if not isinstance(found, dict):
        raise BrokerAnswerError("a body that is no JSON object")
    return found
