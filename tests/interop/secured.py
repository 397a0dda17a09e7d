"""A real node with access control that takes TLS only, and its users.

with Secured(folder) as secured:
    secured.user("spark", "secret"); secured.allow("spark", "Topic:orders", "Sub")
    secured.client(secured.place("spark", "secret"))
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

from gateway.client.answer import checked
from gateway.client.client import Client
from gateway.client.link import Link
from gateway.client.security import KeyPlace, Tls
from tests.interop import certificates
from tests.interop.cluster.spread import BALANCER, STORE
from tests.interop.node import Node

_CREATE_USER = 3001
_UPDATE_USER = 3002
_CREATE_ACL = 3006
ROOT_PASSWORD = "r00t-and-branch"


class Secured:
    """One node process. `ca`: the file of its authority; `root`: where the access key of its Super user is."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._keys = folder / "keys"
        self._keys.mkdir(parents=True)
        self.ca, private = certificates.write(folder / "tls", 7, ("localhost", BALANCER, STORE))
        self.root = self.place("root", ROOT_PASSWORD)
        given = ("--tls-only", "--certificate", str(self.ca), "--key", str(private), "--admin-file", self.root.file)
        # The environment tells the credentials of the admin port to `Node`.
        self.node = Node(folder, *given, *options, environment={"HEADGATE_ADMIN": f"root:{ROOT_PASSWORD}"})

    def __enter__(self) -> Secured:
        self.node.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.node.stop()

    @property
    def nameserver(self) -> str:
        return f"127.0.0.1:{self.node.port('nameserver')}"

    @property
    def tls(self) -> Tls:
        return Tls(str(self.ca))

    def client(self, key: KeyPlace | None, retry_s: float = 60) -> Client:
        return Client(self.nameserver, timeout_s=60, retry_s=retry_s, tls=self.tls, key=key)

    def place(self, name: str, password: str) -> KeyPlace:
        """Write an access key into the file of this user."""
        file = self._keys / name
        fresh = file.with_suffix(".new")
        fresh.write_text(f"{name}:{password}\n")
        fresh.replace(file)
        return KeyPlace(file=str(file))

    def user(self, name: str, password: str) -> None:
        """Create a user without rights."""
        self._change(_CREATE_USER, {"username": name}, {"username": name, "password": password, "userType": "Normal"})

    def password(self, name: str, password: str) -> None:
        """Give a user another password."""
        self._change(_UPDATE_USER, {"username": name}, {"username": name, "password": password})

    def allow(self, name: str, resource: str, action: str) -> None:
        """Grant one right, e.g. `Sub` on `Topic:orders`."""
        entry = {"resource": [resource], "actions": [action], "decision": "Allow", "sourceIps": []}
        policies = [{"policyType": "CUSTOM", "entries": [entry]}]
        self._change(_CREATE_ACL, {"subject": f"User:{name}"}, {"subject": f"User:{name}", "policies": policies})

    def _change(self, code: int, fields: dict[str, str], body: object) -> None:
        link = Link(f"127.0.0.1:{self.node.port('remoting')}", 60, self.tls, self.root)
        try:
            [frame] = link.ask([(code, fields, json.dumps(body).encode())])
        finally:
            link.close()
        checked(frame, f"request {code}")
