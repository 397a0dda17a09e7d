"""The seams between parts: a callback is given to the constructor of the part that calls it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import Source, sources


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


def test_a_callback_is_given_to_the_constructor() -> None:
    found = {each for source in sources() for each in defaults(source)}
    assert sorted(found) == [], "give the callback to the constructor, or make the part that needs it later"
