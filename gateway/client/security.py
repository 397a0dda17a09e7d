"""Security of a connection: TLS, and an access key that signs requests.

`Tls` and `KeyPlace` have names of files and variables only: they may be printed, compared and pickled. The secrets are read
when a connection is made, again for each, and are in `AccessKey` and the TLS context of that connection only.
"""

from __future__ import annotations

import base64
import hmac
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, final

from gateway.client.answer import KeyPlaceError, TlsError

_NAME: Final = "AccessKey"
_TOKEN: Final = "SecurityToken"
_SIGNATURE: Final = "Signature"
_UNTRUSTED: Final = frozenset({2, 18, 19, 20, 21, 24, 26})
_NOT_YET: Final = 9
_EXPIRED: Final = 10
_OTHER_NAME: Final = frozenset({62, 63, 64})
"""Results of OpenSSL's verification (X509_V_ERR_...): no known authority, times, another host name or address."""


@final
class AccessKey:
    """The name and the password of a user, and perhaps a security token. It is neither printed nor pickled.

    name   name of the user, no secret
    """

    __slots__ = ("_password", "_token", "name")

    def __init__(self, name: str, password: str, token: str = "") -> None:
        self.name = name
        self._password = password
        self._token = token

    def __repr__(self) -> str:
        return f"AccessKey({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccessKey) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an access key is not pickled: pickle the KeyPlace, and read it where the connection is made")

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The ext fields of a request with AccessKey, SecurityToken and Signature (RocketMQ's AclClientRPCHook, AclUtils).

        Signature = Base64(HMAC-SHA1(password, values of the ext fields in the order of their names | body))
        """
        out = {**fields, _NAME: self.name}
        if self._token:
            out[_TOKEN] = self._token
        content = "".join(out[name] for name in sorted(out)).encode() + body
        out[_SIGNATURE] = base64.b64encode(hmac.digest(self._password.encode(), content, "sha1")).decode()
        return out

    def _all(self) -> tuple[str, str, str]:
        return self.name, self._password, self._token


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """The place of an access key: either a file or an environment variable.

    Its text is NAME:PASSWORD in the first line; the second line, if any, is a security token.

    file       path of the file; "": the variable has it
    variable   name of the environment variable
    """

    file: str = ""
    variable: str = ""

    def __str__(self) -> str:
        # Who has written the key itself in place of its place does not find it in a log.
        place = self.file or self.variable
        shown = "…" if ":" in place else place
        return f"file {shown}" if self.file else f"environment variable {shown}"

    def read(self) -> AccessKey:
        """The key that is there now. Raises KeyPlaceError."""
        lines = [line.strip() for line in self._text().splitlines()]
        name, colon, password = (lines[0] if lines else "").partition(":")
        if not (name and colon and password):
            raise KeyPlaceError(f"The access key in {self} is not written NAME:PASSWORD in the first line.")
        return AccessKey(name, password, lines[1] if len(lines) > 1 else "")

    def _text(self) -> str:
        if not self.file:
            found = os.environ.get(self.variable)
            if found is None:
                raise KeyPlaceError(
                    f"There is no access key: the {self} is not set in process {os.getpid()}. "
                    "Set it for the driver and for all executors, or use a file."
                )
            return found
        try:
            return Path(self.file).read_text("utf-8")
        except OSError as error:
            raise KeyPlaceError(
                f"The access key in {self} cannot be read ({error.strerror}). "
                "The file has to be on every machine that connects, readable by the user of the process."
            ) from None
        except UnicodeDecodeError:
            # The error has the bytes of the file.
            raise KeyPlaceError(f"The access key in {self} cannot be read: it is not UTF-8.") from None


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS of a client: the check of servers' certificates, and the certificate of the client. All files are PEM.

    ca_file            authorities of the servers' certificates; "": those of the system
    certificate_file   the client's certificate; "": none
    key_file           its private key, without passphrase; "": the key is in `certificate_file`
    """

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    def context(self) -> ssl.SSLContext:
        """A context with the files as they are now. It checks the name of the server. Raises TlsError."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except OSError as error:
            raise TlsError(
                f"The authorities of TLS cannot be read from {self.ca_file}: {_reason(error)}. Name a PEM file that every "
                "machine which connects has (tlsCaFile)."
            ) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate_file:
            try:
                # A passphrase would be asked for at the terminal, for ever.
                context.load_cert_chain(self.certificate_file, self.key_file or None, password=lambda: b"")
            except OSError as error:
                raise TlsError(
                    f"The client certificate {self.certificate_file} with key {self.key_file or 'in the same file'} cannot be "
                    f"used: {_reason(error)}. Name PEM files that belong together, the key without passphrase "
                    "(tlsCertificateFile, tlsKeyFile)."
                ) from error
        return context

    def refusal(self, address: str, error: ssl.SSLError) -> TlsError | None:
        """The error of a handshake or of a connection that ended with `error`; None: another attempt may succeed."""
        if isinstance(error, ssl.SSLCertVerificationError):
            return TlsError(f"{address}: {self._verification(address, error)}")
        if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return None
        reason = error.reason or ""
        if "ALERT" in reason:
            shown = f"client certificate {self.certificate_file}" if self.certificate_file else "no client certificate"
            return TlsError(
                f"{address}: the server refuses TLS with {shown} ({reason}). Show a certificate of an authority that it "
                "accepts (tlsCertificateFile, tlsKeyFile), or look at the versions of TLS of both."
            )
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"):
            return TlsError(f"{address}: the server does not answer by TLS. Correct the address, or connect without TLS.")
        return None

    def _verification(self, address: str, error: ssl.SSLCertVerificationError) -> str:
        code = error.verify_code
        if code in _UNTRUSTED:
            trusted = f"of {self.ca_file}" if self.ca_file else "that this system knows"
            return (
                f"the server's certificate is signed by no authority {trusted} ({error.verify_message}). "
                "Name the file with its authority (tlsCaFile); a self-signed certificate is its own."
            )
        if code == _EXPIRED:
            return "the server's certificate has expired. Renew it at the server, or set the clock of this machine."
        if code == _NOT_YET:
            return "the server's certificate is not valid yet. Set the clock of this machine, or renew it at the server."
        if code in _OTHER_NAME:
            return (
                f"the server's certificate is not for this name ({error.verify_message}). Connect to a name that is in it; for "
                "brokers that is the address in routes (setting `advertise`); or give the server a certificate for this name."
            )
        return f"the server's certificate is not accepted ({error.verify_message})."


def _reason(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error)
