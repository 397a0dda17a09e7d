"""`[store]` with `kind = "rocketmq"`, and `--store rocketmq://…`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from domain.errors import ConfigError
from gateway.apache.relay.settings import RelaySettings
from gateway.apache.settings import RocketmqSettings
from gateway.link.servers import Servers
from gateway.node.composition import known
from gateway.node.node import Node
from gateway.node.options import OPTIONS, GivenOptions
from gateway.node.roles.apache import _strategy
from gateway.node.roles.cluster_access import has_cluster_users
from gateway.node.roles.store_address import StateAddress
from gateway.node.settings import Config, load
from gateway.node.storage import is_rocketmq, of_cluster, settings_of, state_address

STATE = 'kind = "rocketmq"\nnameservers = ["a:1"]\n[store.state]\n'
"""Begins settings with a state node."""


def config(text: str, tmp_path: Path, environment: dict[str, str] | None = None) -> Config:
    """The configuration in a file."""
    file = tmp_path / "headgate.toml"
    file.write_text(text)
    return load({}, environment or {}, known(), str(file))


def options(**given: Any) -> Config:
    """The configuration that options give."""
    return GivenOptions({**dict.fromkeys(OPTIONS), **given})()


def test_the_option_names_a_name_server() -> None:
    found = options(store="rocketmq://10.0.0.5:9876,10.0.0.6:9876", access_key_file="/key", store_ca="/ca")
    assert is_rocketmq(found)
    settings = of_cluster(found, RocketmqSettings)
    assert settings.servers.endpoints == (("10.0.0.5", 9876), ("10.0.0.6", 9876))
    assert (settings.access_key_file, settings.ca) == ("/key", "/ca")
    assert found.table("gateway") == {}


@pytest.mark.parametrize("between", [",", ";"])
def test_name_servers_are_separated_as_in_the_environment_and_as_apache_does(between: str) -> None:
    found = options(store=f"rocketmq://10.0.0.5:9876{between}10.0.0.6:9876")
    assert of_cluster(found, RocketmqSettings).servers.endpoints == (("10.0.0.5", 9876), ("10.0.0.6", 9876))


def test_an_address_without_that_scheme_is_a_store_of_ours() -> None:
    found = options(store="10.0.0.5:10911")
    assert not is_rocketmq(found)
    assert found.table("gateway") == {"store": "10.0.0.5:10911"}


def test_the_table_has_settings_of_the_cluster_the_relay_and_the_engine_beside_it(tmp_path: Path) -> None:
    found = config(
        '[store]\nkind = "rocketmq"\nnameservers = ["a:1"]\nsend = "latency"\nbroker_ports = 0\n'
        "[store.state]\nretention_ms = 5\n",
        tmp_path,
    )
    assert of_cluster(found, RocketmqSettings).send == "latency"
    assert of_cluster(found, RelaySettings).broker_ports == 0
    assert settings_of(found, 1).retention_ms == 5


def test_variables_name_name_servers(tmp_path: Path) -> None:
    environment = {"HEADGATE_STORE_KIND": "rocketmq", "HEADGATE_STORE_NAMESERVERS": "a:1;b:2"}
    assert of_cluster(config("", tmp_path, environment), RocketmqSettings).nameservers == ("a:1", "b:2")


def test_an_option_a_variable_or_the_table_names_the_state_node(tmp_path: Path) -> None:
    assert state_address(options(store="rocketmq://a:1")) is None
    found = options(store="rocketmq://a:1", state="10.0.0.7:10911")
    assert state_address(found) == StateAddress("10.0.0.7:10911")
    assert settings_of(found, 1) == settings_of(options(store="rocketmq://a:1"), 1)
    text = '[store]\nkind = "rocketmq"\nnameservers = ["a:1"]\n[store.state]\naddress = "b:2"\nca = "/ca"\nconnections = 3\n'
    found = config(text, tmp_path, {"HEADGATE_STORE_STATE_ACCESS_KEY_FILE": "/key"})
    assert state_address(found) == StateAddress("b:2", "/key", "/ca", connections=3)
    address = StateAddress("b:2", "/key", "/ca", connections=3)
    assert address.servers == Servers("store.state", (("b", 2),), "/key", "/ca")
    assert (address.servers.key_setting, address.servers.ca_setting) == ("store.state.access_key_file", "store.state.ca")
    assert address.of_node().connections == 3


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"roles": "gateway,store", "state": "a:1"}, "names the state node a:1, so this process is no store"),
        ({"roles": "store,nameserver"}, "a state node of a cluster has the role store alone"),
        ({"roles": "store", "host": "0.0.0.0"}, "no access control"),
        ({"roles": "gateway", "host": "0.0.0.0"}, "no access control"),
    ],
)
def test_roles_that_make_no_sense_are_refused(tmp_path: Path, given: dict[str, str], wrong: str) -> None:
    async def start() -> None:
        await Node(options(store="rocketmq://a:1", data=str(tmp_path / "data"), **given)).start()

    with pytest.raises(ConfigError, match=wrong):
        asyncio.run(start())
    assert not (tmp_path / "data").exists()


def test_a_state_node_is_of_a_cluster_only() -> None:
    with pytest.raises(ConfigError, match=r"store\.state is unknown"):
        settings_of(options(store="10.0.0.5:10911", state="a:1"), 1)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('kind = "kafka"', "kafka"),
        ('kind = "rocketmq"\nnameservers = ["nowhere"]', "nowhere"),
        ('kind = "rocketmq"\nnameservers = ["a:1"]\nsegment_bytes = 5', "segment_bytes"),
        ('kind = "rocketmq"\nnameservers = ["a:1"]\naccess_key_file = "a"\naccess_key_env = "b"', "one of them"),
        (f'{STATE}address = "nowhere"', "address has 'nowhere': HOST:PORT of the node's remoting port is wanted"),
        (f'{STATE}address = ""', "address is empty"),
        (f'{STATE}address = "a:1"\nsegment_bytes = 5', "store.state.segment_bytes"),
        (f'{STATE}address = "a:1"\nconnections = 17', "connections"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, text: str, wrong: str) -> None:
    found = config(f"[store]\n{text}\n", tmp_path)
    with pytest.raises(ConfigError, match=wrong):
        settings_read(found)


def settings_read(found: Config) -> None:
    """As the start reads them."""
    if is_rocketmq(found):
        of_cluster(found, RocketmqSettings)
        state_address(found)


@pytest.mark.parametrize(
    ("text", "given", "wrong"),
    [
        ("", {}, 'store.kind is not "rocketmq"'),
        ('[store]\nkind = "rocketmq"\nnameservers = ["a:1"]', {"HEADGATE_ADMIN": "a:b"}, "give no admin"),
        ("enabled = false", {}, "enabled is false"),
    ],
)
def test_users_of_a_cluster_need_one_and_no_others(tmp_path: Path, text: str, given: dict[str, str], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        has_cluster_users(config(f'[access]\nusers = "cluster"\n{text}\n', tmp_path, given))


def test_users_of_a_cluster_control_access(tmp_path: Path) -> None:
    table = '[store]\nkind = "rocketmq"\nnameservers = ["a:1"]\n'
    found = config(f'{table}[access]\nusers = "cluster"\n', tmp_path)
    assert has_cluster_users(found)
    assert found.controlled
    own = config(table, tmp_path)
    assert not has_cluster_users(own)
    assert not own.controlled


def test_settings_of_a_cluster_are_unknown_without_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nameservers"):
        settings_of(config('[store]\nnameservers = ["a:1"]\n', tmp_path), 1)


def test_a_strategy_that_nobody_has_is_refused() -> None:
    with pytest.raises(ConfigError, match="round-robin, latency, same-zone"):
        _strategy("random")


def test_a_name_server_is_asked_once_however_it_is_written(tmp_path: Path) -> None:
    found = config('[store]\nkind = "rocketmq"\nnameservers = ["a:1", " a:1", "b:2 "]\n', tmp_path)
    assert of_cluster(found, RocketmqSettings).servers.endpoints == (("a", 1), ("b", 2))
