"""Commands of a connection, as the kind that they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def last(commands: Sequence[object], kind: type[T], at: int = -1) -> T:
    """The last command, or the one `at` a place, which is of this kind."""
    command = commands[at]
    assert isinstance(command, kind)
    return command


def only(commands: Sequence[object], kind: type[T]) -> T:
    """The one command, which is of this kind."""
    (command,) = commands
    assert isinstance(command, kind)
    return command
