"""Settings of the name server: each namespace has its own keys, and names and values are bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ErrorCode, Failure
from nameserver.stored_settings import NAME_BYTES_MAX, SPACE, VALUE_BYTES_MAX, StoredSettings
from tests.stored_state import memory_state, pairs

NAMESPACE = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=3)
KEY = st.text(st.characters(codec="utf-8"), min_size=1, max_size=3)


class Stage:
    """Settings, and the answers to `put`."""

    def __init__(self) -> None:
        self.state = memory_state()
        self.settings = StoredSettings(self.state)
        self.answers: list[Failure | None] = []

    def put(self, namespace: str, key: str, value: str | None) -> Failure | None:
        """The answer to `put`."""
        self.settings.put(namespace, key, value, self.answers.append)
        return self.answers.pop()


@given(st.lists(st.tuples(NAMESPACE, KEY, st.none() | st.text(st.characters(codec="utf-8"), max_size=5)), max_size=20))
def test_settings_agree_with_a_dictionary_of_each_namespace(steps: list[tuple[str, str, str | None]]) -> None:
    stage = Stage()
    naive: dict[str, dict[str, str]] = {}
    for namespace, key, value in steps:
        assert stage.put(namespace, key, value) is None
        found = naive.setdefault(namespace, {})
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    for namespace, expected in naive.items():
        assert stage.settings.all(namespace) == expected
        assert all(stage.settings.get(namespace, key) == value for key, value in expected.items())
    assert stage.settings.get("other", "key") is None


def test_a_namespace_is_not_the_beginning_of_another_one() -> None:
    stage = Stage()
    stage.put("a", "k", "1")
    stage.put("ab", "k", "2")
    assert stage.settings.all("a") == {"k": "1"}


def test_the_state_key_is_namespace_nul_key() -> None:
    stage = Stage()
    stage.put("ORDER_TOPIC_CONFIG", "t\u00e9", "b-a:8")
    assert pairs(stage.state, SPACE) == [("ORDER_TOPIC_CONFIG\x00t\u00e9".encode(), b"b-a:8")]


@pytest.mark.parametrize(
    ("namespace", "key", "value", "is_taken"),
    [
        ("", "k", "v", False),
        ("n", "", "v", False),
        ("n\x00", "k", "v", False),
        ("n", "k\x00", "v", True),
        ("n", "k" * (NAME_BYTES_MAX - 2), "", True),
        ("n", "k" * (NAME_BYTES_MAX - 1), "", False),
        ("n", "\u00e9" * (NAME_BYTES_MAX // 2), "", False),
        ("n", "k", "v" * VALUE_BYTES_MAX, True),
        ("n", "k", "v" * (VALUE_BYTES_MAX + 1), False),
        ("n", "k", "\u00e9" * (VALUE_BYTES_MAX // 2 + 1), False),
        ("", "k", None, False),
    ],
)
def test_names_and_values_are_bounded_in_bytes(namespace: str, key: str, value: str | None, is_taken: bool) -> None:
    stage = Stage()
    answer = stage.put(namespace, key, value)
    assert (answer.code if answer is not None else None) == (None if is_taken else ErrorCode.ARGUMENT_ILLEGAL)
    assert len(pairs(stage.state, SPACE)) == is_taken
