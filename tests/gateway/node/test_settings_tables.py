"""The one reader of settings: what it takes, and one form for everything that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from domain.errors import ConfigError
from domain.store.storage_engine import GIVEN_FIELDS
from domain.topic.topic import Durability
from gateway.node.composition import known
from gateway.node.reference import explained
from gateway.node.settings_tables import SECRET, declared, from_text, read, wanted

SOURCE = "file a.toml"


@dataclass(frozen=True)
class Row:
    """One table in a list.

    name   of the row
    """

    name: str = ""


@dataclass(frozen=True)
class Everything:
    """One setting of each kind.

    flag     true or false
    count    a number with
             a long explanation
    """

    flag: bool = False
    count: Annotated[int, Meta(ge=1, le=9)] = 1
    least: Annotated[int, Meta(ge=0)] = 0
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    choice: Literal["a", "b"] = "a"
    level: Durability = Durability.FLUSHED
    short: Annotated[str, Meta(max_length=3)] = ""
    secret: Annotated[str, SECRET] = ""
    words: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()

    def __post_init__(self) -> None:
        if self.least > 100:
            raise ValueError("least is more than 100")


def reading(**given: object) -> Everything:
    """The table `[every]` of a file."""
    return read(Everything, "every", given, {f"every.{name}": SOURCE for name in given})


def test_values_come_as_their_types() -> None:
    found = reading(share=1, level="page", words=["x"], rows=[{"name": "y"}], count=9)
    assert found == Everything(share=1.0, level=Durability.PAGE, words=("x",), rows=(Row("y"),), count=9)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("flag", 1, "every.flag is 1: true or false is wanted"),
        ("count", 10, "every.count is 10: a whole number from 1 to 9 is wanted"),
        ("count", True, "every.count is True: a whole number from 1 to 9 is wanted"),
        ("count", 2.5, "every.count is 2.5: a whole number from 1 to 9 is wanted"),
        ("least", -1, "every.least is -1: a whole number of at least 0 is wanted"),
        ("share", 2, "every.share is 2: a number from 0 to 1 is wanted"),
        ("choice", "c", "every.choice is 'c': one of a, b is wanted"),
        ("level", "doubled", "every.level is 'doubled': one of page, flushed, replicated, replicated+flushed is wanted"),
        ("short", "four", "every.short is 'four': text of at most 3 characters is wanted"),
        ("secret", 4711, "every.secret is (hidden): text is wanted"),
        ("words", "x", "every.words is 'x': a list of text is wanted"),
        ("rows", {"name": "x"}, "every.rows is {'name': 'x'}: a list of tables is wanted"),
        ("rows", [{"nme": "x"}], "every.rows[0].nme is unknown; did you mean 'name'?"),
        ("rows", [{}, {"name": 5}], "every.rows[1].name is 5: text is wanted"),
        ("flags", True, "every.flags is unknown; did you mean 'flag'?"),
        ("least", 101, "every: least is more than 100"),
    ],
)
def test_every_mistake_says_where_it_is_what_it_is_and_what_is_wanted(name: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        reading(**{name: value})
    assert str(refused.value) == f"{SOURCE}: {said}"


def test_a_name_that_is_near_to_none_is_answered_with_all_of_them() -> None:
    with pytest.raises(ConfigError, match=r"every\.zzz is unknown; known are flag, count, least, "):
        reading(zzz=1)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("flag", "on", True), ("flag", "0", False), ("count", "7", 7), ("share", "0.25", 0.25), ("short", "7", "7"),
        ("secret", "true", "true"), ("choice", "b", "b"), ("words", '["a"]', ["a"]), ("count", "seven", "seven"),
    ],
)  # fmt: skip
def test_text_of_a_variable_is_read_as_its_setting_wants_it(name: str, text: str, value: object) -> None:
    found = from_text(declared(Everything)[name], text)
    assert found == value
    assert type(found) is type(value)


def test_explanations_are_those_of_the_docstring() -> None:
    assert explained(Everything) == {"flag": "true or false", "count": "a number with a long explanation"}


@pytest.mark.parametrize("table", sorted(known().tables))
def test_every_setting_of_the_tree_is_explained(table: str) -> None:
    kind = known().tables[table]
    hints = declared(kind, GIVEN_FIELDS)
    assert set(hints) <= set(explained(kind))
    assert all(wanted(hint) for hint in hints.values())
