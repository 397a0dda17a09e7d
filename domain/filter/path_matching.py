"""Matching of a path by one MQTT topic filter (MQTT 5, 4.7). Many filters at once: gateway/routing/filter_trie.py."""

from __future__ import annotations

from domain import limits
from domain.message import property as properties


def is_filter(text: str) -> bool:
    """True for a legal topic filter: `+` and `#` alone in a level, `#` only in the last one, within a path's bounds."""
    if text == "" or "\x00" in text or len(text.encode("utf-8", "surrogatepass")) > limits.PATH_BYTES_MAX:
        return False
    levels = text.split("/")
    if len(levels) > limits.PATH_LEVELS_MAX:
        return False
    last = len(levels) - 1
    for at, level in enumerate(levels):
        if "#" in level and (level != "#" or at != last):
            return False
        if "+" in level and level != "+":
            return False
    return True


def matches(pattern: str, path: str) -> bool:
    """True when `path` matches the filter `pattern`. A leading wildcard matches no path that begins with `$` (4.7.2)."""
    if path.startswith("$") and pattern[:1] in ("+", "#"):
        return False
    wanted = pattern.split("/")
    levels = path.split("/")
    for at, want in enumerate(wanted):
        if want == "#":
            return True
        if at >= len(levels) or (want != "+" and want != levels[at]):
            return False
    return len(wanted) == len(levels)


def path_of(topic: str, stored_properties: bytes) -> str:
    """The path of a stored message: its property `originMqttTopic`, else its topic."""
    origin = properties.find(stored_properties, properties.ORIGIN_MQTT_TOPIC_START)
    return origin.decode("utf-8", "replace") if origin else topic
