"""Request targets: segments, levels and parameters, and what is refused in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.address import OTHER_PATHS_TOPIC
from protocols.http import path
from protocols.http.problem import RefusalError

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


def escaped(text: str) -> bytes:
    """Every byte of `text` percent-encoded."""
    return b"".join(b"%%%02x" % byte for byte in text.encode())


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/", ([b""], b"")),
        (b"/a//b/", ([b"a", b"", b"b", b""], b"")),
        (b"/a?x=1?y", ([b"a"], b"x=1?y")),
        (b"http://host:80/a/b?c", ([b"a", b"b"], b"c")),
        (b"HTTPS://host/", ([b""], b"")),
        (b"/http://host/a", ([b"http:", b"", b"host", b"a"], b"")),
    ],
)
def test_a_target_is_split_into_raw_segments_and_query(target: bytes, expected: tuple[list[bytes], bytes]) -> None:
    assert path.split(target) == expected


def test_a_url_without_a_path_is_the_root() -> None:
    """RFC 9110, 4.2.3."""
    assert path.split(b"http://host") == ([b""], b"")
    assert path.split(b"http://host?a=/b") == ([b""], b"a=/b")


@pytest.mark.parametrize(
    "target", [b"", b"*", b"a/b", b"host:80", b"ftp://host/a", b"http:///a", b"http://u@h/a", b"/a#b", b"http://h/a?b#c"]
)
def test_any_other_target_is_refused(target: bytes) -> None:
    with pytest.raises(RefusalError) as caught:
        path.split(target)
    assert caught.value.response.status == 400


@given(TEXT)
def test_escapes_are_decoded_once(text: str) -> None:
    assert path.decode(escaped(text)) == text
    assert path.decode(escaped(escaped(text).decode())) == escaped(text).decode()


@pytest.mark.parametrize("raw", [b"%", b"%4", b"%4g", b"a%", b"%%41", b"%ff", b"\xff", b"%c3", b"%ed%a0%80"])
def test_bad_escapes_and_bad_utf_8_are_refused(raw: bytes) -> None:
    with pytest.raises(RefusalError) as caught:
        path.decode(raw)
    assert caught.value.response.status == 400


@pytest.mark.parametrize("raw", [b".", b"..", b"%2e", b"%2E.", b"a%2fb", b"+", b"a+", b"%2b", b"%23", b"%00"])
def test_a_level_cannot_change_the_path_or_be_a_wildcard(raw: bytes) -> None:
    with pytest.raises(RefusalError):
        path.level(raw)


@pytest.mark.parametrize("raw", [b"...", b".a", b"%20", b"$x", b"", b"%25", b"%C3%A9"])
def test_a_level_may_hold_anything_else(raw: bytes) -> None:
    assert path.level(raw) == path.decode(raw)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([b"orders"], ("orders", "")),
        ([b"orders", b"eu", b"%C3%A9"], ("orders", "orders/eu/\u00e9")),
        ([b"orders", b""], ("orders", "orders/")),
        ([b"", b"a"], (OTHER_PATHS_TOPIC, "/a")),
        ([b"a b"], (OTHER_PATHS_TOPIC, "a b")),
        ([b"$SYSTEM"], (OTHER_PATHS_TOPIC, "$SYSTEM")),
    ],
)
def test_a_path_names_its_topic(raw: list[bytes], expected: tuple[str, str]) -> None:
    assert path.destination(raw) == expected


@pytest.mark.parametrize(
    ("raw", "status"),
    [([b""], 400), ([b"$SYS"], 403), ([b"%24SYS", b"uptime"], 403), ([b"a"] * 129, 400), ([b"a" * 4_097], 400)],
)
def test_a_path_that_is_no_topic_name_or_belongs_to_the_node_is_refused(raw: list[bytes], status: int) -> None:
    with pytest.raises(RefusalError) as caught:
        path.destination(raw)
    assert caught.value.response.status == status


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_parameters_come_back_as_they_were(parameters: dict[str, str]) -> None:
    raw = b"&".join(escaped(name) + b"=" + escaped(value) for name, value in parameters.items())
    assert path.query(raw) == parameters


@pytest.mark.parametrize(
    ("raw", "expected"),
    [(b"", {}), (b"&&a=1&", {"a": "1"}), (b"a", {"a": ""}), (b"a=b=c", {"a": "b=c"}), (b"a=x+y", {"a": "x+y"})],
)
def test_parameters_that_are_written_otherwise(raw: bytes, expected: dict[str, str]) -> None:
    assert path.query(raw) == expected


@pytest.mark.parametrize("raw", [b"a=1&a=2", b"a&%61=1"])
def test_a_parameter_that_is_given_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(RefusalError) as caught:
        path.query(raw)
    assert caught.value.response.status == 400


@pytest.mark.parametrize("size", [4_097, 7_000, 40_000])
def test_a_level_above_the_bound_of_paths_is_refused(size: int) -> None:
    with pytest.raises(RefusalError) as caught:
        path.destination([b"orders", b"x" * size])
    assert caught.value.response.status == 400
