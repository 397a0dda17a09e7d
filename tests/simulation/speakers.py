"""One client of each protocol that sends a message and gets those of others, in the words of docs/model.md.

Each goes through the real codecs of its protocol, in both directions, to and from a whole node.
"""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from domain.message import property as properties
from protocols import marks
from protocols.cloudevents import json as event_format
from protocols.cloudevents.event import CloudEvent, is_json_type
from protocols.cloudevents.instant import rfc3339, rfc3339_ms
from protocols.coap.message import media, option
from protocols.coap.message import message as coap
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt import property as props
from protocols.mqtt.property import NONE, Properties
from protocols.mqtt.publish import Ack, Publish
from protocols.mqtt.subscribe import Suback, Subscribe
from protocols.remoting import codes
from tests.protocols.coap.broker import Devices
from tests.simulation.caller import Caller, records
from tests.simulation.client import V5, MqttClient
from tests.simulation.http_caller import HttpCaller
from tests.simulation.sender import Sender
from tests.simulation.simple import Publisher, Receiver
from tests.simulation.world import World

TOPIC = "m"
WAIT_MS = 1_000
EXTENSIONS = ("partitionkey", "expirytime", "deliverytime", "traceparent", "tracestate")
TYPE, EVENT, TRACE, USER = "content type", "attributes of an event", "trace context", "user properties"
GROUP, EXPIRY, DELIVERY, PATH = "message group", "expiry", "delivery time", "path below the topic"
LATEST = "latest value"
QOS_1_AS_PUBLISHED = 1 | 8
"""Options of a subscription: QoS 1, Retain As Published."""


@dataclass(frozen=True)
class Said:
    """A message in the words of the table: `fields` has the value of each row but the body; times are epoch ms."""

    body: bytes
    fields: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str) -> Any:
        return self.fields.get(name)


class Speaker:
    """A client of one protocol."""

    def send(self, said: Said) -> None:
        raise NotImplementedError

    def heard(self) -> list[Said]:
        """The messages that have arrived since the last call."""
        raise NotImplementedError


def kept(**fields: Any) -> dict[str, Any]:
    """The fields that have a value, by the names of the table (`_` stands for a space)."""
    return {name.replace("_", " "): value for name, value in fields.items() if value not in (None, "", {}, ("", ""))}


def shared_properties(said: Said) -> dict[str, str]:
    """What every protocol with properties calls by the same names: user properties, trace context, attributes of an event."""
    out = dict(said.get(USER) or {})
    parent, state = said.get(TRACE) or ("", "")
    out |= {name: value for name, value in (("traceparent", parent), ("tracestate", state)) if value}
    event = said.get(EVENT)
    if event:
        out |= {f"CE_{name}": value for name, value in event.items()}
        if said.get(TYPE):
            out["CE_datacontenttype"] = said.get(TYPE)
    return out


def sdk_properties(said: Said) -> dict[str, str]:
    """`shared_properties`, with what SDKs have no other place for."""
    out = shared_properties(said)
    if said.get(TYPE) and not said.get(EVENT):
        out[properties.CONTENT_TYPE] = said.get(TYPE)
    if said.get(EXPIRY):
        out[properties.EXPIRES_AT] = rfc3339(said.get(EXPIRY))
    if said.get(LATEST):
        out[properties.MQTT_RETAIN] = "true"
    return out


def from_sdk_properties(pairs: dict[str, str]) -> dict[str, Any]:
    """The fields of `sdk_properties`."""
    pairs = dict(pairs)
    expires_at = pairs.pop(properties.EXPIRES_AT, "")
    kind = pairs.pop(properties.CONTENT_TYPE, "") or pairs.get(properties.CE_DATACONTENTTYPE, "")
    latest = pairs.pop(properties.MQTT_RETAIN, "") == "true" or None
    expiry = rfc3339_ms(expires_at.encode()) if expires_at else None
    return {**from_properties(pairs), **kept(content_type=kind, expiry=expiry, latest_value=latest)}


def from_properties(pairs: dict[str, str]) -> dict[str, Any]:
    """The fields of `shared_properties`."""
    event = {name[3:]: value for name, value in pairs.items() if name.startswith("CE_")}
    event.pop("datacontenttype", None)
    user = {name: value for name, value in pairs.items() if not name.startswith("CE_") and name not in EXTENSIONS}
    return kept(
        attributes_of_an_event=without_extensions(event),
        trace_context=(pairs.get("traceparent", ""), pairs.get("tracestate", "")),
        user_properties=user,
    )


def without_extensions(event: dict[str, str]) -> dict[str, str]:
    """The attributes without those that have a row of their own."""
    return {name: value for name, value in event.items() if name not in EXTENSIONS}


def event_of(said: Said) -> dict[str, str]:
    """All attributes of the event that the message is, as a client of CloudEvents sets them."""
    out = dict(said.get(EVENT))
    parent, state = said.get(TRACE) or ("", "")
    for name, value in (("partitionkey", said.get(GROUP)), ("traceparent", parent), ("tracestate", state)):
        if value:
            out[name] = value
    for name, ms in (("expirytime", said.get(EXPIRY)), ("deliverytime", said.get(DELIVERY))):
        if ms:
            out[name] = rfc3339(ms)
    if said.get(TYPE):
        out["datacontenttype"] = said.get(TYPE)
    return out


def from_event(attributes: dict[str, str]) -> dict[str, Any]:
    """The fields of `event_of`."""
    event = dict(attributes)
    kind = event.pop("datacontenttype", "")
    times = {name: rfc3339_ms(event[name].encode()) if name in event else None for name in ("expirytime", "deliverytime")}
    return kept(
        attributes_of_an_event=without_extensions(event), content_type=kind, message_group=event.get("partitionkey"),
        expiry=times["expirytime"], delivery_time=times["deliverytime"],
        trace_context=(event.get("traceparent", ""), event.get("tracestate", "")),
    )  # fmt: skip


def json_event(said: Said) -> bytes:
    """The message as a JSON event."""
    attributes = {name.encode(): value.encode() for name, value in event_of(said).items()}
    return event_format.encode(CloudEvent(attributes, said.body, is_json_type((said.get(TYPE) or "").encode())))


def from_json_event(text: bytes) -> Said:
    """`json_event` backwards."""
    event = event_format.decode(text)
    return Said(event.data, from_event({name.decode(): value.decode() for name, value in event.attributes.items()}))


def below(path: str) -> str:
    """The path below the topic."""
    return path.partition("/")[2]


def path_of(said: Said) -> str:
    """The MQTT topic of a message."""
    return f"{TOPIC}/{said.get(PATH)}" if said.get(PATH) else TOPIC


class Remoting(Speaker):
    """A producer, and a reader by offset."""

    def __init__(self, world: World) -> None:
        self._producer = Sender(world, "remoting-producer")
        self._reader = Caller(world, "remoting-reader")
        self._next = 0

    def send(self, said: Said) -> None:
        pairs = sdk_properties(said)
        for key, name in ((properties.KEYS, "keys"), (properties.TAGS, "tag"), (properties.SHARDING_KEY, GROUP)):
            if said.get(name):
                pairs[key] = said.get(name)
        if said.get(DELIVERY):
            pairs[properties.TIMER_DELIVER_MS] = str(said.get(DELIVERY))
        self._producer.send(TOPIC, said.body, -1, 0, **pairs)

    def heard(self) -> list[Said]:
        fields = {
            "consumerGroup": "remoting-readers", "topic": TOPIC, "queueId": "0", "queueOffset": str(self._next),
            "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "subscription": "*", "subVersion": "0",
        }  # fmt: skip
        answer = self._reader.call(codes.PULL, fields)
        self._next = int((answer.fields() or {}).get("nextBeginOffset", self._next))
        out = []
        for record in records(answer.body) if answer.code == 0 else []:
            pairs = properties.decode(record.properties)
            due = pairs.get(properties.TIMER_DELIVER_MS)
            user = {name: value for name, value in pairs.items() if name in marks.SDK_NAMES or not properties.is_reserved(name)}
            more = kept(
                keys=pairs.get(properties.KEYS), tag=pairs.get(properties.TAGS),
                message_group=pairs.get(properties.SHARDING_KEY),
                delivery_time=int(due) if due else None,
                path_below_the_topic=below(pairs.get(properties.ORIGIN_MQTT_TOPIC, "")),
            )  # fmt: skip
            out.append(Said(record.body, {**from_sdk_properties(user), **more}))
        return out


class Grpc(Speaker):
    """A producer and a simple consumer."""

    def __init__(self, world: World) -> None:
        self._producer = Publisher(world, "grpc-producer", TOPIC)
        self._consumer = Receiver(world, "grpc-consumer", "grpc-consumers", TOPIC)
        world.clock.run_for(500)

    def send(self, said: Said) -> None:
        kind = pb.DELAY if said.get(DELIVERY) else pb.FIFO if said.get(GROUP) else pb.NORMAL
        self._producer.send_message(said.body, kind, self._fill(said))

    def _fill(self, said: Said) -> Callable[[pb.Message], None]:
        def fill(message: pb.Message) -> None:
            system = message.system_properties
            if said.get("keys"):
                system.keys.extend(said.get("keys").split(" "))
            if said.get("tag"):
                system.tag = said.get("tag")
            if said.get(GROUP):
                system.message_group = said.get(GROUP)
            if said.get(DELIVERY):
                system.delivery_timestamp.FromMilliseconds(said.get(DELIVERY))
            message.user_properties.update(sdk_properties(said))

        return fill

    def heard(self) -> list[Said]:
        out = []
        for message in self._consumer.receive(invisible_ms=60_000):
            assert self._consumer.ack(message) == pb.OK
            system = message.system_properties
            more = kept(
                keys=" ".join(system.keys), tag=system.tag, message_group=system.message_group,
                delivery_time=system.delivery_timestamp.ToMilliseconds() if system.HasField("delivery_timestamp") else None,
            )  # fmt: skip
            out.append(Said(message.body, {**from_sdk_properties(dict(message.user_properties)), **more}))
        return out


class Mqtt(MqttClient, Speaker):
    """One client of a version, with a subscription to the topic and all paths below it. `events`: it speaks CloudEvents."""

    def __init__(self, world: World, version: int, events: bool = False) -> None:
        super().__init__(world, f"mqtt-{version}-{events}", version)
        self._arrived: list[tuple[int, Publish]] = []
        self._serial = 0
        self.connect(clean=True, expiry_s=0)
        self.ask(Subscribe(1, [(f"{TOPIC}/#", QOS_1_AS_PUBLISHED if version == V5 else 1)]), Suback)

    def lost(self) -> None:
        raise AssertionError("the node has closed the connection")

    def arrived(self, packet: Publish) -> None:
        """Record when a message arrived: its expiry is relative to that."""
        self._arrived.append((self.world.clock.wall_ms(), packet))

    def send(self, said: Said) -> None:
        self._serial = self._serial % 60_000 + 1
        body, about = said.body, NONE
        if self.version == V5:
            about = self._about(said)
        elif said.get(EVENT):
            body = json_event(said)
        answer = self.ask(Publish(path_of(said).encode(), body, 1, bool(said.get(LATEST)), False, self._serial, about), Ack)
        assert isinstance(answer, Ack)
        assert answer.code == 0, answer.code

    def _about(self, said: Said) -> Properties:
        out = Properties()
        if said.get(TYPE):
            out.texts[props.CONTENT_TYPE] = said.get(TYPE)
        if said.get(EVENT):
            pairs = {**(said.get(USER) or {}), **event_of(said)}
            pairs.pop("datacontenttype", None)
        else:
            pairs = shared_properties(said)
            for name, key in (("keys", "mq-key"), ("tag", "mq-tag"), (GROUP, "messageGroup")):
                if said.get(name):
                    pairs[key] = said.get(name)
            if said.get(DELIVERY):
                pairs["deliverytime"] = rfc3339(said.get(DELIVERY))
        if said.get(EXPIRY) and not said.get(EVENT):
            out.numbers[props.MESSAGE_EXPIRY] = round((said.get(EXPIRY) - self.world.clock.wall_ms()) / 1000)
        out.user = list(pairs.items())
        return out

    def heard(self) -> list[Said]:
        self.world.clock.run_for(50)
        arrived, self._arrived = self._arrived, []
        return [self._said(packet, at_ms) for at_ms, packet in arrived]

    def _said(self, packet: Publish, at_ms: int) -> Said:
        latest = True if packet.retain and self.version == V5 else None
        path = kept(path_below_the_topic=below(packet.topic.decode()), latest_value=latest)
        if self.version != V5:
            if b'"specversion"' in packet.body:
                found = from_json_event(packet.body)
                return Said(found.body, {**found.fields, **path})
            return Said(packet.body, path)
        about = packet.properties
        kind = about.texts.get(props.CONTENT_TYPE, "")
        if kind.startswith("application/cloudevents"):
            found = from_json_event(packet.body)
            pairs, body, fields = dict(about.user), found.body, found.fields
            return Said(body, {**from_properties(pairs), **fields, **path})
        pairs = dict(about.user)
        if "specversion" in pairs:
            event = {name: value for name, value in pairs.items() if name.isalnum() and name.islower() and name.isascii()}
            user = {name: value for name, value in pairs.items() if name not in event and name != "messageGroup"}
            fields = from_event({**event, **({"datacontenttype": kind} if kind else {})})
            return Said(packet.body, {**fields, **kept(user_properties=user), **path})
        left_s = about.numbers.get(props.MESSAGE_EXPIRY)
        named = {name: pairs.pop(key, None) for name, key in (("keys", "mq-key"), ("tag", "mq-tag"), (GROUP, "messageGroup"))}
        due = pairs.pop("deliverytime", "")
        more = kept(
            content_type=kind, delivery_time=rfc3339_ms(due.encode()) if due else None,
            expiry=at_ms + left_s * 1000 if left_s is not None else None, **named,
        )  # fmt: skip
        return Said(packet.body, {**from_properties(pairs), **more, **path})


class Coap(Speaker):
    """One client, with a consumer group of its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        assert world.parts is not None
        self._device = Devices(world.parts, world.clock).device(host="192.0.2.7")

    def send(self, said: Said) -> None:
        now_ms = self._world.clock.wall_ms()
        parent, state = said.get(TRACE) or ("", "")
        delay_ms = max(0, (said.get(DELIVERY) or now_ms) - now_ms)
        queries = {
            "key": said.get("keys"), "tag": said.get("tag"), "mg": said.get(GROUP), "traceparent": parent, "tracestate": state,
            "delay_ms": str(delay_ms) if said.get(DELIVERY) else "",
            "ttl_ms": str(said.get(EXPIRY) - now_ms - delay_ms) if said.get(EXPIRY) else "",
        }  # fmt: skip
        query = [f"{name}={value}" for name, value in queries.items() if value]
        kind = [(option.CONTENT_FORMAT, coap.uint(media.content_format(said.get(TYPE))))] if said.get(TYPE) else []
        code, done = (coap.PUT, (coap.CREATED, coap.CHANGED)) if said.get(LATEST) else (coap.POST, (coap.CREATED,))
        assert self._device.response(code, f"mq/{path_of(said)}", said.body, kind, query).code in done

    def heard(self) -> list[Said]:
        self._world.clock.run_for(50)
        place = f"mq/{TOPIC}"
        out: list[Said] = []
        while True:
            answer = self._device.response(coap.GET, place, b"", [], ["group=coap-devices"])
            if answer.code == coap.NOT_FOUND:
                return out
            found = dict(answer.options)
            lease = [value.decode() for number, value in answer.options if number == option.LOCATION_QUERY]
            assert self._device.response(coap.DELETE, place, b"", [], lease).code == coap.DELETED
            kind, age = found.get(option.CONTENT_FORMAT), found.get(option.MAX_AGE)
            out.append(Said(answer.payload, kept(
                content_type=media.content_type(int.from_bytes(kind, "big")) if kind is not None else "",
                expiry=self._world.clock.wall_ms() + 1000 * int.from_bytes(age, "big") if age is not None else None,
            )))  # fmt: skip

    def put(self, path: str, body: bytes, query: str) -> int:
        """PUT a latest value, with one query. Returns the code of the answer."""
        return self._device.response(coap.PUT, f"mq/{path}", body, [], [query]).code


class Http(Speaker):
    """A sender with `mq-` fields, and a reader by offset."""

    def __init__(self, world: World) -> None:
        self._caller = HttpCaller(world)
        self._next = 0

    def send(self, said: Said) -> None:
        parent, state = said.get(TRACE) or ("", "")
        user = {name: value for name, value in shared_properties(said).items() if name not in ("traceparent", "tracestate")}
        lines = {
            "mq-key": said.get("keys"), "mq-tag": said.get("tag"), "mq-message-group": said.get(GROUP),
            "mq-deliver-at": rfc3339(said.get(DELIVERY)) if said.get(DELIVERY) else "",
            "mq-expires-at": rfc3339(said.get(EXPIRY)) if said.get(EXPIRY) else "",
            "mq-properties": json.dumps(user) if user else "", "mq-retain": "true" if said.get(LATEST) else "",
        }  # fmt: skip
        more = {name: urllib.parse.quote(value, safe="") for name, value in lines.items() if value}
        plain = {"traceparent": parent, "tracestate": state, "content-type": said.get(TYPE) or ""}
        more |= {name: value for name, value in plain.items() if value}
        path = "/".join(urllib.parse.quote(level, safe="") for level in path_of(said).split("/"))
        status, _, answer = self._caller.ask("POST", f"/v1/topics/{path}/messages", said.body, more=more)
        assert status == 201, answer

    def heard(self) -> list[Said]:
        status, _, answer = self._caller.ask("GET", f"/v1/topics/{TOPIC}/queues/0?offset={self._next}&max=32")
        assert status == 200, answer
        read = json.loads(answer)
        self._next = read["next"]
        return [self._said(message) for message in read["messages"]]

    def _said(self, message: dict[str, Any]) -> Said:
        times = {name: rfc3339_ms(message[key].encode()) if key in message else None
                 for name, key in (("delivery_time", "deliverAt"), ("expiry", "expiresAt"))}  # fmt: skip
        more = kept(
            keys=message.get("key"), tag=message.get("tag"), message_group=message.get("messageGroup"),
            content_type=message.get("contentType"), path_below_the_topic=below(message["path"]),
            latest_value=message.get("retain"), **times,
        )  # fmt: skip
        return Said(base64.b64decode(message["body"]), {**from_properties(message["properties"]), **more})


class HttpEvents(Speaker):
    """A sender of CloudEvents in binary and structured mode in turn, and a reader of batches."""

    def __init__(self, world: World) -> None:
        self._caller = HttpCaller(world)
        self._next = 0
        self._binary = False

    def send(self, said: Said) -> None:
        self._binary = not self._binary
        path = "/".join(urllib.parse.quote(level, safe="") for level in path_of(said).split("/"))
        if self._binary:
            attributes = event_of(said)
            kind = attributes.pop("datacontenttype", "")
            more = {f"ce-{name}": urllib.parse.quote(value, safe="") for name, value in attributes.items()}
            body, more = said.body, {**more, **({"content-type": kind} if kind else {})}
        else:
            body, more = json_event(said), {"content-type": "application/cloudevents+json"}
        if said.get(LATEST):
            more["mq-retain"] = "true"
        status, _, answer = self._caller.ask("POST", f"/ce/{path}", body, more=more)
        assert status == 204, answer

    def heard(self) -> list[Said]:
        target = f"/v1/topics/{TOPIC}/queues/0?offset={self._next}&max=32"
        status, fields, answer = self._caller.ask("GET", target, accept="application/cloudevents-batch+json")
        assert status == 200, answer
        self._next = int(fields["mq-next-offset"])
        found: list[bytes] = []
        for _ in event_format.elements(answer, 64, found):
            continue
        return [from_json_event(text) for text in found]


def speakers(world: World) -> dict[str, Speaker]:
    """A client of each protocol of the table, on a node with the topic."""
    tool = Caller(world, "tool")
    tool.done(codes.UPDATE_TOPIC, {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": "+message.type=MIXED",
    })  # fmt: skip
    return {
        "Remoting": Remoting(world), "gRPC": Grpc(world), "MQTT 3.1.1": Mqtt(world, 4), "MQTT 5": Mqtt(world, 5),
        "CoAP": Coap(world), "HTTP": Http(world), "CloudEvents, HTTP": HttpEvents(world),
        "CloudEvents, MQTT 5": Mqtt(world, 5, events=True),
    }  # fmt: skip
