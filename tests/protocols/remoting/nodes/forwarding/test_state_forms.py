"""Every value of the port State has a form between nodes, so commands for it need no codec of their own.

docs/decisions/0098-state-over-several-stores.md
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from domain.message.once import OnceKey
from domain.store.store_ports import Expected, State, StateChange, StatePairs
from protocols.remoting.nodes.calls.octets import Out, Reader
from protocols.remoting.nodes.forwarding.shape import codec_of
from tests.protocols.remoting.nodes.forwarding.test_kind import sample, shown


def values(method: str) -> Iterator[Any]:
    """The types of the arguments and of the answer of a method with `done`."""
    for name, hint in typing.get_type_hints(getattr(State, method)).items():
        if name == "return":
            continue
        for each in typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,):
            if typing.get_origin(each) is Callable:
                yield typing.get_args(each)[0][0]
            elif name != "done":
                yield each


@pytest.mark.parametrize("method", ["get", "pairs", "keys", "size", "put"])
def test_what_a_method_of_state_takes_and_answers_comes_back(method: str) -> None:
    chance = Random(method)
    hints = list(values(method))
    assert hints
    for hint in hints:
        assert_comes_back(hint, chance)


@pytest.mark.parametrize("kind", [StateChange, Expected, StatePairs, OnceKey])
def test_what_these_are_made_of_comes_back(kind: Any) -> None:
    assert_comes_back(kind, Random(kind.__name__))


def assert_comes_back(hint: Any, chance: Random) -> None:
    codec = codec_of(hint)
    for _ in range(20):
        value = sample(hint, chance)
        out: Out = []
        codec.put(out, value)
        reader = Reader(b"".join(out))
        assert repr(shown(codec.get(reader))) == repr(shown(value))
        assert reader.left == 0
