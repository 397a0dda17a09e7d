"""gRPC: every method of the service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message as Proto

from protocols.grpc.application import METHODS
from protocols.grpc.messages import messaging_pb2 as pb
from tests.simulation.channel import Channel
from tests.simulation.matrix.place import TOPIC_NAME, Person, Place
from tests.simulation.test_forbidden_grpc import AFTER_SETTINGS, CALLS, STREAMED, consumer, topic

REFUSED: Final = "UNAUTHORIZED"
OUTSIDE: Final = "UNRECOGNIZED_CLIENT_TYPE"
"""What calls of a client are told whose settings were refused."""


def producer() -> pb.TelemetryCommand:
    """The settings of a producer."""
    made = pb.TelemetryCommand()
    made.settings.client_type = pb.PRODUCER
    made.settings.publishing.topics.add().name = TOPIC_NAME
    return made


@dataclass(frozen=True, slots=True)
class Request:
    """One call.

    operation   the row of the matrix that it belongs to
    method      of the service
    content     makes the message
    settings    of the client, sent before; None: none are
    """

    operation: str
    method: str
    content: Callable[[Place], Proto] | None = None
    settings: Callable[[], pb.TelemetryCommand] | None = None


def _ended(place: Place) -> Proto:
    name = place.transaction()
    return pb.EndTransactionRequest(topic=topic(), message_id=name, transaction_id=name, resolution=pb.COMMIT)


REQUESTS: Final[Mapping[str, Mapping[str, Request]]] = {
    "QueryRoute": {"QueryRoute": Request("read a topic", "QueryRoute")},
    "Heartbeat": {"Heartbeat": Request("be a member of a group", "Heartbeat", settings=consumer)},
    "SendMessage": {"SendMessage": Request("send", "SendMessage")},
    "QueryAssignment": {"QueryAssignment": Request("read an assignment", "QueryAssignment")},
    "ReceiveMessage": {"ReceiveMessage": Request("receive", "ReceiveMessage")},
    "AckMessage": {"AckMessage": Request("acknowledge", "AckMessage")},
    "ForwardMessageToDeadLetterQueue": {
        "ForwardMessageToDeadLetterQueue": Request("move to the dead letters", "ForwardMessageToDeadLetterQueue")
    },
    "Telemetry": {
        "Telemetry of a consumer": Request("be a member of a group", "Telemetry", settings=consumer),
        "Telemetry of a producer": Request("send", "Telemetry", settings=producer),
    },
    "NotifyClientTermination": {
        "NotifyClientTermination": Request("be a member of a group", "NotifyClientTermination", settings=consumer)
    },
    "ChangeInvisibleDuration": {"ChangeInvisibleDuration": Request("move the end of a lease", "ChangeInvisibleDuration")},
    "RecallMessage": {"RecallMessage": Request("recall", "RecallMessage")},
    "SyncLiteSubscription": {"SyncLiteSubscription": Request("subscribe to lite topics", "SyncLiteSubscription")},
    "EndTransaction": {"EndTransaction": Request("end a transaction", "EndTransaction", _ended)},
}
"""Method -> its requests by name."""


def served() -> set[str]:
    """The methods of the service."""
    return {path.rpartition(b"/")[2].decode() for path in METHODS}


class Grpc:
    """Asks, each time as a new client on a new connection."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def ask(self, request: Request, who: Person, owner: Person | None = None) -> str:
        """Call -> the name of the code of the answer."""

        class Signed(Channel):
            user, password = who

        settings = request.settings().settings if request.settings is not None else None
        channel = Signed(self.place.world, f"g{self.place.serial()}", settings)
        clock = self.place.world.clock
        if settings is not None:
            clock.run_until(lambda: bool(channel.notified), 5_000)
        if request.method == "Telemetry":
            codes = {each.status.code for each in channel.notified}
        else:
            content = request.content(self.place) if request.content is not None else CALLS[request.method]()
            kind: Any = getattr(pb, f"{request.method}Response")
            told = channel.stream(request.method, content, kind)
            codes = {each.status.code for each in told if request.method not in STREAMED or each.HasField("status")}
        channel.hang_up()
        clock.run_for(10)
        (code,) = codes
        name = str(pb.Code.Name(code))
        return REFUSED if name == OUTSIDE and request.method in AFTER_SETTINGS else name
