"""Frames between nodes as 44998bdc writes them are read, and written byte for byte as they were."""

from __future__ import annotations

import pytest

from tests.kept.exchanges.acks import ACKS
from tests.kept.exchanges.aside import KEPT_ASIDE
from tests.kept.exchanges.doors import FOUND
from tests.kept.exchanges.endings import ENDINGS
from tests.kept.exchanges.epochs import EPOCHS
from tests.kept.exchanges.exchange import Exchanges
from tests.kept.exchanges.families import FAMILIES
from tests.kept.exchanges.identities import IDENTITIES
from tests.kept.exchanges.keeping import KEEPING
from tests.kept.exchanges.left_out import LEFT_OUT
from tests.kept.exchanges.orders import ORDERS
from tests.kept.exchanges.pages import PAGES
from tests.kept.exchanges.questions import QUESTIONS
from tests.kept.exchanges.remotes import REMOTES
from tests.kept.exchanges.reports import REPORTED
from tests.kept.exchanges.searches import SEARCHES
from tests.kept.exchanges.serving import SERVING
from tests.kept.exchanges.since import LONGER, SINCE
from tests.kept.exchanges.witnesses import WITNESSES
from tests.kept.shown import differences, shown
from tests.kept.vectors import load


def _wrong(family: str, exchanges: Exchanges, longer: frozenset[str] = frozenset()) -> list[str]:
    """What is not as it was kept. Of the frames that are `longer` by now other bytes are right, which are read as the same."""
    wrong: list[str] = []
    for vector in load(family):
        exchange = exchanges[vector.name]
        made = exchange.made()
        wrong += [f"{vector.name}{each}" for each in differences(vector.value, shown(exchange.read(vector.data)))]
        wrong += [f"{vector.name}, again{each}" for each in differences(vector.value, shown(exchange.read(made)))]
        if (made == vector.data) == (vector.name in longer):
            wrong.append(f"{vector.name}: {made!r} instead of {vector.data!r}")
    return wrong


@pytest.mark.parametrize("family", FAMILIES)
def test_every_frame_is_read_as_it_was_meant_and_written_as_it_was(family: str) -> None:
    longer = frozenset(each for each in FAMILIES[family] if each.startswith(LONGER))
    assert _wrong(family, FAMILIES[family], longer) == []


@pytest.mark.parametrize(
    ("family", "exchanges"),
    [
        ("since", SINCE),
        ("since-aside", KEPT_ASIDE),
        ("since-epochs", EPOCHS),
        ("since-identities", IDENTITIES),
        ("since-orders", ORDERS),
        ("since-questions", QUESTIONS),
        ("since-witnesses", WITNESSES),
        ("since-keeping", KEEPING),
        ("since-acks", ACKS),
        ("since-remotes", REMOTES),
        ("since-reports", REPORTED),
        ("since-endings", ENDINGS),
        ("since-doors", FOUND),
        ("since-left-out", LEFT_OUT),
        ("since-serving", SERVING),
        ("since-pages", PAGES),
        ("since-searches", SEARCHES),
    ],
)
def test_what_is_new_since_44998bdc_is_read_and_written_as_it_was_first(family: str, exchanges: Exchanges) -> None:
    reworded = frozenset(each for each in exchanges if each.endswith(": FORGOTTEN"))
    assert _wrong(family, exchanges, reworded) == []
