"""A ban is applied by a running server: connected clients are disconnected and cannot connect again."""

from __future__ import annotations

from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.interop.test_guard import figure, refusal, start
from tests.interop.test_reload import Client
from tests.patience import until

pytestmark = pytest.mark.interop
OPEN = '[access]\nenabled = true\nanonymous = "guest"\n'


@pytest.mark.parametrize("word", ["client:bad", "user:guest", "address:127.0.0.0/8"])
def test_a_ban(tmp_path: Path, word: str) -> None:
    with start(tmp_path, OPEN, "--admin", "root:branch") as node:
        bad, good = Client(node, name="bad"), Client(node, name="good")
        (tmp_path / "headgate.toml").write_text(OPEN + f'banned = ["{word}"]\n')
        until(lambda: bad.ended == [0x87], 30)
        before = figure(node, refusal("mqtt", "not-allowed"))
        again = Client(node, name="bad")
        assert again.connected == [0x8A]
        assert figure(node, refusal("mqtt", "not-allowed")) == before + 1
        codes: list[int] = []
        old = paho.Client(CallbackAPIVersion.VERSION2, "bad", protocol=MQTTProtocolVersion.MQTTv311, reconnect_on_failure=False)
        old.on_connect = lambda _c, _u, _f, reason, _p: codes.append(reason.value)
        old.connect("127.0.0.1", node.port("mqtt"))
        old.loop_start()
        until(lambda: codes == [0x87], 30)
        old.loop_stop()
        until(lambda: good.ended == ([] if word == "client:bad" else [0x87]), 30)
        for client in (bad, good, again):
            client.client.loop_stop()
