"""The loads: parameters of the generator, port, compared sides, and unit of the figure."""

from __future__ import annotations

from dataclasses import dataclass

OWN = ("headgate",)
ROCKETMQ = ("headgate", "apache")
MQTT = ("headgate", "mosquitto", "mochi", "nats")
NO_SHARES = ("headgate", "mosquitto", "mochi")
"""Sides with shared subscriptions. NATS has MQTT 3.1.1, in which `$share/...` is an ordinary filter."""

HALF = -1
"""A rate: half of the rate that Headgate reaches in `mqtt-qos1` on this machine. Measured first; the same for all sides."""


@dataclass(frozen=True)
class Shape:
    """One load of the generator.

    text          description for people
    family        table of docs/performance.md: rocketmq, mqtt or edge
    window        messages in flight on each connection
    count         messages, at scale 1
    sides         servers that are compared
    before        shape that fills the topic first; "": none
    drained       true: a run consumes the messages that filled the topic
    rate          messages a second; 0: as fast as the window allows
    qos           MQTT's quality of service
    publishers    MQTT publishers
    subscribers   MQTT subscribers
    settle_s      seconds to wait before the server's CPU is read, for work that is done after the answer
    """

    text: str
    family: str
    mode: str
    port: str
    conns: int
    window: int
    count: int
    sides: tuple[str, ...]
    size: int = 1024
    before: str = ""
    drained: bool = False
    rate: int = 0
    qos: int = 1
    publishers: int = 1
    subscribers: int = 1
    settle_s: float = 0.0
    topic: str = "bench"

    @property
    def unit(self) -> str:
        """Unit of the figure: CPU a message, CPU a connection, latency, lateness, or memory a connection."""
        if self.mode == "mqtt-idle":
            return "KB a connection"
        if self.mode == "mqtt-connect":
            return "CPU us a connection"
        if self.mode == "remoting-timer":
            return "lateness"
        paced = self.rate and self.mode != "mqtt-fan-out"
        return "latency" if paced or self.mode.endswith("e2e") else "CPU us a message"

    @property
    def flying(self) -> str:
        """Connections and messages in flight on each, or publishers and subscribers."""
        if self.mode == "mqtt-fan-out":
            return f"{self.publishers} to {self.subscribers:,}"
        if self.mode == "mqtt-fan-in":
            return f"{self.publishers} to {self.subscribers}"
        if self.mode == "mqtt-idle":
            return f"{self.count:,}"
        return f"{self.conns} x {self.window}"


def _rocketmq(text: str, mode: str, conns: int, window: int, count: int, before: str = "", rate: int = 0,
              drained: bool = False, settle_s: float = 0.0) -> Shape:  # fmt: skip
    port = "grpc" if mode.startswith("grpc") else "remoting"
    return Shape(
        text, "rocketmq", mode, port, conns, window, count, ROCKETMQ, before=before, rate=rate, drained=drained,
        settle_s=settle_s,
    )  # fmt: skip


def _mqtt(text: str, qos: int, conns: int, window: int, count: int, mode: str = "mqtt", rate: int = 0, publishers: int = 1,
          subscribers: int = 1, sides: tuple[str, ...] = MQTT) -> Shape:  # fmt: skip
    return Shape(
        text, "mqtt", mode, "mqtt", conns, window, count, sides, qos=qos, rate=rate, publishers=publishers,
        subscribers=subscribers,
    )  # fmt: skip


def _edge(text: str, mode: str, port: str, conns: int, count: int, window: int = 1) -> Shape:
    return Shape(text, "edge", mode, port, conns, window, count, OWN)


SHAPES = {
    "remoting-send": _rocketmq("remoting, synchronous sends", "remoting-send", 8, 16, 300_000),
    "remoting-send-32x1": _rocketmq("the same, one in flight", "remoting-send", 32, 1, 160_000),
    "remoting-send-1x1": _rocketmq("the same, a lone sender", "remoting-send", 1, 1, 20_000),
    "remoting-pull": _rocketmq("remoting, pull by 32", "remoting-pull", 4, 1, 2_000_000, "remoting-send"),
    "remoting-pop": _rocketmq(
        "remoting, POP by 32 and an acknowledgement each", "remoting-pop", 4, 1, 100_000, "remoting-send", drained=True
    ),
    "remoting-timer-insert": _rocketmq(
        "remoting, timers that are set (due in an hour)", "remoting-timer-insert", 8, 16, 100_000, settle_s=2.0
    ),
    "remoting-timer": _rocketmq("timers at 2,000/s: how late they come", "remoting-timer", 1, 16, 20_000, rate=2000),
    "remoting-transaction": _rocketmq(
        "remoting, half message and commit, both answered", "remoting-transaction", 8, 8, 60_000, settle_s=1.0
    ),
    "remoting-transaction-1x1": _rocketmq("the same, a lone producer", "remoting-transaction", 1, 1, 5_000, settle_s=1.0),
    "remoting-e2e": _rocketmq("remoting, send to long-polled pull, 500/s", "remoting-e2e", 1, 1, 5_000, rate=500),
    "grpc-send": _rocketmq("gRPC SendMessage", "grpc-send", 8, 32, 120_000),
    "grpc-send-32x1": _rocketmq("the same, one in flight", "grpc-send", 32, 1, 80_000),
    "grpc-send-1x1": _rocketmq("the same, a lone sender", "grpc-send", 1, 1, 10_000),
    "grpc-receive": _rocketmq(
        "gRPC receive by 32 and an acknowledgement each", "grpc-receive", 8, 4, 60_000, "remoting-send", drained=True
    ),
    "grpc-e2e": _rocketmq("gRPC, send to long-polled receive, 500/s", "grpc-e2e", 1, 1, 5_000, rate=500),
    "mqtt-qos0": _mqtt("QoS 0, one to one", 0, 4, 256, 400_000),
    "mqtt-qos1": _mqtt("QoS 1, one to one", 1, 4, 64, 200_000),
    "mqtt-qos2": _mqtt("QoS 2, one to one", 2, 4, 64, 100_000),
    "mqtt-qos1-32x1": _mqtt("QoS 1, one in flight", 1, 32, 1, 160_000),
    "mqtt-qos1-1x1": _mqtt("QoS 1, a lone publisher", 1, 1, 1, 20_000),
    "mqtt-fan-out-qos0": _mqtt("QoS 0, each delivery", 0, 1, 8, 400_000, "mqtt-fan-out", subscribers=1000),
    "mqtt-fan-out-qos1": _mqtt("QoS 1, each delivery", 1, 1, 8, 300_000, "mqtt-fan-out", subscribers=1000),
    "mqtt-fan-out-paced": _mqtt(
        "QoS 1, each delivery, 20,000/s", 1, 1, 1, 200_000, "mqtt-fan-out", rate=20_000, publishers=5, subscribers=200
    ),
    "mqtt-fan-in": _mqtt(
        "QoS 1, to a shared group", 1, 1, 4, 200_000, "mqtt-fan-in", publishers=100, subscribers=4, sides=NO_SHARES
    ),
    "mqtt-connect": _mqtt("CONNECT to CONNACK, then DISCONNECT", 1, 16, 1, 20_000, "mqtt-connect"),
    "mqtt-idle": _mqtt("idle connections", 0, 16, 1, 10_000, "mqtt-idle"),
    "mqtt-idle-subscribed": _mqtt("idle connections with a subscription each", 1, 16, 1, 10_000, "mqtt-idle"),
    "mqtt-half-load": _mqtt("QoS 1 at half load", 1, 4, 1, 150_000, rate=HALF),
    "mqtt-e2e": _mqtt("QoS 1 at 500/s", 1, 1, 1, 5_000, rate=500),
    "coap": _edge("CoAP POST, confirmable", "coap-post", "coap", 256, 120_000),
    "coap-32x1": _edge("the same", "coap-post", "coap", 32, 80_000),
    "coap-1x1": _edge("the same, a lone client", "coap-post", "coap", 1, 20_000),
    "http": _edge("CloudEvent, binary, HTTP/1.1", "http-ce", "http", 16, 120_000),
    "http-32x1": _edge("the same", "http-ce", "http", 32, 120_000),
    "http-64x1": _edge("the same", "http-ce", "http", 64, 160_000),
    "http-1x1": _edge("the same, a lone client", "http-ce", "http", 1, 20_000),
    "http2": _edge("CloudEvent, binary, HTTP/2", "http2-ce", "http", 8, 120_000, 32),
    "http2-64x1": _edge("the same, one in flight", "http2-ce", "http", 64, 120_000),
}
FAMILIES = ("rocketmq", "mqtt", "edge")
