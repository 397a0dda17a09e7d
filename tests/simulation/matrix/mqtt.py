"""MQTT 3.1.1 and 5.0: every packet that a client may send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from protocols.mqtt import property as packets
from protocols.mqtt.connect import Connack, Connect, Will
from protocols.mqtt.packet import _FROM_CLIENT, Packet
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe, Unsubscribe
from tests.simulation.client import MqttClient
from tests.simulation.matrix.place import GROUP_NAME, TOPIC_NAME, Person, Place

PATH: Final = f"{TOPIC_NAME}/a"
CLOSED: Final = "closed"
PUBACK: Final = 4
PUBREC: Final = 5


@dataclass(frozen=True, slots=True)
class Request:
    """One packet, on a connection that was accepted unless it is CONNECT itself.

    operation   the row of the matrix that it belongs to
    packet      what is sent; None: CONNECT
    will        the topic of the will in CONNECT; "": there is none
    """

    operation: str
    packet: Packet | None
    will: str = ""


REQUESTS: Final[Mapping[int, Mapping[str, Request]]] = {
    packets.CONNECT: {
        "CONNECT": Request("connect", None),
        "CONNECT with a will": Request("send", None, PATH),
    },
    packets.PUBLISH: {
        "PUBLISH at QoS 1": Request("send", Publish(PATH.encode(), b"x", 1, False, False, 7, NONE)),
        "PUBLISH at QoS 2": Request("send", Publish(PATH.encode(), b"x", 2, False, False, 7, NONE)),
        "PUBLISH, retained": Request("send", Publish(PATH.encode(), b"x", 1, True, False, 7, NONE)),
        "PUBLISH that removes a retained value": Request("send", Publish(PATH.encode(), b"", 1, True, False, 7, NONE)),
    },
    packets.SUBSCRIBE: {
        "SUBSCRIBE": Request("subscribe", Subscribe(8, [(f"{TOPIC_NAME}/#", 1)])),
        "SUBSCRIBE to all topics": Request("subscribe to all topics", Subscribe(8, [("+/a", 1)])),
        "SUBSCRIBE with a group": Request("receive", Subscribe(8, [(f"$share/{GROUP_NAME}/{TOPIC_NAME}/#", 1)])),
    },
    packets.UNSUBSCRIBE: {"UNSUBSCRIBE": Request("connect", Unsubscribe(9, [PATH]))},
}
"""Type of a packet -> its requests by name."""
OPEN: Final = frozenset(
    {packets.PUBACK, packets.PUBREC, packets.PUBREL, packets.PUBCOMP, packets.PINGREQ, packets.DISCONNECT, packets.AUTH}
)
"""Packets that go on with what was begun: acknowledgements, the end, and proofs of who a client is."""


def served() -> set[int]:
    """Types of packets that a client may send."""
    return set(_FROM_CLIENT)


class Mqtt:
    """Asks in one version: 4 (3.1.1) or 5, each time on a new connection."""

    def __init__(self, place: Place, version: int) -> None:
        self.place = place
        self.version = version

    def ask(self, request: Request, who: Person, owner: Person | None = None) -> str:
        """Send a packet -> `done`, the reason code of the answer in hex, or CLOSED."""
        client = MqttClient(self.place.world, f"m{self.place.serial()}", self.version)
        client.world.dial("mqtt", client)
        will = Will(request.will, b"gone", 1, False, NONE) if request.will else None
        user, password = (who.name, who.password.encode()) if who.name else (None, None)
        answer = client.ask(Connect(self.version, client.name, True, 0, will, user, password, NONE), Connack)
        assert isinstance(answer, Connack)
        if answer.code or request.packet is None:
            outcome = answer.code
        else:
            found = client.ask(request.packet, Suback, Ack)
            if found is None:
                return CLOSED
            if isinstance(found, Suback):
                outcome = found.codes[0] if found.codes and not found.un else 0
                outcome = 0 if outcome <= 2 else outcome
            else:
                assert isinstance(found, Ack)
                outcome = found.code
        if client.link is not None:
            client.leave()
        return f"{outcome:#x}" if outcome else "done"
