"""The direction of imports (docs/ARCHITECTURE.md) and the modules that may do I/O, read from the syntax tree."""

from __future__ import annotations

import ast

from tests.tidy.source import PACKAGES, Source, sources

SHELL = (
    "protocols.adapter", "protocols.setting", "protocols.declaration", "protocols.host_shares", "protocols.hosts",
    "protocols.request_line", "protocols.upload",
)  # fmt: skip
BINDINGS = (
    "protocols.http2", "protocols.cloudevents", "protocols.compression", "protocols.marks", "protocols.websocket_frame",
)  # fmt: skip

FAN_IN = "gateway.usecase.waiting.fan_in"
CONNECTION = ("gateway.connection.client_connection", "gateway.connection.handler")

_UNDER_ADMIN = ("gateway.connection.intake", "gateway.observe", "gateway.runtime")
MAY_KNOW: list[tuple[str, tuple[str, ...]]] = [
    ("gateway.node.node", PACKAGES),
    ("gateway.node.client_ports", PACKAGES),
    ("gateway.node.part", PACKAGES),
    ("gateway.node.composition", PACKAGES),
    ("gateway.node.roles.role_names", ("domain",)),
    (
        "gateway.node.roles.role",
        (
            "domain",
            "gateway.access.authority",
            "gateway.connection.client_connection",
            "gateway.node.client_side",
            "gateway.node.composition",
            "gateway.node.roles.local_store",
            "gateway.node.settings",
            "gateway.observe",
        ),
    ),
    ("gateway.node.roles.local_store", ("domain", "gateway.observe", "gateway.runtime.disk")),
    ("gateway.node.roles.store_address", ("gateway.link.servers",)),
    ("gateway.node.roles", PACKAGES),
    (
        "gateway.node.client_side",
        (
            "domain",
            "gateway.access",
            "gateway.audit",
            "gateway.connection.handler",
            "gateway.guard",
            "gateway.node.protocols",
            "gateway.node.settings",
            "gateway.node.use_cases",
            "gateway.observe",
            *SHELL,
        ),
    ),
    (
        "gateway.node.settings_reload",
        (
            "domain",
            "gateway.access",
            "gateway.connection.context",
            "gateway.guard",
            "gateway.node.client_side",
            "gateway.node.settings",
            "gateway.node.roles.replication_switch",
        ),
    ),
    ("gateway.node.settings", ("domain", "gateway.node.roles.role_names", "gateway.node.settings_tables")),
    ("gateway.node.settings_tables", ("domain",)),
    ("gateway.node.entry_points", ("domain.errors",)),
    (
        "gateway.node.use_cases",
        (
            "domain",
            "gateway.access",
            "gateway.connection.handler",
            "gateway.guard.writes",
            "gateway.node.entry_points",
            "gateway.node.settings",
            "gateway.usecase",
            *SHELL,
        ),
    ),
    ("gateway.webhooks.declaration", PACKAGES),
    *(
        (
            f"gateway.{name}.declaration",
            ("domain", "gateway.access", "gateway.guard.writes", "gateway.node.use_cases", "gateway.usecase", "gateway.pubsub"),
        )
        for name in ("usecase.lite", "pubsub")
    ),
    (
        "gateway.node.storage",
        (
            "domain",
            "gateway.node.entry_points",
            "gateway.node.settings",
            "gateway.node.settings_tables",
            "gateway.node.roles.store_address",
            "gateway.apache.relay.settings",
            "gateway.apache.settings",
            "gateway.cluster.replica.settings",
        ),
    ),
    (
        "gateway.node.protocols",
        ("domain", "gateway.node.settings", *SHELL, "protocols.registry", "protocols.http2.application"),
    ),
    (
        "gateway.node.reference",
        ("domain", "gateway.node", "gateway.guard", "gateway.apache.relay.settings", "gateway.apache.settings"),
    ),
    ("gateway.node.cli", ("gateway", "domain")),
    ("gateway.node.options", ("domain", "gateway.node.composition", "gateway.node.settings")),
    (
        "gateway.node.data_directory",
        ("domain", "gateway.runtime", "gateway.node.data_directory", "store.offline", "controller.member.identity"),
    ),
    ("gateway.__main__", ("gateway.node.cli",)),
    ("gateway.runtime.process", ("gateway", "domain")),
    ("gateway.runtime.tls", ("domain", "protocols.adapter", "protocols.host_shares", "protocols.registry", "gateway.runtime")),
    ("gateway.runtime.admin", ("domain", "protocols.hosts", "protocols.request_line", *_UNDER_ADMIN)),
    ("gateway.runtime", ("domain", "protocols.adapter", "gateway.connection", "gateway.observe", "gateway.runtime")),
    ("gateway.connection.client_connection", ("domain",)),
    ("gateway.connection.handler", ("domain", *CONNECTION)),
    ("gateway.connection.channels", ("domain", "gateway.connection", "gateway.observe.counters")),
    ("gateway.connection", ("domain", "protocols.adapter", "protocols.host_shares", "gateway.connection", "gateway.observe")),
    ("gateway.observe", ("domain", "gateway.observe")),
    ("gateway.usecase.tools.nameserver", ("domain", "gateway.usecase", *CONNECTION, "nameserver")),
    ("gateway.usecase", ("domain", "gateway.usecase", "gateway.routing", "gateway.access", *CONNECTION)),
    ("gateway.routing", ("domain", "gateway.routing")),
    ("gateway.audit.settings", ()),
    ("gateway.audit", ("domain", "gateway.audit", "gateway.audit.audit_sink", *CONNECTION)),
    ("gateway.access", ("domain", "gateway.access", *CONNECTION)),
    ("gateway.guard", ("domain", "gateway.guard", "gateway.access.source", *CONNECTION)),
    ("gateway.client", ("domain", "protocols.remoting", "gateway.client")),
    ("gateway.importing", ("domain", "protocols.remoting", "gateway.client", "gateway.importing")),
    (
        "gateway.cluster.operator",
        ("domain", "protocols.remoting", "gateway.client", "gateway.cluster.operator"),
    ),
    (
        "gateway.cluster.forwarding.search_report",
        ("domain", "protocols.remoting.codes", "protocols.remoting.controller", "gateway.link"),
    ),
    (
        "gateway.cluster.forwarding",
        ("domain", "protocols.remoting.nodes", "gateway.cluster.forwarding", "gateway.link", *CONNECTION),
    ),
    ("gateway.cluster.strangers", ("domain",)),
    ("gateway.cluster.controller.settings", ("gateway.link.servers",)),
    (
        "gateway.cluster.controller",
        (
            "domain",
            "controller",
            "protocols.remoting",
            "gateway.cluster.controller",
            "gateway.cluster.strangers",
            "gateway.link",
            "gateway.usecase.handler",
            *CONNECTION,
        ),
    ),
    ("gateway.cluster.replica.settings", ("gateway.link.servers",)),
    (
        "gateway.cluster.replica",
        (
            "domain",
            "store.replication",
            "protocols.remoting",
            "gateway.cluster.replica",
            "gateway.cluster.strangers",
            "gateway.link",
            "gateway.usecase.handler",
            *CONNECTION,
        ),
    ),
    ("gateway.cluster.registration.settings", ("gateway.link.servers",)),
    ("gateway.cluster.registration", PACKAGES),
    (
        "gateway.apache.relay",
        (
            "domain",
            "protocols.remoting",
            "protocols.host_shares",
            "gateway.link.wire",
            "gateway.apache.relay",
            *CONNECTION,
        ),
    ),
    (
        "gateway.apache.users",
        ("domain", "protocols.remoting", "gateway.access", "gateway.link", "gateway.brokers", "gateway.apache", FAN_IN),
    ),
    (
        "gateway.apache",
        ("domain", "protocols.remoting", "gateway.link", "gateway.brokers", "gateway.apache", FAN_IN, *CONNECTION),
    ),
    ("gateway.brokers", ("domain", "protocols.remoting", "gateway.link", "gateway.brokers", FAN_IN)),
    ("gateway.link.servers", ("domain.address",)),
    ("gateway.link.dialer", ("domain", "gateway.link.wire")),
    ("gateway.link.sinks", ("domain", "gateway.link.sinks")),
    ("gateway.link", ("domain", "protocols.remoting.codes", "protocols.remoting.wire", "gateway.link")),
    ("gateway.pubsub", ("domain", "gateway.pubsub", "gateway.usecase", "gateway.access.path_rights", *CONNECTION)),
    ("gateway.webhooks.settings", ("domain.subscription.sink",)),
    (
        "gateway.webhooks",
        (
            "domain",
            "gateway.webhooks",
            "gateway.usecase",
            "gateway.access.revocation",
            "protocols.cloudevents",
            "protocols.compression",
            *CONNECTION,
        ),
    ),
    (
        "gateway.connectors",
        ("domain", "protocols.remoting", "protocols.compression", "gateway.client", "gateway.connectors"),
    ),
    ("gateway", ()),
    ("protocols.adapter", ("domain",)),
    ("protocols.setting", ("domain", "protocols.adapter", "protocols.http2.application", "protocols.host_shares")),
    ("protocols.host_shares", ("domain.address",)),
    ("protocols.upload", ("domain.limits", "protocols.host_shares")),
    ("protocols.hosts", ()),
    ("protocols.request_line", ()),
    ("protocols.declaration", ("domain", *SHELL, "protocols.http2.application")),
    ("protocols.registry", ("domain", *SHELL, "protocols.proxy.header")),
    ("protocols.compression", ("domain",)),
    ("protocols.websocket_frame", ()),
    ("protocols.marks", ("domain", "protocols.cloudevents")),
    ("store", ("domain", "store")),
    ("nameserver", ("domain", "nameserver")),
    ("controller", ("domain", "controller")),
    ("domain", ("domain",)),
]
"""Module -> the prefixes of our modules that it may import; the first line that fits counts."""

WORLD = {
    "socket",
    "asyncio",
    "uvloop",
    "ssl",
    "subprocess",
    "threading",
    "multiprocessing",
    "select",
    "selectors",
    "secrets",
    "signal",
}
"""Modules that do I/O or wait."""
WORLDLY_CALLS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"},
    "random": {"random", "randint", "randrange", "choice", "shuffle", "getrandbits"},
    "os": {"urandom", "open", "read", "write", "fsync", "fdatasync", "rename", "replace", "unlink", "mkdir", "makedirs"},
    "uuid": {"uuid1", "uuid4"},
    "datetime": {"now", "utcnow", "today"},
}
MAY_TOUCH_THE_WORLD = (
    "gateway.audit.audit_file",
    "gateway.runtime", "gateway.link.dialer", "gateway.link.sinks", "gateway.node.node", "gateway.node.part",
    "gateway.node.client_ports", "gateway.node.cli", "gateway.node.roles", "gateway.node.data_directory",
    "gateway.cluster.registration", "gateway.cluster.operator", "gateway.client", "gateway.connectors", "pyspark_headgate",
)  # fmt: skip


def module_of(source: Source) -> str:
    """The module of a file: `store/log/segment.py` -> store.log.segment."""
    return source.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def within(module: str, prefixes: tuple[str, ...]) -> bool:
    """True when `module` is one of `prefixes` or inside one."""
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


def allowed(module: str) -> tuple[str, ...]:
    """The prefixes of our modules that `module` may import."""
    for prefix, known in MAY_KNOW:
        if within(module, (prefix,)):
            return known
    if module.startswith("protocols."):
        own = ".".join(module.split(".")[:2])
        return ("domain", own, *SHELL, *BINDINGS)
    return PACKAGES


def test_imports_go_one_way() -> None:
    wrong = [
        f"{source.path}:{line}: {module_of(source)} must not know {name}"
        for source in sources()
        for line, name in source.imports()
        if name.split(".")[0] in PACKAGES and not within(name, (*allowed(module_of(source)), module_of(source)))
    ]
    assert wrong == []


def test_domain_stands_on_the_standard_library_and_one_checksum() -> None:
    import sys

    wrong = [
        f"{source.path}:{line}: {name}"
        for source in sources()
        if source.path.startswith("domain/")
        for line, name in source.imports()
        if name.split(".")[0] not in (*sys.stdlib_module_names, "domain")
        and (source.path, name.split(".")[0]) != ("domain/message/crc32.py", "zlib_ng")
    ]
    assert wrong == []


def test_only_the_runtime_touches_the_world() -> None:
    wrong: list[str] = []
    for source in sources():
        if within(module_of(source), MAY_TOUCH_THE_WORLD):
            continue
        wrong += [f"{source.path}:{line}: imports {name}" for line, name in source.imports() if name.split(".")[0] in WORLD]
        wrong += [f"{source.path}:{line}: {call}" for line, call in worldly_calls(source)]
    assert wrong == []


def test_tools_reach_servers_by_one_client() -> None:
    tools = ("gateway.client", "gateway.cluster.operator", "gateway.connectors", "gateway.importing")
    openers = {"asyncio", "http", "select", "selectors", "socket", "urllib"}
    found = [
        module_of(source)
        for source in sources()
        if within(module_of(source), tools) and any(name.split(".")[0] in openers for _, name in source.imports())
    ]
    assert found == ["gateway.client.link"]


def worldly_calls(source: Source) -> list[tuple[int, str]]:
    """(line, call) of every call that reads a clock, draws randomness or opens a file."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "open":
            found.append((node.lineno, "open()"))
        elif isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if node.func.attr in WORLDLY_CALLS.get(name, ()):
                found.append((node.lineno, f"{name}.{node.func.attr}()"))
    return found


def test_no_import_cycles() -> None:
    names = {module_of(source) for source in sources()}
    graph = {module_of(source): {name for _, name in top_level(source) if name in names} for source in sources()}
    done: set[str] = set()
    path: list[str] = []

    def walk(module: str) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        path.append(module)
        for name in sorted(graph[module] - {module}):
            walk(name)
        path.pop()
        done.add(module)

    for module in sorted(graph):
        walk(module)


def top_level(source: Source) -> list[tuple[int, str]]:
    """Imports that run when the module is imported: not those inside functions or under TYPE_CHECKING."""
    body = [node for node in source.tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))]
    plain: list[ast.stmt] = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    return Source(source.path, "", ast.Module(plain, [])).imports()


def test_no_modules_import_each_other() -> None:
    """Imports for type checking count: modules that know each other are one module in two files."""
    graph = {module_of(source): {name for _, name in source.imports()} for source in sources()}
    known = {module: {name for name in names if name in graph and name != module} for module, names in graph.items()}
    while True:
        leaves = {module for module, names in known.items() if not names & known.keys()}
        if not leaves:
            break
        known = {module: names for module, names in known.items() if module not in leaves}
    while known:
        unused = known.keys() - set().union(*known.values())
        if not unused:
            break
        known = {module: names for module, names in known.items() if module not in unused}
    assert sorted(known) == []
