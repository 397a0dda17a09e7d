"""A load of all protocols on one topic, and what must be true of it: for simulated nodes, and for a real process.

Producers of six protocols, members of one group (POP), and an MQTT session that is subscribed to everything.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from tests.simulation.device import Listener
from tests.simulation.posters import POSTERS, Net
from tests.simulation.sdk import Member

TOPIC: Final = "dev"
GROUP: Final = "mixed"
MEMBERS: Final = 2


class Mixed:
    """The clients. `leases_survive`: no message is given to two members at once, which a power failure may cause."""

    def __init__(self, net: Net, count: int, leases_survive: bool) -> None:
        """`count` messages of each protocol."""
        self.net = net
        dial: Callable[[object], None] = lambda client: net.dial("remoting", client)  # noqa: E731 - handed to each client
        self.posters = [kind(net, f"{kind.__name__}-{net.seed}", TOPIC, count) for kind in POSTERS]
        self.members = [
            Member(f"m{at}", net.clock, random.Random(net.seed * 200 + at), dial, net.ledger, TOPIC, GROUP, leases_survive)
            for at in range(MEMBERS)
        ]
        listen = random.Random(net.seed * 300)
        self.listener = Listener("listener", net.clock, listen, lambda client: net.dial("mqtt", client), net.ledger)

    def listen(self) -> None:
        """Begin with the subscription, which the messages are to find."""
        self.listener.start()

    def start(self) -> None:
        """Begin to send and to receive."""
        for client in (*self.posters, *self.members):
            client.start()

    @property
    def sent(self) -> bool:
        """True when every message was answered or given up."""
        return all(poster.done for poster in self.posters)

    def heard(self) -> bool:
        """True when the session has got every acknowledged message."""
        return set(self.net.ledger.acknowledged) <= {_name(body) for body, _ in self.listener.taken}

    def check(self, queues: Iterable[list[tuple[int, bytes]]]) -> None:
        """`queues`: (offset, body) of all stored messages of the topic, by queue."""
        ledger = self.net.ledger
        assert ledger.faults == []
        names: Counter[str] = Counter()
        for queue in queues:
            assert [offset for offset, _ in queue] == list(range(len(queue))), "offsets have no gaps"
            names.update(_name(body.decode()) for _, body in queue)
        assert not set(ledger.acknowledged) - set(names), "acknowledged messages are lost"
        assert not set(names) - set(ledger.sent), "messages that nobody has sent"
        assert max(names.values(), default=1) == 1, "a message is stored twice"
        kinds = {name.split("-")[0] for name in ledger.acknowledged}
        assert kinds == {kind.__name__ for kind in POSTERS}, f"only {sorted(kinds)} were acknowledged at all"


def _name(body: str) -> str:
    """The name of a message. MQTT 3.1.1 has no place for an event's attributes: it is delivered as JSON, with its id."""
    return str(json.loads(body)["id"]) if body.startswith("{") else body.rstrip(".")
