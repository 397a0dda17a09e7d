"""Names of message properties are written once, in domain/message/property.py; every other module takes them from there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from domain.message import property as properties
from tests.tidy.source import Source, sources

OWNER = "domain/message/property.py"
GENERATED = "_pb2.py"
NAMES = frozenset(
    {name for name in vars(properties).values() if isinstance(name, str) and name in properties.RESERVED}
    | {value for key, value in vars(properties).items() if key.startswith(("HG_", "CE_")) and isinstance(value, str)}
    | properties.RESERVED
)
OTHER_MEANINGS = frozenset(
    {"CLUSTER", "DELAY", "REDIRECT", "clientId", "mq-expires-at", "namespace", "retryTimes", "traceparent", "tracestate"}
)
"""Also a topic type, a field of a remoting request, or a field of HTTP: refused only where U+0001 follows."""
ENTRY = re.compile("|".join(f"(?<![A-Za-z0-9_]){re.escape(name)}(?:\x01|\\\\x01)" for name in sorted(NAMES)))
"""The start of a stored entry, in the text of a literal or of a regular expression."""


def literals(source: Source) -> Iterator[tuple[int, str]]:
    """(line, text) of every literal of text or bytes that is not a docstring."""
    docstrings = {
        id(node.value) for node in ast.walk(source.tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            if isinstance(node.value, str):
                yield node.lineno, node.value
            elif isinstance(node.value, bytes):
                yield node.lineno, node.value.decode("latin-1")


def is_property_name(text: str) -> bool:
    """True for a literal that is the name of a property, or that holds the start of a stored entry."""
    return (text in NAMES and text not in OTHER_MEANINGS) or ENTRY.search(text) is not None


def test_property_names_are_written_in_one_place() -> None:
    wrong = [
        f"{source.path}:{line}: {text!r} is a property name; take it from {OWNER}"
        for source in sources()
        if source.path != OWNER and not source.path.endswith(GENERATED)
        for line, text in literals(source)
        if is_property_name(text)
    ]
    assert wrong == []


def test_the_search_finds_names_in_every_form() -> None:
    assert all(
        map(is_property_name, ("UNIQ_KEY", "UNIQ_KEY\x01", "\x02HG_CLIENT\x01grpc\x02", r"(KEYS\x01", "DELAY\x01", "HG_"))
    )
    assert not any(map(is_property_name, ("DELAY", "MY_KEYS\x01", "the KEYS of a message", "clientId")))
