"""Items about clients whose protocol ends the connection at a refusal of a message."""

from __future__ import annotations

from functools import partial

from domain.client.mqtt_session import EndsAt
from protocols.remoting.nodes.calls.octets import Reader
from protocols.remoting.nodes.forwarding import item
from protocols.remoting.nodes.forwarding.item import ClientItem
from tests.kept.exchanges.exchange import Exchange, Exchanges


def _made(ends_at: EndsAt) -> bytes:
    return b"".join(item.put_client(ClientItem(5, "mqtt", "10.0.0.9", False, ends_at)))


def _read(data: bytes) -> ClientItem:
    reader = Reader(data)
    assert reader.take(1)[0] == item.CLIENT
    found = item.get_client(reader, sized=True)
    assert not reader.left
    return found


ENDINGS: Exchanges = {
    "item: client that ends at any refusal": Exchange(partial(_made, EndsAt.ALL), _read),
    "item: client that ends where it is unsure": Exchange(partial(_made, EndsAt.UNSURE), _read),
}
