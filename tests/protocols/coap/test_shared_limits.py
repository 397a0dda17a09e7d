"""What peers make a node hold by CoAP has one bound for all transports, and one host cannot take what is others'."""

from __future__ import annotations

from domain.address import host_bytes
from domain.event import WatchedMessages
from protocols.adapter import Peer
from protocols.coap.adapter import CoapAdapter, CoapStreamAdapter
from protocols.coap.blockwise.blockwise import Assemblies, Pinned
from protocols.coap.endpoint import CoapEndpoint
from protocols.coap.exchange.dedup import CROWDED
from protocols.coap.message import message, option, signal
from protocols.coap.message.frame import StreamFraming
from protocols.coap.observe.observations import Feed
from protocols.coap.settings import CoapSettings
from protocols.coap.shared_limits import shared_limits_of
from protocols.setting import Setting
from tests.protocols.coap.stage import SECOND, Dice, peer

MIB = 1024 * 1024


class Node:
    """The adapters of one node: UDP, DTLS and TCP."""

    def __init__(self, config: CoapSettings) -> None:
        self.now = 1000 * SECOND
        self.setting = Setting("c", "b", "127.0.0.1", {"coap": 5683}, Dice(), lambda: 1_700_000_000_000)
        datagrams = CoapAdapter(self.setting, config)
        self.udp, self.dtls = datagrams.bind(self.now), datagrams.bind(self.now)
        self.streams = CoapStreamAdapter(self.setting, config)
        self.holdings = shared_limits_of(self.setting, config)

    def block(self, endpoint: CoapEndpoint, source: Peer, path: bytes, number: int, size: int = 1024) -> int:
        """Send one block that is not the last; the code of the response."""
        block = message.uint(number << 4 | 8 | 6)
        pairs = [(option.URI_PATH, b"mq"), (option.URI_PATH, path), (option.BLOCK1, block)]
        self.mid = getattr(self, "mid", 0) + 1
        data = message.encode(message.CON, message.PUT, self.mid, b"", message.join(pairs), bytes(size))
        endpoint.receive(data, source, self.now)
        [(answer, _)] = endpoint.outgoing()
        return answer[1]


def secured(host: str, number: int) -> Peer:
    return Peer(host, number, host_bytes(host, 9))._replace(source=host_bytes(host, (1 << 16) + number))


def test_unfinished_bodies_of_all_transports_are_within_one_bound() -> None:
    node = Node(CoapSettings(block1_total_bytes_max=100_000, amplification=0))
    connection = node.streams.connect(peer(), node.now)
    framing = StreamFraming(1 << 20)
    connection.receive(framing.encode(signal.CSM, b"", b"", b""), node.now)
    for number in range(40):
        node.block(node.udp, peer(port=40_000 + number), b"a", 0)
        node.block(node.dtls, secured("192.0.2.1", 1 + number), b"a", 0)
        pairs = [(option.URI_PATH, b"mq"), (option.URI_PATH, b"s%d" % number), (option.BLOCK1, b"\x0e")]
        connection.receive(framing.encode(message.PUT, b"", message.join(pairs), bytes(1024)), node.now)
    assert node.udp.assemblies is node.dtls.assemblies is node.holdings.assemblies
    assert 90_000 < node.holdings.assemblies.charge <= 100_000
    assert node.holdings.assemblies.dropped > 60
    connection.receive(b"", node.now)
    node.udp.assemblies.expire(node.now + 100 * SECOND)
    assert (node.holdings.assemblies.charge, node.holdings.assemblies.shares) == (0, {})


def test_the_bodies_of_a_greedy_network_make_room_by_themselves() -> None:
    node = Node(CoapSettings(block1_total_bytes_max=100_000, amplification=0))
    modest = peer(host="198.51.100.7")
    assert node.block(node.udp, modest, b"mine", 0) == message.CONTINUE
    for number in range(300):
        node.block(node.udp if number % 2 else node.dtls, peer(port=40_000 + number), b"a", 0)
    assert node.block(node.udp, modest, b"mine", 1) == message.CONTINUE, "its first block is still there"


def test_a_network_with_little_gets_room_from_the_oldest() -> None:
    bodies = Assemblies(1_000_000, 100_000)
    for network in range(60):
        bodies.begin(network, 0, network, network, 0)
        assert bodies.add(network, 0, bytes(1_000))
    assert bodies.charge <= 100_000
    assert list(bodies.open) == list(range(60 - len(bodies.open), 60))


def test_pinned_values_count_for_what_they_cost() -> None:
    pinned = Pinned(10_000)
    for number in range(1_000):
        pinned.put(((number, b""), "t"), number, 17, 0)
    assert len(pinned.values) == 10_000 // (512 + 1 + 17)
    pinned.put(((1, b""), "x" * 4_096), 1, 17, 0)
    assert pinned.bytes <= 10_000
    assert len(pinned.values) < 12


def test_values_that_wait_for_observers_of_all_transports_are_within_one_bound() -> None:
    node = Node(CoapSettings(backlogs_bytes_max=50_000, amplification=0))
    path = message.join([(option.OBSERVE, b""), (option.URI_PATH, b"mq"), (option.URI_PATH, b"t")])
    feeds: list[tuple[CoapEndpoint, Feed]] = []
    for endpoint, source in ((node.udp, peer()), (node.dtls, secured("192.0.2.1", 5))):
        endpoint.receive(message.encode(message.CON, message.GET, 1, b"t", path, b""), source, node.now)
        feeds.append((endpoint, next(iter(endpoint.observations.feeds.values()))))
    assert node.holdings.audience.count == 2
    assert list(node.holdings.audience.networks.values()) == [2], "sessions of a host count with its addresses"
    from domain.message import record
    from domain.message.message import Message

    data = record.encode(Message("t", bytes(2_000), queue_id=0), 0, 0, 1, host_bytes("127.0.0.1", 1))
    for _ in range(40):
        for endpoint, feed in feeds:
            endpoint.answer(WatchedMessages(feed, [data]), node.now)
            assert node.holdings.audience.bytes <= 50_000
    assert all(feed.values for _, feed in feeds), "each has some of the room"
    for endpoint, source in ((node.udp, peer()), (node.dtls, secured("192.0.2.1", 5))):
        endpoint.forget(source, node.now)
    assert (node.holdings.audience.bytes, node.holdings.audience.count, node.holdings.audience.networks) == (0, 0, {})


def test_one_node_has_one_duplicate_table() -> None:
    node = Node(CoapSettings(amplification=0))
    assert node.udp.replier.recent_con is node.dtls.replier.recent_con is node.holdings.recent_con
    other = Node(CoapSettings(amplification=0))
    assert other.holdings is not node.holdings
    assert node.holdings.recent_con.bytes_max + node.holdings.recent_non.bytes_max == 64 * MIB


def test_what_one_host_holds_is_below_64_mib() -> None:
    """The table in docs/protocols/coap.md."""
    from gateway.runtime.security.dtls_endpoint import SESSIONS_OF_HOST_MAX

    config = CoapSettings()
    held = config.answers_bytes_max * CROWDED + config.block1_total_bytes_max + config.pinned_bytes_max
    held += config.backlogs_bytes_max + 2 * 2 * MIB + config.peers_max * 720 + config.observers_network_max * 1_400
    assert held + SESSIONS_OF_HOST_MAX * 54_000 <= 64 * MIB
