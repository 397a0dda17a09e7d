"""Apache RocketMQ 5.5.0 that takes nothing but TLS, and whose broker controls access (ACL 2.0); name servers keep no users."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.process import free_run
from gateway.client.link import Link
from gateway.client.security import KeyPlace, Tls
from tests.interop import certificates
from tests.interop.rocketmq.apache import ApacheCluster, JavaServer

ADMIN = ("admin", "secret-of-admin")
_CREATE_USER = 3001
_CREATE_ACL = 3006
_AUTH = "org.apache.rocketmq.auth"


class SecuredCluster(ApacheCluster):
    """One name server and one broker, or more.

    certificate   PEM file, the authority of all its servers
    key_file      file with NAME:PASSWORD of its administrator
    """

    def __init__(self, folder: Path, names: Sequence[str] = ("broker-a",)) -> None:
        """`names`: of the brokers."""
        self._folder = folder
        self.certificate, private = certificates.write(folder, 1)
        self.key_file = self.key_of(*ADMIN)
        options = (
            "-Dtls.enable=true", "-Dtls.server.mode=enforcing", "-Dtls.test.mode.enable=false",
            f"-Dtls.server.certPath={self.certificate}", f"-Dtls.server.keyPath={private}",
            "-Dtls.server.need.client.auth=none", f"-Dtls.client.trustCertPath={self.certificate}",
            "-Dtls.client.authServer=true",
        )  # fmt: skip
        self.tool_options = options
        access: dict[str, object] = {
            "authenticationEnabled": "true", "authorizationEnabled": "true",
            "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
            "authenticationMetadataProvider": f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider",
            "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
            "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
            "initAuthenticationUser": json.dumps({"username": ADMIN[0], "password": ADMIN[1]}),
            "innerClientAuthenticationCredentials": json.dumps({"accessKey": ADMIN[0], "secretKey": ADMIN[1]}),
        }  # fmt: skip
        self.nameserver = JavaServer("nameserver", folder / "ns", free_run(), "namesrv.NamesrvStartup", {}, options)
        shared: dict[str, object] = {**access, "brokerId": 0, "namesrvAddr": self.nameserver.address}
        self.brokers = {
            name: JavaServer(
                name, folder / name, free_run(), "broker.BrokerStartup",
                self.broker_settings(name, folder / name) | shared, options,
            )
            for name in names
        }  # fmt: skip

    def key_of(self, name: str, password: str) -> Path:
        """A file with the access key of a user."""
        file = self._folder / f"{name}.key"
        file.write_text(f"{name}:{password}\n")
        return file

    def link(self, address: str) -> Link:
        """A connection of the administrator."""
        return Link(address, 10, Tls(str(self.certificate)), KeyPlace(str(self.key_file)))

    def make_user(self, name: str, password: str, resource: str, *actions: str) -> None:
        """`mqadmin createUser` and `createAcl`: a user that may do `actions` at `resource` (Topic:orders, Group:g)."""
        user = {"username": name, "password": password, "userType": "Normal"}
        for broker in self.brokers.values():
            self.ask(broker.address, _CREATE_USER, {"username": name}, json.dumps(user).encode())
        self.add_policy(name, resource, *actions)

    def add_policy(
        self,
        name: str,
        resource: str,
        *actions: str,
        decision: str = "Allow",
        kind: str = "Custom",
        sources: Sequence[str] = (),
    ) -> None:
        """`mqadmin createAcl`: one more policy of a user. `kind`: Custom or Default; `sources`: addresses, none for all."""
        policy = {"resource": resource, "actions": list(actions), "decision": decision, "sourceIps": list(sources)}
        acl = {"subject": f"User:{name}", "policies": [{"policyType": kind, "entries": [policy]}]}
        for broker in self.brokers.values():
            self.ask(broker.address, _CREATE_ACL, {"subject": f"User:{name}"}, json.dumps(acl).encode())

    def mqadmin(self, *arguments: str) -> str:
        """What a command of mqadmin prints, which the administrator gives."""
        file = self.nameserver.folder / "conf" / "tools.yml"
        file.parent.mkdir(exist_ok=True)
        file.write_text("accessKey: {}\nsecretKey: {}\n".format(*ADMIN))
        return super().mqadmin(*arguments)
