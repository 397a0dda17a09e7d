"""The seams between parts: a callback is given to the constructor of the part that calls it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.tidy.source import Source, sources

FOLLOWED: Final = frozenset({"on_stalled", "on_writable"})
"""Attributes of `ClientConnection`: who waits for a peer to read again changes while the connection is open."""


def is_empty(body: list[ast.stmt]) -> bool:
    """Whether a function does nothing: it has a docstring, and returns a constant at most."""
    rest = [each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return all(isinstance(each, ast.Pass) or (isinstance(each, ast.Return) and is_constant(each.value)) for each in rest)


def is_constant(value: ast.expr | None) -> bool:
    """Whether an expression names no argument and calls nothing."""
    return value is None or not any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(value))


def defaults(source: Source) -> Iterator[str]:
    """The attributes to which a constructor of this file assigns a function that does nothing, as `path Class.attribute`."""
    empty = {
        node.name for node in source.tree.body if isinstance(node, ast.FunctionDef) and is_empty(node.body)
    }  # fmt: skip
    for made in (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)):
        for function in (node for node in made.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"):
            for node in ast.walk(function):
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
                )
                value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
                nothing = (isinstance(value, ast.Name) and value.id in empty) or (
                    isinstance(value, ast.Lambda) and is_constant(value.body)
                )
                for target in targets:
                    if nothing and isinstance(target, ast.Attribute):
                        yield f"{source.path} {made.name}.{target.attr}"


def is_function(value: ast.expr, methods: set[str], nested: set[str]) -> bool:
    """Whether an expression is a function: a lambda, a partial, a method of the class around it, or a function within it."""
    match value:
        case ast.IfExp():
            return is_function(value.body, methods, nested) or is_function(value.orelse, methods, nested)
        case ast.Call(func=ast.Name(id=name)):
            return name == "partial"
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name in methods
        case ast.Name(id=name):
            return name in nested
    return isinstance(value, ast.Lambda)


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether reading this method as an attribute calls it."""
    return any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorator_list)


def late_callbacks(source: Source) -> Iterator[str]:
    """The attributes of other objects to which this file assigns a function, as `path: assignment`."""
    for around in (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef | ast.Module)):
        functions = [node for node in around.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        methods = {each.name for each in functions if not is_property(each)} if isinstance(around, ast.ClassDef) else set()
        for function in functions:
            nested = {node.name for node in ast.walk(function) if isinstance(node, ast.FunctionDef)} - {function.name}
            assignments = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
            for node in assignments:
                for target in node.targets if is_function(node.value, methods, nested) else ():
                    own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
                    if isinstance(target, ast.Attribute) and not own and target.attr not in FOLLOWED:
                        yield f"{source.path}: {ast.unparse(target)}"


def test_the_check_finds_callbacks_that_are_assigned_to_another_part() -> None:
    text = """
class Role:
    def begin(self):
        def shown(): ...
        self._parts.traffic.counted = lambda: 1
        self._servers.on_request = self._requested
        self._topics.source = shown if self._parts else None
        self._own = self._requested
        self._part.figures = self.figures
        self._connection.on_writable = self._requested
    def _requested(self): ...
    @property
    def figures(self): ...
"""
    found = [each.split(": ")[1] for each in late_callbacks(Source("role.py", text, ast.parse(text)))]
    assert found == ["self._parts.traffic.counted", "self._servers.on_request", "self._topics.source"]


def test_no_callback_is_assigned_to_another_part() -> None:
    found = [each for source in sources() for each in late_callbacks(source)]
    assert found == [], "give the callback to the constructor, or make the part that needs it later"


def test_a_callback_is_given_to_the_constructor() -> None:
    found = {each for source in sources() for each in defaults(source)}
    assert sorted(found) == [], "give the callback to the constructor, or make the part that needs it later"


def never_set(source: Source) -> Iterator[str]:
    """The attributes that a class of this file declares in a method and sets nowhere, as `path Class.attribute`."""
    for made in (node for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)):
        declared = [node.target for node in ast.walk(made) if isinstance(node, ast.AnnAssign) and node.value is None]
        stored = [node for node in ast.walk(made) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
        assigned = {node.attr for node in set(stored).difference(declared)}
        for target in declared:
            if isinstance(target, ast.Attribute) and target.attr not in assigned:
                yield f"{source.path} {made.name}.{target.attr}"


def test_the_check_finds_attributes_that_are_set_from_outside() -> None:
    text = """
class Channels:
    def __init__(self, counters):
        self.handler: Handler
        self._counters: Counters
        self.begin(counters)
    def begin(self, counters):
        self._counters = counters
"""
    assert list(never_set(Source("channels.py", text, ast.parse(text)))) == ["channels.py Channels.handler"]


def test_what_a_constructor_declares_its_class_sets() -> None:
    found = [each for source in sources() for each in never_set(source)]
    assert found == [], "give the part to the constructor: nothing says that another part has to set it"
