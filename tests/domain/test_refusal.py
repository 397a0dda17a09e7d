"""The closed list of reasons has every error code, and every word that an adapter ends a connection with."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from domain.errors import ErrorCode
from domain.refusal import REASONS, Ending, Reason, is_refusal
from gateway.node.protocols import installed
from protocols.coap.message import message
from protocols.grpc import framing
from protocols.grpc import status as grpc
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt import status
from protocols.remoting import codes
from protocols.remoting import status as remoting
from protocols.remoting.framed_transport import REASONS_CLOSED

WORDS = installed().words
reason_of = WORDS.reason_of
ROOT = Path(__file__).parents[2]
SPECIAL: dict[Reason, list[str]] = {Ending.REQUEST_REFUSED: ["refused-{"]}
ANSWERED_BY_AN_ADAPTER = {ErrorCode.BODY_EMPTY}
"""Codes that gRPC's adapter answers itself, before there is a command."""
ENDS = {"Disconnected", "_end", "_over", "refused", "_refused", "disconnected", "count", "overload", "_turned_away"}
"""Calls whose first argument is a reason."""
COUNTS = {"refused", "_refused"}
"""Calls that count a refusal by an adapter: with two arguments, the first is the adapter's name."""


def test_every_reason_has_a_name_of_its_own() -> None:
    assert len({reason.name for reason in REASONS}) == len({reason.value for reason in REASONS}) == len(REASONS)
    assert set(ErrorCode) < set(REASONS)


def test_every_word_of_mqtt_and_remoting_is_known() -> None:
    assert [word for word in (*status.CLOSED, *REASONS_CLOSED) if reason_of(word) is None] == []


def test_every_code_of_coap_that_refuses_is_known() -> None:
    codes = {message.name(value) for key, value in vars(message).items() if key.isupper() and isinstance(value, int)}
    refusals = {code for code in codes if code[:2] in ("4.", "5.") and len(code) == 4}
    assert len(refusals) > 10
    assert [code for code in refusals if reason_of(code) is None] == []


def test_every_refusal_of_an_adapters_own_is_known() -> None:
    words = [*grpc.REFUSALS.values(), *framing.REFUSALS.values(), *status.PUBLISHES.values(), *status.FILTERS.values()]
    texts = "".join(path.read_text() for path in sorted((ROOT / "protocols" / "http").rglob("*.py")))
    problems = re.findall(r'problem\(\s*\d{3}, "([a-z-]+)"', texts)
    assert len(problems) > 20
    assert [word for word in (*words, *problems) if reason_of(word) is None] == []
    reasons = [reason_of(word) for word in (*words, *problems)]
    assert all(reason is not None and is_refusal(reason) for reason in reasons)


FOLDERS = (".", "clients", "nameserver", "tools", "wire")
"""Of remoting, those whose requests come to the port of a broker; a controller has codes of its own."""


def test_every_code_that_a_request_is_refused_with_by_remoting_and_grpc_is_counted() -> None:
    raised, refused = set(), set()
    for path in (each for name in FOLDERS for each in (ROOT / "protocols" / "remoting" / name).glob("*.py")):
        raised |= {getattr(codes, name) for name in re.findall(r"RequestError\(codes\.([A-Z_]+)", path.read_text())}
    for path in (ROOT / "protocols" / "grpc").glob("*.py"):
        refused |= set(re.findall(r"(?:Refusal\(|refuse\(call, )pb\.([A-Z_]+)", path.read_text()))
    assert len(raised) > 4
    assert len(refused) > 8
    assert raised <= set(remoting.REFUSALS)
    assert {pb.Code.Value(name) for name in refused} <= set(grpc.REFUSALS)


def literals() -> set[tuple[str, str]]:
    """(file, word) of every reason that is a literal where it is used, and of every constant for one."""
    found: set[tuple[str, str]] = set()
    for path in sorted(p for top in ("protocols", "gateway") for p in (ROOT / top).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if "usecase" in place or "connectors" in place or "outgoing" in place or place.startswith("gateway/link/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name not in ENDS:
                continue
            for argument in node.args[1:] if name in COUNTS and len(node.args) == 2 else node.args:
                for part in ast.walk(argument):
                    word = part.value if isinstance(part, ast.Constant) else None
                    if isinstance(word, str) and word.replace("-", "").isalnum():
                        found.add((place, word))
    return found


def test_every_close_and_refusal_in_the_adapters_names_one() -> None:
    found = literals()
    assert len(found) > 30
    assert [one for one in sorted(found) if reason_of(one[1]) is None and WORDS.refuses(one[1])] == []


def test_words_are_no_names_of_reasons() -> None:
    assert set(WORDS.words).isdisjoint(reason.value for reason in REASONS)


def test_status_of_http_is_one_reason_whatever_the_number() -> None:
    assert reason_of("refused-413") is reason_of("refused-400") is Ending.REQUEST_REFUSED
    assert reason_of("never heard of") is None


def test_every_reason_is_told_to_operators() -> None:
    table = (ROOT / "docs" / "operations.md").read_text().partition("### Reasons")[2]
    assert [reason.value for reason in REASONS if is_refusal(reason) and f"`{reason.value}`" not in table] == []


def test_every_reason_is_reached() -> None:
    """Each reason is an error code that is answered somewhere, or an adapter ends a connection with a word for it."""
    tops = ("protocols", "gateway", "store", "domain")
    texts = {path: path.read_text() for top in tops for path in (ROOT / top).rglob("*.py")}
    sources = [text for path, text in texts.items() if path.name not in ("refusal.py", "errors.py", "status.py", "reasons.py")]
    joined = "\n".join([*sources, texts[ROOT / "protocols" / "mqtt" / "status.py"]])
    codes = {code.name for code in ErrorCode}
    unreached: list[str] = []
    for reason in set(REASONS) - ANSWERED_BY_AN_ADAPTER:
        words = [reason.value, *SPECIAL.get(reason, ()), *(word for word, found in WORDS.words.items() if found is reason)]
        by_code = reason.name in codes and f"ErrorCode.{reason.name}" in "\n".join(sources)
        if not by_code and f"Ending.{reason.name}" not in joined and not any(f'"{word}' in joined for word in words):
            unreached.append(reason.value)
    assert unreached == []
