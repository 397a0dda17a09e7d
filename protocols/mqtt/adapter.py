"""The adapter of MQTT, a stream protocol, and its declaration."""

from __future__ import annotations

from typing import Final, final

from protocols.adapter import Peer
from protocols.declaration import Declaration, Listener
from protocols.mqtt.connection import MqttConnection
from protocols.mqtt.inflated import InflatedForms
from protocols.mqtt.output import LOSSES, Output
from protocols.mqtt.reasons import WORDS
from protocols.mqtt.recognition import begins, without_tls
from protocols.mqtt.settings import MqttSettings
from protocols.setting import Setting


@final
class MqttAdapter:
    """The stream adapter of MQTT.

    lost   QoS 0 messages that were dropped, by reason (`output.LOSSES`)
    """

    name = "mqtt"

    def __init__(self, setting: Setting, config: MqttSettings) -> None:
        self._setting = setting
        self._config = config
        self._inflated = InflatedForms()
        self.lost = dict.fromkeys(LOSSES, 0)

    def connect(self, peer: Peer, now: int) -> MqttConnection:
        """A new connection."""
        setting, config = self._setting, self._config
        output = Output(config.output_bytes_max, self._count_lost, self._inflated, setting.unread, peer.host)
        return MqttConnection(setting, config, peer, now, output)

    def _count_lost(self, reason: str, number: int) -> None:
        self.lost[reason] += number


PROTOCOL: Final = Declaration(
    "mqtt",
    settings=MqttSettings,
    stream=MqttAdapter,
    listeners=(
        Listener("mqtt", 1883, "MQTT 3.1.1 and 5.0", ("mqtt",), place=50),
        Listener("mqtts", 8883, "MQTT over TLS", ("mqtt",), secure=True, place=60),
    ),
    rank=50,
    begins=begins,
    without_tls=without_tls,
    path="/mqtt",
    alpn=("mqtt",),
    words=WORDS,
)
