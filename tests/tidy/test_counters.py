"""Counters on the metrics page: what the node counts is listed there, and what is listed is counted."""

from __future__ import annotations

import ast
import re

from gateway.observe.counter_texts import COUNTERS
from tests.tidy.source import sources

NUMBERS = ("dict[str, float]", "dict[str, int]", "Mapping[str, float]", "Mapping[str, int]")
FIGURES_OF_STORES = (
    "gateway/node/roles/follower_composition.py", "gateway/brokers/broker_links.py", "gateway/brokers/live_tail.py",
    "gateway/apache/store.py", "gateway/usecase/topics_and_groups/counters.py",
)  # fmt: skip
"""The page shows all figures of a store, under names of their own; those of the other two files go to Apache's tools."""
NOT_SHOWN = ("lost", "_lost", "ports", "by_reason", "all_refusals", "all_disconnects", "_segments", "waiting_in")
"""Functions whose numbers are no counters by the names of COUNTERS."""


def names_in(function: ast.FunctionDef) -> set[str]:
    """Names that a function gives its numbers, as regular expressions: keys of its dicts, and what it assigns to."""
    found: set[str] = set()
    for node in ast.walk(function):
        keys = (
            node.keys if isinstance(node, ast.Dict)
            else [node.key] if isinstance(node, ast.DictComp)
            else [node.slice] if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
            else []
        )  # fmt: skip
        for key in keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found.add(re.escape(key.value))
            elif isinstance(key, ast.JoinedStr):
                parts = (re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+" for part in key.values)
                found.add("".join(parts))
    return found


def counted() -> dict[str, str]:
    """Name of a counter, as a regular expression -> where it is counted."""
    found: dict[str, str] = {}
    for source in sources():
        if not source.path.startswith("gateway/") or source.path in FIGURES_OF_STORES:
            continue
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.FunctionDef) or node.returns is None or node.name in NOT_SHOWN:
                continue
            if ast.unparse(node.returns) in NUMBERS:
                found.update(dict.fromkeys(names_in(node), f"{source.path}: {node.name}"))
    return found


def test_counters_that_the_node_counts_are_listed() -> None:
    unlisted = {name: place for name, place in counted().items() if not any(re.fullmatch(name, listed) for listed in COUNTERS)}
    assert unlisted == {}, "the metrics page leaves them out"


def test_counters_that_are_listed_are_counted() -> None:
    found = counted()
    assert [name for name in COUNTERS if not any(re.fullmatch(each, name) for each in found)] == []


def test_numbers_that_are_no_counters_are_named_here_for_a_reason() -> None:
    functions = {
        (source.path, node.name)
        for source in sources()
        if source.path.startswith("gateway/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.returns is not None and ast.unparse(node.returns) in NUMBERS
    }
    assert set(FIGURES_OF_STORES) <= {path for path, _ in functions}
    assert set(NOT_SHOWN) <= {name for _, name in functions}
