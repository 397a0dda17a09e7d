"""Group members that answer requests of tools (running info, consume one message): at once, late, never, or by leaving."""

from __future__ import annotations

import json
from collections.abc import Callable

from domain.limits import MILLISECOND_NS
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.remoting import codes
from protocols.remoting.wire import frame
from protocols.remoting.wire.header import FLAG_RESPONSE
from tests.simulation.consumer import Consumer
from tests.simulation.kit.links import Link
from tests.simulation.simple import Receiver
from tests.simulation.world import World

NEVER, LEAVES = -1, -2
ASKED = (codes.GET_RUNNING_INFO, codes.CONSUME_DIRECTLY, codes.GET_CLIENT_STATUS)


class Respondent(Consumer):
    """A remoting member.

    after_ms   delay of its answers in ms; NEVER: it does not answer; LEAVES: it closes the connection instead
    asked      requests that have arrived, oldest first
    """

    def __init__(self, world: World, name: str, group: str, topic: str, after_ms: int = 0) -> None:
        self.after_ms = after_ms
        self.asked: list[frame.Frame] = []
        super().__init__(world, name, group, topic)

    def received(self, data: bytes) -> None:
        known = len(self.heard)
        super().received(data)
        for each in [each for each in self.heard[known:] if each.code in ASKED]:
            self.heard.remove(each)
            self.asked.append(each)
            _later(self, self.after_ms, self.hang_up, lambda link, each=each: link.send(self._said(each)))  # type: ignore[misc]

    def _said(self, question: frame.Frame) -> bytes:
        if question.code == codes.GET_RUNNING_INFO:
            body = self._running_info(question)
        elif question.code == codes.CONSUME_DIRECTLY:
            body = json.dumps({"consumeResult": "CR_SUCCESS", "remark": self.name}).encode()
        else:
            place = b'{"brokerName":"broker-a","queueId":0,"topic":"%b"}' % self.topic.encode()
            body = b'{"messageQueueTable":{%b:%d}}' % (place, len(self.asked))
        return frame.encode(0, question.opaque, body=body, flag=FLAG_RESPONSE)

    def _running_info(self, question: frame.Frame) -> bytes:
        told: dict[str, object] = {"properties": {"PROP_CLIENT_VERSION": self.name}}
        if (question.fields() or {})["jstackEnable"] == "true":
            told["jstack"] = f"stacks of {self.name}"
        return json.dumps(told).encode()


class GrpcRespondent(Receiver):
    """A member over gRPC, with the same attributes."""

    def __init__(self, world: World, name: str, group: str, topic: str, after_ms: int = 0) -> None:
        self.after_ms = after_ms
        self.asked: list[pb.TelemetryCommand] = []
        super().__init__(world, name, group, topic)

    def connected(self, link: Link) -> None:
        super().connected(link)
        # A client is a member from its heartbeat on.
        clock = self.world.clock
        clock.call_at(clock.monotonic_ns() + 20 * MILLISECOND_NS, self.hello)

    def hello(self) -> None:
        """Send a heartbeat without waiting for its answer."""
        if self.link is not None:
            request = pb.HeartbeatRequest(client_type=pb.SIMPLE_CONSUMER)
            request.group.name = self.group
            self.begin("Heartbeat", request)

    def received(self, data: bytes) -> None:
        super().received(data)
        for each in list(self.notified):
            kind = each.WhichOneof("command")
            if kind in ("print_thread_stack_trace_command", "verify_message_command"):
                self.notified.remove(each)
                self.asked.append(each)
                _later(self, self.after_ms, self.hang_up, lambda _, each=each: self._notify(each))  # type: ignore[misc]

    def _notify(self, question: pb.TelemetryCommand) -> None:
        answer = pb.TelemetryCommand()
        answer.status.code = pb.OK
        if question.HasField("verify_message_command"):
            answer.verify_message_result.nonce = question.verify_message_command.nonce
        else:
            answer.thread_stack_trace.nonce = question.print_thread_stack_trace_command.nonce
            answer.thread_stack_trace.thread_stack_trace = f"stacks of {self.name}"
        self.notify(answer)


def _later(
    member: Respondent | GrpcRespondent, after_ms: int, leave: Callable[[], None], answer: Callable[[Link], None]
) -> None:
    """Answer on the connection of the request, if it is still open."""
    link, clock = member.link, member.world.clock
    if after_ms == NEVER:
        return

    def act() -> None:
        if after_ms == LEAVES:
            leave()
        elif link is not None and member.link is link:
            answer(link)

    clock.call_at(clock.monotonic_ns() + max(1, after_ms) * MILLISECOND_NS, act)
