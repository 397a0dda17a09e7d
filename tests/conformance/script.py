"""Received packets as text, one short word for each packet."""

from __future__ import annotations

from protocols.mqtt.connect import Auth, Connack, Disconnect
from protocols.mqtt.packet import Packet, Ping
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback
from tests.protocols.mqtt.stage import Broker, Client

ACKS = {4: "PUBACK", 5: "PUBREC", 6: "PUBREL", 7: "PUBCOMP"}


def word(packet: Packet) -> str:
    """`PUBACK 1`, `SUBACK 1 01 80`, `PUBLISH t q1 dup retain x`, `DISCONNECT 82`, …; codes in hexadecimal, success left out."""
    if isinstance(packet, Connack):
        return f"CONNACK {packet.code:02x}" + (" present" if packet.present else "")
    if isinstance(packet, Ack):
        return f"{ACKS[packet.kind]} {packet.packet_id}" + (f" {packet.code:02x}" if packet.code else "")
    if isinstance(packet, Suback):
        codes = [f"{code:02x}" for code in packet.codes]
        return " ".join(("UNSUBACK" if packet.un else "SUBACK", str(packet.packet_id), *codes))
    if isinstance(packet, Publish):
        flags = (" dup" if packet.dup else "") + (" retain" if packet.retain else "")
        return f"PUBLISH {packet.topic.decode()} q{packet.qos}{flags} {packet.body.decode()}"
    if isinstance(packet, Disconnect):
        return f"DISCONNECT {packet.code:02x}"
    if isinstance(packet, Auth):
        return f"AUTH {packet.code:02x}"
    assert isinstance(packet, Ping)
    return "PINGRESP"


def heard(client: Client) -> list[str]:
    """Packets received since the last call, as words; `closed` at the end when the server has ended the connection."""
    return [*map(word, client.take()), *(["closed"] if client.gone else [])]


def entered(broker: Broker, version: int, client_id: str, keep: bool = False, **more: object) -> Client:
    """A client whose session is kept for 100 s, or not at all."""
    client = broker.client(version)
    client.connect(client_id, clean=not keep, expiry_s=100 if keep and version == 5 else None, **more)  # type: ignore[arg-type]
    return client
