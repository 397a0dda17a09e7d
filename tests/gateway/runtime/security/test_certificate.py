"""Self-signed certificates: of nodes that share a folder."""

from __future__ import annotations

import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gateway.runtime.security.certificate import kept_pair

NODES = 8


def test_nodes_that_start_together_have_one_certificate_with_its_key(tmp_path: Path) -> None:
    def start(_: int) -> bytes:
        certificate, key = kept_pair(tmp_path / "tls", ["localhost"])
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        return certificate.read_bytes()

    with ThreadPoolExecutor(NODES) as nodes:
        assert len(set(nodes.map(start, range(NODES)))) == 1


def test_both_files_are_made_anew_when_one_is_missing(tmp_path: Path) -> None:
    certificate, key = kept_pair(tmp_path, ["localhost"])
    first = certificate.read_bytes()
    assert kept_pair(tmp_path, ["localhost"]) == (certificate, key)
    assert certificate.read_bytes() == first
    key.unlink()
    kept_pair(tmp_path, ["localhost"])
    assert certificate.read_bytes() != first
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
