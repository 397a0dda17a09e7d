"""The properties of one message from the fields or members of a `/v1` request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain import limits
from domain.errors import ErrorCode
from domain.message import property as properties
from domain.message.message import RETAIN_NONE, RETAIN_SET
from protocols.http.problem import refuse

_PROTOCOL: Final = properties.HG_PROTOCOL_START + b"http\x02"


@final
class Draft:
    """Collects the properties of one message; `stored` encodes them. Its setters raise RefusalError."""

    __slots__ = ("_parts", "_wall_ms")

    def __init__(self, wall_ms: Callable[[], int], path: str) -> None:
        self._wall_ms = wall_ms
        self._parts: list[bytes] = [_PROTOCOL]
        if path:
            self.put(properties.ORIGIN_MQTT_TOPIC, path)

    def put(self, name: str, value: str) -> None:
        """A property of the gateway, by its stored name."""
        if not properties.is_storable(name, value):
            raise refuse(ErrorCode.PROPERTY_ILLEGAL, f"{name} must not be empty, nor hold U+0001 or U+0002", property=name)
        try:
            self._parts.append(properties.entry(name, value))
        except UnicodeEncodeError:
            raise refuse(ErrorCode.PROPERTY_ILLEGAL, f"{name} holds a lone surrogate", property=name) from None

    def key(self, value: str) -> None:
        """Keys for `GET …/messages?key=`, separated by spaces."""
        self.put(properties.KEYS, value)

    def tag(self, value: str) -> None:
        """The tag, for filters."""
        if "|" in value:
            raise refuse(ErrorCode.PROPERTY_ILLEGAL, "a tag holds no |", property="tag")
        self.put(properties.TAGS, value)

    def message_group(self, value: str) -> None:
        """The ordering key, at most 64 bytes."""
        if len(value.encode("utf-8", "surrogatepass")) > limits.MESSAGE_GROUP_BYTES_MAX:
            raise refuse(ErrorCode.PROPERTY_ILLEGAL, "a message group has at most 64 bytes", property="message-group")
        self.put(properties.SHARDING_KEY, value)

    def user(self, name: str, value: str) -> None:
        """A user property."""
        if properties.is_reserved(name):
            raise refuse(ErrorCode.PROPERTY_ILLEGAL, f"property {name} belongs to the gateway", property=name)
        self.put(name, value)

    def retain(self, wanted: bool) -> int:
        """Make the message the latest value of its path when `wanted`; returns the value of `Message.retain`."""
        if wanted:
            self.put(properties.MQTT_RETAIN, "true")
        return RETAIN_SET if wanted else RETAIN_NONE

    def trace(self, context: list[tuple[str, str]]) -> None:
        """The trace context of the request; a user property of the message of the same name goes before it."""
        for name, value in context:
            start = properties.start_of(name)
            if not any(part.startswith(start) for part in self._parts):
                self.put(name, value)

    def user_all(self, found: object) -> None:
        """User properties, from a JSON object of strings."""
        if not isinstance(found, dict):
            raise refuse(ErrorCode.PROPERTY_ILLEGAL, "properties are a JSON object of strings", property="mq-properties")
        for name, value in found.items():
            if not isinstance(value, str):
                raise refuse(ErrorCode.PROPERTY_ILLEGAL, f"property {name} must be a string", property=name)
            self.user(name, value)

    def deliver_at(self, ms: int) -> None:
        """Delivery time in epoch milliseconds, at most 366 days ahead."""
        if ms < 0 or ms - self._wall_ms() > limits.DELAY_MS_MAX:
            raise refuse(
                ErrorCode.DELIVERY_TIME_ILLEGAL, "a delivery time is RFC 3339 or epoch milliseconds, at most 366 days from now"
            )
        self.put(properties.TIMER_DELIVER_MS, str(ms))

    def delay(self, delay_ms: int) -> None:
        """Delay of the delivery in milliseconds."""
        if delay_ms:
            self.put(properties.TIMER_DELIVER_MS, str(self._wall_ms() + delay_ms))

    def ttl(self, ttl_ms: int) -> None:
        """Time to live in milliseconds."""
        if ttl_ms:
            self.put(properties.HG_EXPIRE_MS, str(self._wall_ms() + ttl_ms))

    def expires_at(self, ms: int) -> None:
        """Expiry in epoch milliseconds."""
        if ms <= 0:
            raise refuse(ErrorCode.PROPERTY_ILLEGAL, "an expiry is RFC 3339 or epoch milliseconds", property="expires-at")
        self.put(properties.HG_EXPIRE_MS, str(ms))

    def stored(self) -> bytes:
        """The properties in stored form."""
        out = b"".join(self._parts)
        size, most = properties.client_bytes(out), limits.CLIENT_PROPERTIES_BYTES_MAX
        if size > most:
            detail = f"the properties have {size} bytes as stored; {most} are allowed"
            raise refuse(ErrorCode.PROPERTIES_TOO_LARGE, detail)
        return out
