"""CoAP over DTLS with libcoap and OpenSSL as clients against a real node: users by keys and by certificates."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.runtime.security import openssl
from tests.interop import certificates
from tests.interop.node import Node
from tests.interop.secured import Secured

LIBCOAP = [found for name in ("coap-client-openssl", "coap-client-gnutls") if (found := shutil.which(name))]
OPENSSL = shutil.which("openssl") or ""
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(openssl.library() is None, reason="libssl.so.3 is not installed"),
]
libcoap = pytest.mark.skipif(not LIBCOAP, reason="coap-client-openssl is not installed (Debian: libcoap3-bin)")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificates.write(tmp_path_factory.mktemp("pair"), 7)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, pair: tuple[Path, Path]) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("dtls")
    options = ("--admin", "root:rootsecret", "--certificate", str(pair[0]), "--key", str(pair[1]), "--tls-only")
    with Node(folder, *options, "--client-ca", str(pair[0])) as running:
        yield running


def coap(node: Node, client: str, method: str, path: str, *options: str) -> tuple[bytes, str]:
    url = f"coaps://127.0.0.1:{node.port('coaps')}{path}"
    done = subprocess.run([client, "-B", "5", *options, "-m", method, url], capture_output=True, timeout=60, check=False)
    return done.stdout, done.stderr.decode()


@libcoap
@pytest.mark.parametrize("client", LIBCOAP)
def test_libcoap_with_the_key_of_a_user(node: Node, client: str) -> None:
    mine = ("-u", "root", "-k", "rootsecret")
    path = f"/mq/field/{Path(client).name}"
    assert coap(node, client, "put", path, "-e", "21.5", *mine) == (b"", "")
    assert coap(node, client, "get", path, *mine)[0].strip() == b"21.5"


@libcoap
def test_observation_over_dtls(node: Node) -> None:
    mine = ("-u", "root", "-k", "rootsecret")
    url = f"coaps://127.0.0.1:{node.port('coaps')}/mq/field/live"
    listening = subprocess.Popen([LIBCOAP[0], "-s", "5", "-w", *mine, "-m", "get", url], stdout=subprocess.PIPE)
    time.sleep(2)
    for number in range(5):
        coap(node, LIBCOAP[0], "post", "/mq/field/live", "-e", f"n{number}", *mine)
    heard, _ = listening.communicate(timeout=30)
    assert [line for line in heard.split() if line] == [b"n%d" % number for number in range(5)]


@libcoap
@pytest.mark.parametrize("mine", [("-u", "root", "-k", "wrong"), ("-u", "nobody", "-k", "rootsecret")])
def test_wrong_key_and_unknown_user_change_nothing(node: Node, mine: tuple[str, ...]) -> None:
    coap(node, LIBCOAP[0], "put", "/mq/field/refused", "-e", "x", *mine)
    assert "4.04" in coap(node, LIBCOAP[0], "get", "/mq/field/refused", "-u", "root", "-k", "rootsecret")[1]


@libcoap
def test_without_a_certificate_of_its_own_a_client_is_nobody(node: Node, pair: tuple[Path, Path]) -> None:
    assert "4.01" in coap(node, LIBCOAP[0], "put", "/mq/field/c", "-e", "x", "-C", str(pair[0]))[1]


@libcoap
def test_certificate_names_the_user(node: Node, pair: tuple[Path, Path]) -> None:
    mine = ("-c", str(pair[0]), "-j", str(pair[1]), "-C", str(pair[0]))
    assert "4.03" in coap(node, LIBCOAP[0], "put", "/mq/field/c", "-e", "x", *mine)[1]  # localhost has no rights yet


def s_client(node: Node, *options: str) -> tuple[int, str]:
    command = [OPENSSL, "s_client", "-dtls1_2", "-connect", f"127.0.0.1:{node.port('coaps')}", *options]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


@pytest.mark.skipif(not OPENSSL, reason="openssl is not installed")
@pytest.mark.parametrize("cipher", ["PSK-AES128-CCM8", "PSK-AES128-GCM-SHA256", "ECDHE-PSK-CHACHA20-POLY1305"])
def test_s_client_with_the_key_of_a_user(node: Node, cipher: str) -> None:
    status, text = s_client(
        node, "-psk_identity", "root", "-psk", b"rootsecret".hex(), "-cipher", f"{cipher}:@SECLEVEL=0"
    )  # fmt: skip
    assert f"Cipher is {cipher}" in text
    assert status == 0


@pytest.mark.skipif(not OPENSSL, reason="openssl is not installed")
@pytest.mark.parametrize(("identity", "key"), [("root", b"wrong"), ("nobody", b"rootsecret")])
def test_s_client_gets_the_same_alert_for_wrong_key_and_unknown_identity(node: Node, identity: str, key: bytes) -> None:
    status, text = s_client(node, "-psk_identity", identity, "-psk", key.hex(), "-cipher", "PSK-AES128-CCM8:@SECLEVEL=0")
    assert "alert decrypt error" in text
    assert status != 0


@libcoap
def test_rights_of_a_user_and_a_change_of_its_password(tmp_path: Path) -> None:
    client = LIBCOAP[0]
    with Secured(tmp_path) as secured:
        node = secured.node
        secured.user("sensor7", "first secret")
        secured.allow("sensor7", "Topic:field", "All")
        mine = ("-u", "sensor7", "-k", "first secret")
        assert coap(node, client, "put", "/mq/field/a", "-e", "21.5", *mine) == (b"", "")
        assert "4.03" in coap(node, client, "put", "/mq/other/a", "-e", "x", *mine)[1]
        url = f"coaps://127.0.0.1:{node.port('coaps')}/mq/field/a"
        observing = subprocess.Popen(
            [client, "-s", "12", "-w", *mine, "-m", "get", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        time.sleep(3)
        secured.password("sensor7", "second secret")
        heard, told = observing.communicate(timeout=60)
        assert heard.split() == [b"21.5"]
        assert b"4.01" in told  # the observation has ended: its session has proven another password
        coap(node, client, "put", "/mq/field/a", "-e", "late", *mine)
        again = ("-u", "sensor7", "-k", "second secret")
        assert coap(node, client, "get", "/mq/field/a", *again)[0].split() == [b"21.5"]


@pytest.mark.skipif(not OPENSSL, reason="openssl is not installed")
def test_a_node_that_stops_closes_its_sessions(tmp_path: Path) -> None:
    node = Node(tmp_path, "--admin", "root:rootsecret").start()
    secret = ["-psk_identity", "root", "-psk", b"rootsecret".hex(), "-cipher", "PSK-AES128-CCM8:@SECLEVEL=0"]
    command = [OPENSSL, "s_client", "-dtls1_2", "-connect", f"127.0.0.1:{node.port('coaps')}", *secret]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert client.stdout is not None
        while b"Verif" not in client.stdout.readline():
            assert client.poll() is None, "no session"
        time.sleep(0.5)
        assert client.poll() is None
        node.stop()
        assert client.wait(timeout=20) == 0  # by itself: its input is still open
    finally:
        client.kill()
        client.communicate()
        node.stop()
