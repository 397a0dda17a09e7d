"""Configuration: rank of the sources, and one clear sentence for everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.errors import ConfigError
from domain.topic.topic import Durability
from gateway.node.composition import known
from gateway.node.settings import Config, admin_address, load

KNOWN = known()


def test_defaults_need_no_file() -> None:
    assert load({}, {}, KNOWN) == Config(ports=KNOWN.ports, secrets=frozenset(KNOWN.secrets()))
    assert load({}, {"PATH": "/bin", "HEADGATE_PURE": "1"}, KNOWN).port("mqtt") == 1883


def test_option_beats_environment_beats_file(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text('cluster = "file"\nbroker = "file"\ndata = "file"\n[ports]\nmqtt = 1\n[mqtt]\nreceive_maximum = 5\n')
    config = load(
        {"data": "option", "host": None},
        {"HEADGATE_DATA": "environment", "HEADGATE_BROKER": "environment", "HEADGATE_MQTT_RECEIVE_MAXIMUM": "9"},
        KNOWN,
        str(file),
    )
    assert (config.data, config.broker, config.cluster) == ("option", "environment", "file")
    assert config.ports["mqtt"] == 1
    assert config.table("mqtt") == {"receive_maximum": 9}
    sources = {name: source for name, _, source in config.rows()}
    assert sources["data"] == "option --data"
    assert sources["broker"] == "environment HEADGATE_BROKER"
    assert sources["cluster"] == f"file {file}"
    assert sources["mqtt.receive_maximum"] == "environment HEADGATE_MQTT_RECEIVE_MAXIMUM"
    assert sources["host"] == "default"


def test_every_setting_can_be_given_by_environment() -> None:
    config = load(
        {},
        {
            "HEADGATE_PORT_OFFSET": "100",
            "HEADGATE_PORTS_GRPC": "9",
            "HEADGATE_DURABILITY": "page",
            "HEADGATE_INSECURE": "yes",
            "HEADGATE_HOST": "0.0.0.0",
            "HEADGATE_CONNECTIONS_MAX": "7",
        },
        KNOWN,
    )
    assert config.port("grpc") == 109
    assert config.port("mqtt") == KNOWN.ports["mqtt"] + 100
    assert config.durability is Durability.PAGE
    assert (config.insecure, config.host, config.connections_max) == (True, "0.0.0.0", 7)


def test_port_zero_stays_any_free_port() -> None:
    assert load({"ports.mqtt": 0, "port_offset": 1000}, {}, KNOWN).port("mqtt") == 0


@pytest.mark.parametrize(
    ("options", "port"),
    [
        ({}, 10_909),
        ({"port_offset": 1000}, 11_909),
        ({"ports.remoting": 20_000, "port_offset": 1000}, 20_998),
        ({"ports.remoting": 20_000, "ports.vip": 20_001}, 20_001),
        ({"ports.remoting": 0, "port_offset": 1000}, 0),
        ({"ports.remoting": 1}, 0),
    ],
)
def test_the_vip_port_is_two_below_that_of_remoting_unless_it_is_set(options: dict[str, object], port: int) -> None:
    """MixAll.brokerVIPChannel of Apache's Java client computes it."""
    assert load(options, {}, KNOWN).port("vip") == port


@pytest.mark.parametrize(
    ("options", "environment", "text", "said"),
    [
        ({"ports.mqt": "1"}, {}, "", "did you mean 'ports.mqtt'"),
        ({}, {"HEADGATE_DATTA": "x"}, "", "did you mean 'HEADGATE_DATA'"),
        ({}, {}, "durabilty = 'page'", "did you mean 'durability'"),
        ({}, {}, "[ports]\nmqqt = 3", "did you mean 'ports.mqtt'"),
        ({}, {}, "[stor]\nx = 3", "did you mean 'store'"),
        ({}, {}, "data = [", "is not TOML"),
        ({}, {}, "data = 3", "data is 3: text is wanted"),
        ({"durability": "replicated"}, {}, "", "durability is replicated: this node has no replicas"),
        ({"durability": "doubled"}, {}, "", "one of page, flushed, replicated"),
        ({"ports.mqtt": "70000"}, {}, "", "from 0 to 65535"),
        ({"ports.mqtt": "x"}, {}, "", "a whole number from 0 to 65535 is wanted"),
        ({"port_offset": 60_000}, {}, "", "at most 65535"),
        ({"host": "0.0.0.0"}, {}, "", "--insecure"),
        ({"certificate": "a.pem"}, {}, "", "belong together"),
        ({}, {"HEADGATE_INSECURE": "perhaps"}, "", "true or false"),
    ],
)
def test_mistakes_are_named(
    options: dict[str, object], environment: dict[str, str], text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load(options, environment, KNOWN, str(file))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_consent(host: str) -> None:
    assert load({"host": host}, {}, KNOWN).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.example"])
def test_every_other_host_does(host: str) -> None:
    with pytest.raises(ConfigError, match="--insecure"):
        load({"host": host}, {}, KNOWN)


def test_absent_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read"):
        load({}, {}, KNOWN, "nowhere.toml")


@pytest.mark.parametrize(
    ("options", "environment", "text"),
    [
        ({}, {}, ""),
        ({"port_offset": 1000}, {}, 'admin_host = "::1"\n'),
        ({}, {"HEADGATE_PORT_OFFSET": "70"}, "port_offset = 5\n[ports]\nadmin = 99\n"),
        ({"ports.admin": "7"}, {"HEADGATE_PORTS_ADMIN": "8", "HEADGATE_ADMIN_HOST": "127.0.0.9"}, "[ports]\nadmin = 99\n"),
        ({"ports.admin": "0", "admin_host": "localhost", "port_offset": 3}, {}, ""),
    ],
)
def test_the_admin_port_is_known_before_all_settings_are(
    options: dict[str, object], environment: dict[str, str], text: str, tmp_path: Path
) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(text)
    config = load(options, environment, KNOWN, str(file))
    assert admin_address(options, environment, str(file)) == (config.admin_host, config.port("admin"))


@pytest.mark.parametrize("text", ["port_offset = 'x'\n", "ports = 3\n", "= 4\n"])
def test_wrong_settings_are_left_to_who_reads_all_of_them(text: str, tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(text)
    assert admin_address({}, {}, str(file)) is None
    assert admin_address({}, {}, str(tmp_path / "absent")) is None
