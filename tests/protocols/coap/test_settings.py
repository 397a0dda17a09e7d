"""Settings, and media types."""

from __future__ import annotations

import pytest

from domain.errors import ConfigError
from gateway.node.settings_tables import read
from protocols.coap.adapter import PROTOCOL
from protocols.coap.message import media
from protocols.coap.message.option import ABSENT
from protocols.coap.settings import CoapSettings
from protocols.setting import Setting
from tests.protocols.coap.stage import Dice


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"block_byte": 64}, "block_bytes"), ({"block_bytes": 100}, "512, 1024 is wanted"), ({"answers_max": 0}, "answers_max"),
        ({"answers_max": "1"}, "answers_max"), ({"block1_bytes_max": 5 * 1024 * 1024}, "4194304"),
    ],
)  # fmt: skip
def test_setting_that_is_none_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(CoapSettings, "coap", options, {})


def test_declaration_makes_an_adapter() -> None:
    assert PROTOCOL.datagram is not None
    adapter = PROTOCOL.datagram(Setting("c", "b", "h", {}, Dice(), lambda: 0), CoapSettings(block_bytes=64))
    assert adapter.name == "coap"
    assert adapter.bind(0).deadline() is None


@pytest.mark.parametrize("number", [*media.TYPES, 65_000])
def test_format_is_the_same_after_a_round_trip(number: int) -> None:
    assert media.content_format(media.content_type(number)) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("text/plain", 0), ("Text/Plain;charset=UTF-8", 0), ("application/json; charset=utf-8", 50), ("text/csv", ABSENT),
        ("text/plain; charset=latin1", ABSENT), ("application/octet-stream; coap-content-format=x", ABSENT),
    ],
)  # fmt: skip
def test_media_types_of_other_protocols(text: str, number: int) -> None:
    assert media.content_format(text) == number
