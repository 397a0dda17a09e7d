"""Certificates for tests: a certificate and a key for a server on loopback, in files."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write(folder: Path, serial: int, names: tuple[str, ...] = ("localhost", "127.0.0.1"), days: int = 1) -> tuple[Path, Path]:
    """Write a self-signed certificate and its key into `folder`, each atomically. Returns (certificate, key).

    `names`: hosts and addresses that it is for. It is valid for `days`; for -1 it has expired, as long ago.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names]
    alternatives = x509.SubjectAlternativeName(hosts)
    shown = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(alternatives, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "key.pem", folder / "certificate.pem"
    for file, data in zip(files, (private, shown.public_bytes(serialization.Encoding.PEM)), strict=True):
        fresh = file.with_suffix(".new")
        fresh.write_bytes(data)
        os.replace(fresh, file)
    return files[1], files[0]
