"""Self-signed certificates for nodes that have no other."""

from __future__ import annotations

import datetime
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.runtime.disk import is_entry
from gateway.runtime.owner_only import FILE_MODE, close_to_others, made_folders

VALID_DAYS: Final = 3650


def kept_pair(folder: Path, names: Sequence[str]) -> tuple[Path, Path]:
    """Certificate and key in `folder`. They are made when one is missing: once, when several nodes have this folder.

    Nodes that start together would each write files of their own over those of the others, and some have a key that does not
    belong to their certificate.
    """
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made_folders(folder)
    close_to_others(folder.parent, is_entry, False)
    with os.fdopen(os.open(folder / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (certificate.exists() and key.exists()):
            self_signed(certificate, key, names)
    return certificate, key


def self_signed(certificate: Path, key: Path, names: Sequence[str]) -> None:
    """Write a self-signed certificate for `names` (hosts and addresses), and its key, which only their owner can read."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    alternatives: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            alternatives.append(x509.DNSName(name))
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headgate")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    secret = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for path, content in ((certificate, signed.public_bytes(serialization.Encoding.PEM)), (key, secret)):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE), "wb") as file:
            file.write(content)
