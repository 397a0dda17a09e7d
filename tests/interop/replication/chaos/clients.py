"""Clients at the gateway: senders of several protocols, and consumers who acknowledge; all write down what they are told."""

from __future__ import annotations

import base64
import http.client
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.interop.http_api import LOST, call
from tests.interop.node import Node
from tests.interop.replication.chaos.history import Bounds, Sent, Stored
from tests.interop.replication.group import ask
from tests.interop.rocketmq.failover.leases import Answer, Handout, LeaseChange
from tests.interop.rocketmq.failover.pops import INVISIBLE_S, GrpcPop, HttpPop, Pop
from tests.interop.rocketmq.failover.senders import SENDERS, NotAcknowledgedError

TOPIC: Final = "orders"
PROTOCOLS: Final = ("MQTT QoS 1", "HTTP", "gRPC", "remoting")
KEYS: Final = 2
PAUSE_S: Final = 0.03
JOIN_S: Final = 120.0


class ChaosClients:
    """Threads that go on whatever happens.

    sent       what was sent, and what was said of it
    handouts   consumer group -> its leases
    given      consumer group -> bodies that it was given
    """

    def __init__(self, gateway: Node) -> None:
        self.gateway = gateway
        self.sent: list[Sent] = []
        self.handouts: dict[str, list[Handout]] = {"by-http": [], "by-grpc": []}
        self.given: dict[str, list[str]] = {group: [] for group in self.handouts}
        self.faults: list[BaseException] = []
        self._sending = self._consuming = True
        works: list[Callable[[], None]] = [
            *(lambda name=name: self._send(name) for name in PROTOCOLS),
            *(lambda key=f"key-{number}": self._send_ordered(key) for number in range(KEYS)),
            *(lambda number=number: self._consume("by-http", number) for number in range(2)),
            lambda: self._consume("by-grpc", 0),
        ]
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works]

    def start(self) -> None:
        """Begin."""
        for each in self._threads:
            each.start()

    def stop_sending(self) -> None:
        """Nothing more is sent; consumers go on."""
        self._sending = False
        for each in self._threads[: len(PROTOCOLS) + KEYS]:
            each.join(JOIN_S)

    def stop(self) -> None:
        """Everybody ends. Raises what has ended a thread before."""
        self._consuming = False
        for each in self._threads:
            each.join(JOIN_S)
        assert not any(each.is_alive() for each in self._threads)
        if self.faults:
            raise self.faults[0]

    def acknowledged(self) -> int:
        """How many messages were acknowledged."""
        return sum(each.success for each in list(self.sent))

    def missing(self) -> int:
        """How many of them some group has not been given."""
        bodies = {each.body for each in list(self.sent) if each.success}
        return sum(len(bodies - set(given)) for given in self.given.values())

    def all_handouts(self) -> list[Handout]:
        """The leases of all groups; messages of two groups are not one."""
        return [each for leases in self.handouts.values() for each in leases]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.faults.append(error)
            raise

    def _send(self, name: str) -> None:
        sender, number = SENDERS[name](), 0
        try:
            while self._sending:
                body = f"{name.replace(' ', '-')}/{number}"
                try:
                    sender.send(self.gateway, TOPIC, body)
                    self.sent.append(Sent(body, "", number, None, True))
                except NotAcknowledgedError:
                    self.sent.append(Sent(body, "", number, None, False))
                    time.sleep(0.2)
                number += 1
                time.sleep(PAUSE_S)
        finally:
            sender.close()

    def _send_ordered(self, key: str) -> None:
        number = 0
        while self._sending:
            body = f"{key}/{number}"
            place = self._post(body, key)
            self.sent.append(Sent(body, key, number, place, place is not None))
            number += 1
            time.sleep(PAUSE_S if place is not None else 0.2)

    def _post(self, body: str, key: str) -> tuple[int, int] | None:
        """(queue, offset) of the answer; None: there was none, or no success."""
        try:
            told = call(self.gateway, f"/v1/topics/{TOPIC}/messages", body.encode(), mq_message_group=key)
        except LOST:
            return None
        return int(told["queue"]), int(told["offset"])

    def _consume(self, group: str, number: int) -> None:
        pop: Pop = GrpcPop([self.gateway], TOPIC, group) if group == "by-grpc" else HttpPop([self.gateway], TOPIC, group)
        chance = random.Random(f"{group} {number}")
        try:
            while self._consuming:
                asked = time.monotonic()
                try:
                    received = pop.receive(0)
                except (ConnectionError, StopIteration, *LOST):
                    time.sleep(0.2)
                    continue
                for each in received:
                    handout = Handout((group, each.message_id), asked, each.answered_s, INVISIBLE_S, each.receipt)
                    self.handouts[group].append(handout)
                    self.given[group].append(each.body)
                    if chance.random() < 0.05:
                        continue  # this consumer dies with the message
                    begun = time.monotonic()
                    try:
                        answer = pop.acknowledge(0, each)
                    except (ConnectionError, StopIteration, http.client.HTTPException, OSError):
                        answer = Answer.NONE
                    handout.changes.append(LeaseChange(begun, time.monotonic(), answer))
                if not received:
                    time.sleep(0.1)
        finally:
            pop.close()


def stored_in(node: Node) -> tuple[Sequence[Stored], dict[int, Bounds]]:
    """All messages of the topic as a node has them, and the bounds of its queues."""
    found: list[Stored] = []
    bounds: dict[int, Bounds] = {}
    for queue in ask(node, f"/v1/topics/{TOPIC}/queues")["queues"]:
        number, offset, end = int(queue["queue"]), int(queue["min"]), int(queue["max"])
        bounds[number] = Bounds(offset, end)
        while offset < end:
            page = ask(node, f"/v1/topics/{TOPIC}/queues/{number}?offset={offset}&max=32")
            found += [Stored(number, int(each["offset"]), base64.b64decode(each["body"]).decode()) for each in page["messages"]]
            assert int(page["next"]) > offset
            offset = int(page["next"])
    return found, bounds
