"""What clients of every protocol are told when a store group cannot store a message, and whether they may send it again.

Too few members (`min_in_sync`), replicas that do not answer in time, a leader that is replaced, and a replica that follows.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import paho.mqtt.client as mqtt
import pytest
import urllib3
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from gateway.cluster.operator import orders
from gateway.cluster.operator.controllers import ClusterControllers
from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes, post, read_all
from tests.interop.replication.words import WAIT_S, Told, coap_sender, notified, senders
from tests.patience import until
from tests.store.faults.soak import SOAK

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
TOPIC: Final = "words"
PLACES: Final = ("gateway", "leader") if SOAK else ("gateway",)
FLUSH_MS: Final = 2_000
"""How long a leader waits for the other replicas before it says so."""

UNAVAILABLE: Final[dict[str, Told]] = {
    "http": (503, "1"), "cloudevents": (503, "1"), "coap": ("5.03", 2), "grpc": ("HA_NOT_AVAILABLE", None),
    "remoting": (14, None), "mqtt5": ("DISCONNECT 0x8b", None), "mqtt3": ("DISCONNECT", None),
}  # fmt: skip
"""Not stored, or not known to be: send again. An MQTT client's session does so by itself over its next connection."""
UNSURE: Final[dict[str, Told]] = {
    "http": (504, None), "cloudevents": (504, None), "coap": ("5.04", None), "grpc": ("SLAVE_PERSISTENCE_TIMEOUT", None),
    "remoting": (12, None), "mqtt5": ("DISCONNECT 0x83", None), "mqtt3": ("DISCONNECT", None),
}  # fmt: skip
"""Stored by the leader, not yet by all members: who sends again stores it twice, unless it has a key."""


class Scene(NamedTuple):
    """A group of two replicas, which need each other (`min_in_sync` 2), and a gateway before them."""

    group: StoreGroupNodes
    gateway: Node

    def leader(self) -> Node:
        return self.group.leader()

    def follower(self) -> Node:
        leader = self.leader()
        return next(node for node in self.group.nodes if node is not leader)

    def whole(self) -> None:
        """Wait until both replicas run and are members, and messages are stored."""
        for node in self.group.nodes:
            if node not in self.group.running:
                self.group.start(node)
        self.group.await_members(1, 2)
        until(lambda: post(self.gateway, TOPIC, "fine", 10), WAIT_S)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("words")
    with StoreGroupNodes(folder, 2, environment={"HEADGATE_STORE_FLUSH_TIMEOUT_MS": str(FLUSH_MS)}) as group:
        group.await_members(1, 2)
        controllers = ClusterControllers(group.controllers.addresses, None, None)
        try:
            assert orders.set_least(controllers, "broker-a", 2, print) == 0
        finally:
            controllers.close()
        yield Scene(group, group.gateway(folder / "gateway"))


@pytest.mark.parametrize("place", PLACES)
def test_with_too_few_members_nothing_is_stored_and_clients_are_told_to_send_again(scene: Scene, place: str) -> None:
    scene.whole()
    leader, follower = scene.leader(), scene.follower()
    each = senders(scene.gateway if place == "gateway" else leader, TOPIC)
    scene.group.kill(follower)
    until(lambda: not leader.serves(), WAIT_S)
    assert scene.group.members() == [1, 2], "the set keeps as many members as `min_in_sync` asks for"
    about = f"too few at the {place}"
    assert notified(each, about) == UNAVAILABLE
    scene.whole()
    assert not [body for body in read_all(scene.leader(), TOPIC) if body.startswith(about)]


@pytest.mark.parametrize("place", PLACES)
def test_what_replicas_do_not_confirm_in_time_is_told_as_stored_and_unsure(scene: Scene, place: str) -> None:
    scene.whole()
    leader, follower = scene.leader(), scene.follower()
    each = senders(scene.gateway if place == "gateway" else leader, TOPIC)
    still = [follower, *scene.group.controllers.nodes]  # nobody leaves it out
    for node in still:
        node.signal(signal.SIGSTOP)
    about = f"unsure at the {place}"
    try:
        assert notified(each, about) == UNSURE
    finally:
        for node in still:
            node.signal(signal.SIGCONT)
    scene.whole()
    assert {body.split(" by ")[0] for body in read_all(scene.leader(), TOPIC)} >= {about}


def test_what_a_leader_that_is_replaced_has_not_answered_is_told_as_unknown(scene: Scene) -> None:
    """At a gateway: connections to the leader itself end, or are refused at once by its kernel.

    The next leader is alone, and two are wanted: it confirms nothing and takes nobody, so that the gateway says it after 10 s.
    """
    scene.whole()
    leader, each = scene.leader(), senders(scene.gateway, TOPIC)
    leader.signal(signal.SIGSTOP)

    def kill() -> None:
        time.sleep(1)
        scene.group.kill(leader)

    assert notified(each, "asked of a leader that died", kill) == UNAVAILABLE


def test_a_follower_sends_clients_elsewhere(scene: Scene) -> None:
    """It refuses connections, as a node that is down; CoAP has none to refuse. Its port `readers`: test_reads.py."""
    scene.whole()
    follower = scene.follower()
    assert coap_sender(follower, TOPIC)(b"x") == UNAVAILABLE["coap"]
    for name in ("remoting", "nameserver", "grpc", "http", "mqtt"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", follower.port(name)), 10).close()


EVENT: Final = {"ce-specversion": "1.0", "ce-id": "2", "ce-source": "/words", "ce-type": "made"}


class _Repeating:
    """Clients that send again by themselves, each in a thread. `done`: name -> True, it was refused and is stored."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.done: dict[str, object] = {}
        self._threads = [
            threading.Thread(target=self._guarded, args=each, daemon=True)
            for each in (
                ("http", lambda body: self._posted("/v1/topics/words/messages", body)),
                ("cloudevents", lambda body: self._posted("/ce/words", body, **EVENT)),
                ("mqtt5", lambda body: self._published(MQTTProtocolVersion.MQTTv5, body)),
                ("mqtt3", lambda body: self._published(MQTTProtocolVersion.MQTTv311, body)),
                ("coap", self._repeated),
            )
        ]  # fmt: skip
        for each in self._threads:
            each.start()

    def join(self) -> None:
        for each in self._threads:
            each.join(2 * WAIT_S)

    def _guarded(self, name: str, send: Callable[[bytes], object]) -> None:
        try:
            self.done[name] = send(f"repeated by {name}".encode())
        except Exception as error:
            self.done[name] = error

    def _posted(self, path: str, body: bytes, **fields: str) -> object:
        """urllib3 repeats 503 after Retry-After."""
        retry = urllib3.Retry(total=100, allowed_methods=None, respect_retry_after_header=True)
        with urllib3.PoolManager(retries=retry) as pool:
            where = f"http://127.0.0.1:{self._node.port('http')}{path}"
            answer = pool.request("POST", where, body=body, headers=fields, timeout=WAIT_S)
            return answer.status in (201, 204) and bool(answer.retries and answer.retries.history)

    def _published(self, version: MQTTProtocolVersion, body: bytes) -> object:
        """paho's session publishes again over its next connection."""
        more: dict[str, Any] = {} if version is MQTTProtocolVersion.MQTTv5 else {"clean_session": False}
        client = mqtt.Client(CallbackAPIVersion.VERSION2, f"repeats-{version.value}", protocol=version, **more)
        ends: list[object] = []
        client.on_disconnect = lambda *_: ends.append(1)
        fresh: dict[str, Any] = {"clean_start": False} if version is MQTTProtocolVersion.MQTTv5 else {}
        client.connect("127.0.0.1", self._node.port("mqtt"), **fresh)
        client.loop_start()
        try:
            until(client.is_connected, WAIT_S)
            waiting = client.publish(TOPIC, body, 1)
            waiting.wait_for_publish(2 * WAIT_S)
            return waiting.is_published() and bool(ends)
        finally:
            client.disconnect()
            client.loop_stop()

    def _repeated(self, body: bytes) -> object:
        """CoAP: a client sends again after Max-Age (RFC 7252, 5.9.3.4)."""
        send, attempts = coap_sender(self._node, TOPIC), 0
        while (answer := send(body))[0] == "5.03":
            attempts += 1
            assert isinstance(answer[1], int)
            time.sleep(answer[1])
        return answer[0] == "2.01" and attempts > 0


def test_clients_that_repeat_by_themselves_get_through(scene: Scene) -> None:
    scene.whole()
    leader, follower = scene.leader(), scene.follower()
    scene.group.kill(follower)
    until(lambda: not post(leader, TOPIC, "too many", 10), WAIT_S)
    repeating = _Repeating(scene.gateway)
    time.sleep(3)
    assert repeating.done == {}
    scene.whole()
    repeating.join()
    assert repeating.done == dict.fromkeys(("http", "cloudevents", "mqtt5", "mqtt3", "coap"), True)
    stored = read_all(scene.leader(), TOPIC)
    assert {f"repeated by {name}" for name in repeating.done} <= set(stored)
