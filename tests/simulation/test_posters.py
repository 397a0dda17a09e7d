"""The clients of the mixed load count no answer that is not theirs."""

from __future__ import annotations

from typing import Any

from tests.simulation.kit.clock import VirtualClock
from tests.simulation.ledger import Ledger
from tests.simulation.posters import ANSWER_MS, EventPoster, HttpPoster

CREATED = b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n"


class Silent:
    """A node that keeps what it is sent; `dial` connects at once."""

    seed = 1

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.ledger = Ledger()
        self.links: list[SilentLink] = []

    def dial(self, protocol: str, party: Any) -> None:
        self.links.append(SilentLink(party))
        party.connected(self.links[-1])


class SilentLink:
    """One connection, which the test answers on."""

    def __init__(self, party: Any) -> None:
        self.party = party
        self.open = True
        self.sent = b""

    def send(self, data: bytes) -> None:
        self.sent += data

    def reset(self) -> None:
        self.open = False
        self.party.lost()


def test_an_answer_that_is_late_is_not_taken_for_that_of_the_next_message() -> None:
    """HTTP/1.1 answers in order and without names: the client gives the connection up with the answer."""
    for kind in (HttpPoster, EventPoster):
        net = Silent()
        poster = kind(net, "p", "dev", 2)
        poster.start()
        net.clock.run_for(ANSWER_MS + 1_000)
        assert [link.open for link in net.links] == [False, True]
        assert net.ledger.acknowledged == {}
        net.links[1].party.received(CREATED)
        assert list(net.ledger.acknowledged) == ["p/2"]
