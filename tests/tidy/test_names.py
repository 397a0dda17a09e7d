"""Names of classes, functions and variables: each has one meaning, and words that had two do not come back."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.tidy.source import Source, sources

RETIRED = {
    "burial": "dead letter",
    "house": "connection context",
    "lane": "ordering key",
    "light": "lite queue (of a lite topic), or filter index (of absent sessions)",
    "lights": "lite queues",
    "parcel": "routed record",
    "stain": "mark dirty",
}
"""Words of our own, or with two meanings -> the field's words for what they named."""
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def names(source: Source) -> Iterator[tuple[int, str]]:
    """(line, name) of every class, function, parameter, variable and attribute that a file defines."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def words(name: str) -> set[str]:
    """`_lightQueue`, `LightQueue`, `light_queue` -> {"light", "queue"}."""
    return {part.lower() for part in WORD.findall(name)}


def test_a_class_name_stands_in_one_place() -> None:
    """Outside `protocols/`, whose folders have the words of their own specifications."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for source in sources():
        if not source.path.startswith("protocols/"):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(f"{source.path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_retired_words_do_not_come_back() -> None:
    wrong = [
        f"{source.path}:{line}: {name}; the word is {RETIRED[word]}"
        for source in sources()
        for line, name in names(source)
        for word in sorted(words(name) & RETIRED.keys())
    ]
    assert wrong == []


def test_names_are_split_into_words() -> None:
    assert words("_lightQueue") == words("LightQueue") == words("LIGHT_QUEUE") == {"light", "queue"}
    assert words("HTTPLane2") == {"http", "lane"}
