"""Keys and authorities for connections to other servers, and the names of the settings in what goes wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.apache.settings import RocketmqSettings
from gateway.cluster.controller.settings import ControllerSettings
from gateway.cluster.registration.settings import RegistrationSettings
from gateway.cluster.replica.settings import ReplicationSettings
from gateway.link.servers import Servers, endpoints_of
from gateway.node.roles.server_access import ServerAccess
from gateway.node.roles.store_address import StateAddress, StoreAddress
from tests.interop import certificates
from tests.simulation.kit.clock import VirtualClock

KEY = "root:secret-1"
ALL = [
    ControllerSettings(("a:1", " a:1"), "/key", "/ca"),
    ReplicationSettings(("a:1", " a:1"), access_key_file="/key", ca="/ca"),
    RegistrationSettings(("a:1", " a:1"), "/key", "/ca"),
    RocketmqSettings(("a:1", " a:1"), "/key", ca="/ca"),
    StoreAddress("a:1, a:1", "/key", "/ca"),
    StateAddress("a:1, a:1", "/key", "/ca"),
]


@pytest.mark.parametrize("settings", ALL, ids=lambda each: type(each).__name__)
def test_each_table_names_its_servers_once_with_key_and_authorities_and_the_settings_of_these(settings: StoreAddress) -> None:
    servers = settings.servers
    assert (servers.endpoints, servers.key_file, servers.ca) == ((("a", 1),), "/key", "/ca")
    names = {field.name for field in dataclasses.fields(settings)}
    for setting in (servers.key_setting, servers.ca_setting):
        assert setting.startswith(f"{servers.table}.")
        assert setting.rpartition(".")[2] in names


def test_a_key_in_the_environment_has_its_own_setting() -> None:
    assert RocketmqSettings(("a:1",), access_key_env="KEY").servers.key_setting == "store.access_key_env"


@pytest.mark.parametrize("text", ["", "a", ":1", "a:0", "a:65536", "a:x", "a:1:"])
def test_what_is_no_address_is_refused_with_its_setting(text: str) -> None:
    with pytest.raises(ValueError, match=r"^peers has .*: HOST:PORT of a controller is wanted, as in 10\.0\.0\.5:9878$"):
        endpoints_of(["b:2", text], "peers", "a controller", 9878)


def test_without_files_nothing_is_signed_and_text_is_plain() -> None:
    access = ServerAccess(Servers("controller", (), "", ""))
    assert access.sign() is None
    assert access.kept_sign(VirtualClock()) is None
    assert access.tls() is None


def test_files_that_cannot_be_used_are_refused_with_their_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^replication\.access_key_file: "):
        ServerAccess(Servers("replication", (), str(tmp_path / "none"), ""))
    with pytest.raises(ConfigError, match=r"^gateway\.store_ca .*none cannot be used: "):
        ServerAccess(Servers("gateway", (), "", str(tmp_path / "none"), ca_name="store_ca"))


def test_a_key_that_changes_is_read_for_each_connection_and_each_second_where_it_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    clock = VirtualClock()
    access = ServerAccess(Servers("store", (), str(file), ""))
    first, kept = access.sign(), access.kept_sign(clock)
    file.write_text("next:secret-2")
    second = access.sign()
    assert first is not None
    assert second is not None
    assert kept is not None
    assert [sign({}, b"")["AccessKey"] for sign in (first, second, kept)] == ["root", "next", "root"]
    clock.run_for(1_001)
    assert kept({}, b"")["AccessKey"] == "next"
    file.unlink()
    for _ in range(3):
        clock.run_for(1_001)
        assert kept({}, b"")["AccessKey"] == "next"
    assert caplog.text.count("the key that was there before is used") == 1
    with pytest.raises(ConfigError):
        access.sign()
    with pytest.raises(ConfigError):
        access.kept_sign(clock)
    file.write_text("last:secret-3")
    clock.run_for(1_001)
    assert kept({}, b"")["AccessKey"] == "last"


def test_a_controller_with_another_authority_is_refused_with_the_setting_of_its_table(tmp_path: Path) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    own, (other, _) = certificates.write(tmp_path / "own", 1), certificates.write(tmp_path / "other", 2)

    class Ended:
        def __init__(self) -> None:
            self.reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def opened(self) -> None: ...

        def received(self, data: bytes) -> None: ...

        def ended(self, reason: str) -> None:
            self.reason.set_result(reason)

    async def run() -> str:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*own)
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        settings = ReplicationSettings((f"127.0.0.1:{port}",), ca=str(other))
        access, user = ServerAccess(settings.servers), Ended()
        access.dialer().dial(*access.servers.endpoints[0], user)
        try:
            return await asyncio.wait_for(user.reason, 30)
        finally:
            server.close()

    assert asyncio.run(run()).endswith("see replication.ca")
