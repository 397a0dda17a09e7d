"""MQTT 3.1, 3.1.1 and 5.0 over any stream."""

from __future__ import annotations

from protocols.adapter import Setting
from protocols.mqtt.adapter import MqttAdapter
from protocols.mqtt.config import read


def create(setting: Setting) -> MqttAdapter:
    """The adapter. Raises ConfigError for options that it does not know."""
    return MqttAdapter(setting, read(setting.options))
