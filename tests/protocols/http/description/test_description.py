"""The description of the API says what the handlers do: no route is missing, and every parameter is named."""

from __future__ import annotations

import ast
import re
import sys
from typing import Any

import orjson
import pytest

from protocols.http.description.openapi import description, page
from protocols.http.description.operation import OPERATIONS
from protocols.http.handler import Handler
from protocols.http.routes import ROUTES
from tests.tidy.source import ROOT

HANDLERS: list[type[Handler]] = sorted(
    {
        make
        for route in ROUTES
        for method, make in route.methods.items()
        if method != b"OPTIONS" and isinstance(make, type) and issubclass(make, Handler)
    },
    key=lambda kind: kind.__name__,
)


def asked(kind: type) -> set[str]:
    """Names of the parameters that a handler's `start` takes, its own or an inherited one."""
    for each in kind.__mro__:
        if "start" not in vars(each):
            continue
        names: set[str] = set()
        tree = ast.parse((ROOT / f"{each.__module__.replace('.', '/')}.py").read_text("utf-8"))
        found = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == each.__name__)
        for node in ast.walk(found):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "parameters":
                names |= {str(part.value) for part in node.args[1:] if isinstance(part, ast.Constant)}
                for part in node.args[1:]:
                    if isinstance(part, ast.Starred) and isinstance(part.value, ast.Name):
                        names |= set(getattr(sys.modules[each.__module__], part.value.id))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "start":
                names |= asked(kind.__mro__[1])
        return names
    return set()


@pytest.mark.parametrize("kind", HANDLERS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_described(kind: type[Handler]) -> None:
    assert asked(kind) == OPERATIONS[kind.__name__].query.keys()


def test_every_route_is_there_once_and_nothing_else() -> None:
    assert {kind.__name__ for kind in HANDLERS} == OPERATIONS.keys()
    identities = [found["operationId"] for methods in description(ROUTES)["paths"].values() for found in methods.values()]
    assert len(identities) == len(set(identities)) >= len(HANDLERS)
    assert len(description(ROUTES)["paths"]) == len(ROUTES)


def test_every_handler_has_a_text_of_its_own_and_its_docstring_says_which_request_it_is_for() -> None:
    said: dict[str, str] = {}
    for file in (ROOT / "protocols" / "http").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name in OPERATIONS:
                said[node.name] = (ast.get_docstring(node) or "").partition("`")[2].partition("`")[0]
    requests = {
        make.__name__: f"{method.decode()} /{route.pattern}"
        for route in ROUTES
        for method, make in route.methods.items()
        if make in HANDLERS
    }
    assert said == requests
    assert [kind.__name__ for kind in HANDLERS if not vars(kind).get("description")] == []


def test_no_text_speaks_of_what_only_the_code_knows() -> None:
    words = {word for kind in HANDLERS for word in re.findall(r"`([A-Z]\w+)`|\b([A-Z]+_[A-Z_]+)\b", kind.description)}
    assert {name or constant for name, constant in words} == set()


def test_names_in_a_path_are_parameters() -> None:
    for path, methods in description(ROUTES)["paths"].items():
        for found in methods.values():
            given = [each["name"] for each in found.get("parameters", ()) if each["in"] == "path"]
            assert given == re.findall(r"\{(\w+)\}", path)


def test_references_lead_somewhere() -> None:
    document = description(ROUTES)

    def poll(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                found: Any = document
                for part in node["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
            for value in node.values():
                poll(value)
        elif isinstance(node, list):
            for value in node:
                poll(value)

    poll(document)
    assert orjson.loads(orjson.dumps(document)) == document


def test_the_page_has_every_path_and_no_script() -> None:
    text = page(ROUTES).decode()
    assert "<script" not in text
    for path in description(ROUTES)["paths"]:
        assert path in text
