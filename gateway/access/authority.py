"""Authentication and authorization for all protocols (`domain.access.access.Authority`)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from typing import Final, Protocol, final

from domain.access.access import (
    CLUSTER,
    EVERY,
    GET,
    LIST,
    SUB,
    TOPIC,
    AuthenticationExchange,
    BearerToken,
    ContextProof,
    Credentials,
    Need,
    Password,
    SharedKey,
    Signature,
    SlowedLogin,
    no_credentials,
)
from domain.access.oscore import OscoreContexts
from domain.access.principal import Principal
from domain.address import OTHER_PATHS_TOPIC
from domain.errors import ErrorCode, Failure
from domain.ports import Entropy
from gateway.access.needs import READ, SUBSCRIBE, PathNeed
from gateway.access.records import AccessRecords
from gateway.access.rule import decide
from gateway.access.scram import SCRAM_SHA_256, ScramExchange, Verifiers
from gateway.access.settings import AccessSettings
from gateway.access.token import EARLY, EXPIRED, JWT, TokenExchange, TokenVerifier
from gateway.connection.client_connection import ClientConnection

PRINCIPALS_MAX: Final = 16_384
VERDICTS_MAX: Final = 4_096
_NOBODY: Final = b"\x00" * 32
NOBODY: Final = "nobody"
WATCH: Final = Need(CLUSTER, EVERY, (GET, LIST))
"""The right to read the metrics."""
CERTIFICATE: Final = "certificate"
TOKEN: Final = "token"
CONTEXT: Final = "oscore"
"""Proofs, besides the generation of a password."""


NO_CREDENTIALS: Final = Failure(ErrorCode.NOT_AUTHENTICATED, "there are no credentials")
NO_GUESS: Final = frozenset({EARLY, EXPIRED})
"""Refusals of who has proven that it knows a secret."""


class Logins(Protocol):
    """Counts logins that fail, and says who has to wait (`gateway.guard.failed_logins`)."""

    @property
    def is_idle(self) -> bool:
        """True: none has failed for a while, and there is nothing to ask or to count."""

    def wait_s(self, host: str, user: str, is_proven: bool) -> int:
        """Seconds for which no login as `user` from `host` is looked at; 0: it is. `is_proven`: one has succeeded before."""

    def failed(self, host: str, user: str) -> None:
        """One has been looked at, and failed."""

    def succeeded(self, host: str, user: str) -> None:
        """One has succeeded."""


class Trail(Protocol):
    """Writes logins and refusals to the audit log (`gateway.audit.trail`)."""

    def login(self, host: str, user: str, failure: Failure | None) -> None:
        """A login as `user` from `host` has been looked at. None: it has succeeded."""

    def refused(self, connection: ClientConnection, principal: Principal, what: str, failure: Failure) -> None:
        """The command `what` has been refused to a user who may not do it."""


@final
class Access:
    """Decides by users, policies, rules and bans.

    refused           number of refusals since the start, by cause, for /metrics
    sessions_by_user  True: users with the same client id have sessions of their own; as it was at the start
    audit             writes who has logged in, and who has been refused; None: nobody does
    logins            counts failed logins, and slows them; None: nobody does
    """

    def __init__(
        self, records: AccessRecords, config: AccessSettings, wall_ms: Callable[[], int], cluster: str = "DefaultCluster"
    ) -> None:
        """`cluster`: name in policies of resources that belong to the whole node."""
        self.records = records
        self._cluster = cluster
        self.refused = {"not-authenticated": 0, "not-allowed": 0, "slowed": 0}
        self.logins: Logins | None = None
        self.audit: Trail | None = None
        self._wall_ms = wall_ms
        self._principals: dict[tuple[str, str, object, int], Principal] = {}
        self.sessions_by_user = config.sessions_by_user
        self._verifiers = Verifiers()
        self._apply(config)

    def _apply(self, config: AccessSettings) -> None:
        self.rules = tuple(config.rules)
        self.bans = config.banned
        self._anonymous = config.anonymous
        self._tokens = TokenVerifier(config, self._wall_ms)
        self._methods: dict[str, Callable[[str, Entropy], AuthenticationExchange]] = {SCRAM_SHA_256: self._scram}
        if config.jwt_secret or config.jwt_public_key:
            self._methods[JWT] = self._jwt
        self._personal = any(rule.personal or rule.clients for rule in self.rules)

    def reconfigure(self, config: AccessSettings) -> None:
        """Apply another configuration, also to connected clients. Stored users and policies stay."""
        self._apply(config)
        self.records.set_fixed(config.grants)

    # Authentication

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        """See `domain.access.access.Authority`."""
        if credentials is None:
            name = certified or self._anonymous
            if not name:
                if self.audit is not None:
                    self.audit.login(host, "", NO_CREDENTIALS)
                return self._not_authenticated(no_credentials("").text)
            return self._principal(name, host, proof=CERTIFICATE if certified else NOBODY)
        if isinstance(credentials, ContextProof):
            return self._by_context(credentials, host)
        if isinstance(credentials, SharedKey):
            return self._by_password(credentials, host)
        return self._look(credentials, host)

    def _look(self, credentials: Password | Signature | BearerToken, host: str) -> Principal | Failure:
        """Look at credentials that may be guessed, unless too many from there have failed."""
        user = "" if isinstance(credentials, BearerToken) else credentials.user
        refusal = self._slowed(host, user)
        if refusal is not None:
            return refusal
        return self._counted(host, user, self._judge(credentials, host))

    def _slowed(self, host: str, user: str) -> SlowedLogin | None:
        """The refusal of a login that is not looked at."""
        if self.logins is None or self.logins.is_idle:
            return None
        is_proven = (user, host, self.records.generation(user), 0) in self._principals
        wait_s = self.logins.wait_s(host, user, is_proven)
        if not wait_s:
            return None
        self.refused["slowed"] += 1
        if self.audit is not None:
            # Without the name: whoever is not looked at would fill the log with names of its choice.
            self.audit.login(host, "", Failure(ErrorCode.RATE, "too many have failed: it is not looked at"))
        text = f"too many logins from {host} have failed: come back in {wait_s} s"
        return SlowedLogin(ErrorCode.RATE, text, retry_s=wait_s)

    def _counted(self, host: str, user: str, found: Principal | Failure) -> Principal | Failure:
        """`found`, the outcome of a login, which is counted."""
        logins = self.logins
        if self.audit is not None:
            self.audit.login(host, user, None if isinstance(found, Principal) else found)
        if logins is not None:
            if isinstance(found, Principal):
                if not logins.is_idle:
                    logins.succeeded(host, user)
            elif found.text not in NO_GUESS:
                logins.failed(host, user)
        return found

    def _judge(self, credentials: Password | Signature | BearerToken, host: str) -> Principal | Failure:
        if isinstance(credentials, Signature):
            return self._by_signature(credentials, host)
        if isinstance(credentials, Password):
            text = credentials.secret.decode("utf-8", "replace")
            if not self._tokens.looks_like(text):
                return self._by_password(credentials, host)
            return self._by_token(text, host, credentials.user)
        return self._by_token(credentials.text, host, "")

    def shared_key(self, identity: str, host: str) -> bytes | None:
        """The pre-shared key of a user (RFC 4279): the password. None: there is none, it is disabled, or has to wait."""
        if self._slowed(host, identity) is not None:
            return None
        user = self.records.users.get(identity)
        return user.password.encode() if user is not None and user.enabled and user.password else None

    def wrong_key(self, identity: str, host: str) -> None:
        """A peer has named an identity, and shown by the end of its handshake that it has another key."""
        self._counted(host, identity, self._not_authenticated("the pre-shared key is wrong"))

    @property
    def contexts(self) -> OscoreContexts:
        """The security contexts of all users, for CoAP."""
        return self.records.contexts

    def converse(self, method: str, host: str, entropy: Entropy) -> AuthenticationExchange | None:
        """See `domain.access.access.Authority`."""
        begin = self._methods.get(method)
        return None if begin is None else begin(host, entropy)

    def _scram(self, host: str, entropy: Entropy) -> AuthenticationExchange:
        def judge(user: str, is_proven: bool) -> Principal | Failure:
            refusal = self._slowed(host, user)
            if refusal is not None:
                return refusal
            wrong = "the user name or the password is wrong"
            found = self._principal(user, host, True) if is_proven else self._not_authenticated(wrong)
            return self._counted(host, user, found)

        return ScramExchange(self.records.users, self._verifiers, judge, entropy)

    def _jwt(self, host: str, entropy: Entropy) -> AuthenticationExchange:
        return TokenExchange(lambda text: self._look(BearerToken(text), host))

    def _by_signature(self, given: Signature, host: str) -> Principal | Failure:
        user = self.records.users.get(given.user)
        # An unknown name gets the answer of a wrong password, and takes as much time.
        password = user.password.encode() if user is not None else _NOBODY
        wanted = hmac.digest(password, given.content, "sha1")
        if not hmac.compare_digest(wanted, given.mac) or user is None:
            return self._not_authenticated("check signature failed.")
        return self._principal(given.user, host, True)

    def _by_password(self, given: Password | SharedKey, host: str) -> Principal | Failure:
        user = self.records.users.get(given.user)
        # An unknown name takes as much time as a wrong password.
        wanted = user.password.encode() if user is not None else _NOBODY
        if not hmac.compare_digest(wanted, given.secret) or user is None:
            return self._not_authenticated("the user name or the password is wrong")
        return self._principal(given.user, host, True)

    def _by_context(self, given: ContextProof, host: str) -> Principal | Failure:
        if not self._holds(given):
            return self._not_authenticated(f"User:{given.user} has another security context.")
        return self._principal(given.user, host, proof=(CONTEXT, given.digest))

    def _holds(self, given: ContextProof) -> bool:
        """The security context by which a user was proven is still its own."""
        context = self.records.contexts.by_user.get(given.user)
        return context is not None and context.digest == given.digest and given.user in self.records.users

    def _by_token(self, text: str, host: str, user: str) -> Principal | Failure:
        found = self._tokens.check(text)
        if isinstance(found, str):
            return self._not_authenticated(found)
        name, expires_ms, key = found
        if user and user != name:
            return self._not_authenticated("the token names another user")
        return self._principal(name, host, expires_ms=expires_ms, proof=(TOKEN, key))

    def _principal(
        self, name: str, host: str, registered: bool = False, expires_ms: int = 0, proof: object = None
    ) -> Principal | Failure:
        """The principal of an authenticated name. Names from tokens and certificates need no stored user; disabled: failure."""
        known = self.records.users.get(name)
        if known is not None and not known.enabled:
            return self._not_authenticated(f"User:{name} is disabled.")
        if registered:
            proof = self.records.generation(name)
        key = (name, host, proof, expires_ms)
        found = self._principals.get(key)
        if found is None:
            if self.audit is not None and _is_first_look(proof):
                self.audit.login(host, name, None)
            if len(self._principals) >= PRINCIPALS_MAX:
                self._principals.clear()
            found = self._principals[key] = Principal(name, host, False, registered, expires_ms, 0, proof)
        if found.epoch != self.records.epoch:
            found.epoch = self.records.epoch
            found.privileged = known is not None and known.privileged
            found.verdicts = {}
        return found

    def left_by(self, user: str, host: str, registered: bool) -> Principal | Failure:
        """The principal for what a user has left to be done later: by its name, however it has proven that.

        user         "": it came without credentials, while access was not controlled
        registered   True: it was one of the user table, without whose entry it is nobody
        """
        name = user or self._anonymous
        if not name or (registered and name not in self.records.users):
            return self._not_authenticated(f"User:{name} is not found." if name else no_credentials("").text)
        return self._principal(name, host, registered)

    def _not_authenticated(self, text: str) -> Failure:
        self.refused["not-authenticated"] += 1
        return Failure(ErrorCode.NOT_AUTHENTICATED, text)

    # Authorization

    def current(self, principal: Principal) -> Failure | None:
        """Check a principal again: the failure if its user is disabled, removed or changed, or its token has expired."""
        if principal.expires_ms and self._wall_ms() >= principal.expires_ms:
            return self._not_authenticated("the token has expired")
        if principal.epoch == self.records.epoch:
            return None
        known = self.records.users.get(principal.user)
        if known is not None and not known.enabled:
            return self._not_authenticated(f"User:{principal.user} is disabled.")
        if known is None and principal.registered:
            return self._not_authenticated(f"User:{principal.user} is not found.")
        if not self._proven(principal):
            return self._not_authenticated(f"User:{principal.user} has to say anew who it is.")
        principal.epoch = self.records.epoch
        principal.privileged = known is not None and known.privileged
        principal.verdicts = {}
        return None

    def _proven(self, principal: Principal) -> bool:
        """What it was proven by still counts: the password has not changed, the token's key is still taken."""
        proof = principal.proof
        if principal.registered:
            return proof == self.records.generation(principal.user)
        if proof == NOBODY:
            return principal.user == self._anonymous
        if not isinstance(proof, tuple):
            return True
        if proof[0] == CONTEXT:
            return self._holds(ContextProof(principal.user, proof[1]))
        return self._tokens.holds(proof[1], principal.expires_ms)

    def first_denial(self, principal: Principal, wanted: Iterable[Need | PathNeed], client: str) -> Failure | None:
        """The first refusal among needs; None: all are granted."""
        for need in wanted:
            if isinstance(need, PathNeed):
                failure = self.path_verdict(principal, need.action, need.path, client, need.need)
            else:
                failure = self.verdict(principal, need)
                if failure is None and self.rules and need.kind == TOPIC and need.actions in (SUBSCRIBE, READ):
                    failure = self._part_denied(principal, need.name, client)
            if failure is not None:
                return failure
        return None

    def _part_denied(self, principal: Principal, topic: str, client: str) -> Failure | None:
        """The refusal to read a whole topic of which a rule denies a path; None: no rule does."""
        path = "#" if topic in (EVERY, OTHER_PATHS_TOPIC) else f"{topic}/#"
        key = (READ, path, client if self._personal else "")
        if key in principal.verdicts:
            return principal.verdicts[key]
        rule = decide(self.rules, SUB, path, principal.user, client)
        return _kept(principal, key, None if rule is None or rule.allow else self._denial(principal, SUB, path, rule.code))

    def verdict(self, principal: Principal, need: Need) -> Failure | None:
        """The refusal of a need; None: granted. Cached with the principal."""
        verdicts = principal.verdicts
        try:
            return verdicts[need]
        except KeyError:
            name = self._cluster if need.kind == CLUSTER else need.name
            allowed = self.records.entries(principal.user).allow(need.kind, name, need.actions, principal.host)
            return _kept(principal, need, None if allowed else self._denial(principal, need.actions[0], f"{need.kind}:{name}"))

    def may_watch(self, principal: Principal) -> bool:
        """True for users who may read the metrics: Super users, and those with Get or List on the cluster."""
        return principal.privileged or self.verdict(principal, WATCH) is None

    def path_verdict(self, principal: Principal, action: str, path: str, client: str, need: Need) -> Failure | None:
        """The refusal of `action` (Pub, Sub) on an MQTT path or filter (None: granted). `need` decides if no rule matches."""
        if not self.rules:
            return self.verdict(principal, need)
        key = (action, path, client if self._personal else "")
        verdicts = principal.verdicts
        if key in verdicts:
            return verdicts[key]
        rule = decide(self.rules, action, path, principal.user, client)
        if rule is None:
            found = self.verdict(principal, need)
        else:
            found = None if rule.allow else self._denial(principal, action, path, rule.code)
        return _kept(principal, key, found)

    def _denial(self, principal: Principal, action: str, what: str, word: int = 0) -> Failure:
        text = f"User:{principal.user} has no permission for {action} on {what} from {principal.host}"
        return Failure(ErrorCode.NOT_ALLOWED, text, word, denied=True)


def _kept(principal: Principal, key: object, verdict: Failure | None) -> Failure | None:
    """Cache a verdict with the principal that it is about."""
    if len(principal.verdicts) >= VERDICTS_MAX:
        principal.verdicts.clear()
    principal.verdicts[key] = verdict
    return verdict


def _is_first_look(proof: object) -> bool:
    """A new principal of this proof is a login that nobody has counted: a certificate's, or a security context's."""
    return proof == CERTIFICATE or (isinstance(proof, tuple) and proof[0] == CONTEXT)
