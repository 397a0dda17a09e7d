"""Names and addresses: topics, groups, MQTT paths, hosts. docs/ARCHITECTURE.md explains the rules of names."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from domain import limits

HOSTS_KEPT: Final = 1_024
"""Hosts whose bytes are remembered: most connections come from few."""

SHARES_KEPT: Final = 4_096
"""Shared subscriptions whose consumer groups are remembered: members ask at each acknowledgement."""
_SHARE_DIGEST_BYTES: Final = 10

TEMPLATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
UNDECIDED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
OTHER_PATHS_TOPIC: Final = "mqtt_other"
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"

_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]+\Z")
_NAMESPACE = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_FIRST_LEVEL = re.compile(r"[A-Za-z0-9_-]{1,127}\Z")
SYSTEM_TOPICS: Final[frozenset[str]] = frozenset(
    {
        "TBW102", "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC", "RMQ_SYS_TRACE_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "CHECKPOINT_TOPIC",
    }
)  # fmt: skip
UNSENDABLE_TOPICS: Final[frozenset[str]] = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "rmq_sys_wheel_timer",
    }
)  # fmt: skip
_SYSTEM_FOLDED: Final[frozenset[str]] = frozenset(name.lower() for name in SYSTEM_TOPICS)
_MAPPED: Final = bytes(10) + b"\xff\xff"
PLAIN_MAX: Final = 1_024
_PLAIN: Final[set[str]] = set()
"""Names that are legal and not the system's, at most PLAIN_MAX of them: both are checked for every message."""


_SYSTEM_GROUPS: Final[frozenset[str]] = frozenset(
    {
        "DEFAULT_PRODUCER", "DEFAULT_CONSUMER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL",
    }
)  # fmt: skip


def is_system_topic(name: str) -> bool:
    """True for names of the system's topics, in any case, and for names that end in `_REPLY_TOPIC`."""
    if name in _PLAIN:
        return False
    folded = name.lower()
    return folded in _SYSTEM_FOLDED or folded.startswith("rmq_sys_") or folded.endswith("_reply_topic")


def is_derived_topic(name: str) -> bool:
    """True for retry topics and dead-letter topics of groups."""
    return name.startswith((RETRY_PREFIX, DLQ_PREFIX))


def is_topic(name: str) -> bool:
    """True for a legal topic name: `[%|a-zA-Z0-9_-]`, 1 to 127 characters; to 255 for retry and dead-letter topics."""
    if name in _PLAIN:
        return True
    most = limits.DERIVED_TOPIC_CHARS_MAX if is_derived_topic(name) else limits.TOPIC_CHARS_MAX
    if not 0 < len(name) <= most or _TOPIC.match(name) is None:
        return False
    if not is_system_topic(name):
        if len(_PLAIN) >= PLAIN_MAX:
            _PLAIN.clear()
        _PLAIN.add(name)
    return True


def is_group(name: str) -> bool:
    """True for a legal name of a consumer group: the characters of a topic name, 1 to 120."""
    return 0 < len(name) <= limits.GROUP_CHARS_MAX and _TOPIC.match(name) is not None


def retry_topic(group: str) -> str:
    """The topic of messages that consumers of `group` send back."""
    return RETRY_PREFIX + group


def pop_retry_topic(group: str, topic: str) -> str:
    """The topic of messages moved out of `topic` because they would hold the lease floor of `group` too far back.

    RocketMQ's name of version 2 (KeyBuilder.buildPopRetryTopicV2): no name of a group or topic has a `+`, so it is of one pair.
    """
    return f"{RETRY_PREFIX}{group}+{topic}"


def pop_retry_topic_v1(group: str, topic: str) -> str:
    """The same in version 1, where earlier versions of Headgate put such messages. Other pairs and a group may have it too."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def is_pop_retry_topic(name: str) -> bool:
    """True for a name that `pop_retry_topic` makes of legal names. Only the node makes such a topic and puts messages there."""
    group, plus, topic = name[len(RETRY_PREFIX) :].partition("+")
    return plus != "" and name.startswith(RETRY_PREFIX) and is_group(group) and is_topic(topic)


def retried_by_pop(retry_topic: str) -> list[tuple[str, str]]:
    """The (group, topic) pairs whose POP retry topic of either version has this name.

    There may be several in version 1: both names may contain `_`.
    """
    if not retry_topic.startswith(RETRY_PREFIX):
        return []
    name = retry_topic[len(RETRY_PREFIX) :]
    group, plus, topic = name.partition("+")
    if plus:
        return [(group, topic)] if group and topic else []
    return [(name[:at], name[at + 1 :]) for at, letter in enumerate(name) if letter == "_" and 0 < at < len(name) - 1]


def dead_letter_topic(group: str) -> str:
    """The topic of messages of `group` whose delivery attempts are used up."""
    return DLQ_PREFIX + group


def in_namespace(space: str, name: str) -> str:
    """The stored form of a topic or group that a client names in a namespace: `space%name`, after a %RETRY% or %DLQ% prefix.

    Names of the system are the same in every namespace; a name that has the namespace already is unchanged (RocketMQ's
    NamespaceUtil). "" for an illegal namespace: one with a % in it could be taken for another.
    """
    if not _NAMESPACE.match(space):
        return ""
    prefix, bare = _derived(name)
    if "+" in bare:  # a POP retry topic: group and topic are in the namespace each
        return prefix + "+".join([in_namespace(space, each) for each in bare.split("+")])
    if not bare or bare.startswith(f"{space}%") or is_system_topic(name) or is_system_group(name):
        return name
    return f"{prefix}{space}%{bare}"


def out_of_namespace(space: str, name: str) -> str:
    """The name that a client in `space` knows for the stored `name`; unchanged when `name` is not in that namespace."""
    prefix, bare = _derived(name)
    if "+" in bare:
        return prefix + "+".join([out_of_namespace(space, each) for each in bare.split("+")])
    own = f"{space}%"
    return prefix + bare[len(own) :] if bare.startswith(own) else name


def _derived(name: str) -> tuple[str, str]:
    """The prefix %RETRY% or %DLQ% or "", and the rest of the name."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def is_system_group(name: str) -> bool:
    """True for groups that RocketMQ's own tools and brokers use (MixAll.isSysConsumerGroup)."""
    return name in _SYSTEM_GROUPS or name.startswith("CID_RMQ_SYS_")


def topic_of_path(path: str) -> str:
    """The topic that stores messages of an MQTT path: its first level where that is a topic name, else `mqtt_other`."""
    first, _, _ = path.partition("/")
    if _FIRST_LEVEL.match(first) is not None and not is_system_topic(first):
        return first
    return OTHER_PATHS_TOPIC


@lru_cache(maxsize=SHARES_KEPT)
def share_group(share: str, pattern: str) -> str:
    """The consumer group of the shared subscription `$share/SHARE/PATTERN` (MQTT 5, 4.8.2: it is the name and the filter).

    It is `share` itself for all paths of one topic, TOPIC/#, which members of other protocols can share. Every other filter has
    a group of its own: the first 99 characters of `share`, `-`, and 20 hexadecimal digits of a hash of both.
    """
    if pattern.endswith("/#") and topic_of_path(pattern) == pattern[:-2]:
        return share
    digest = blake2b(f"{share}/{pattern}".encode("utf-8", "surrogatepass"), digest_size=_SHARE_DIGEST_BYTES).hexdigest()
    return f"{share[: limits.GROUP_CHARS_MAX - 1 - len(digest)]}-{digest}"


def is_path(path: str) -> bool:
    """True for a legal MQTT topic name: 1 to 4,096 bytes, at most 128 levels, no wildcard, no U+0000 (MQTT 5, 4.7)."""
    return (
        path != ""
        and "+" not in path
        and "#" not in path
        and "\x00" not in path
        and path.count("/") < limits.PATH_LEVELS_MAX
        and len(path.encode("utf-8", "surrogatepass")) <= limits.PATH_BYTES_MAX
    )


def host_bytes(host: str, port: int) -> bytes:
    """An address in bytes: `10.0.0.1`, 10911 -> 8 bytes, an IPv6 literal -> 20. Any other text counts as 127.0.0.1."""
    return _ip_bytes(host) + port.to_bytes(4, "big")


@lru_cache(HOSTS_KEPT)
def _ip_bytes(host: str) -> bytes:
    if ":" in host:
        return _v6(host.partition("%")[0])
    parts = host.split(".")
    if len(parts) == 4 and all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts):
        return bytes(int(part) for part in parts)
    return b"\x7f\x00\x00\x01"


@lru_cache(HOSTS_KEPT)
def network_of_host(host: str) -> str:
    """The network that counts as one host in turns and bounds: an IPv4 address, or the /64 of an IPv6 address.

    One who has an IPv6 address usually has 2^64 of them. `2001:db8::7` -> `2001:db8::/64`; an IPv4 address that is mapped to
    IPv6 (`::ffff:10.0.0.1`, RFC 4291, 2.5.5.2) counts as itself; any other text is its own network.
    """
    if ":" not in host:
        return host
    import ipaddress

    packed = _v6(host.partition("%")[0])
    if packed[:12] == _MAPPED:
        return f"{packed[12]}.{packed[13]}.{packed[14]}.{packed[15]}"
    return f"{ipaddress.IPv6Address(packed[:8] + bytes(8))}/64"


def _v6(host: str) -> bytes:
    import ipaddress

    try:
        return ipaddress.IPv6Address(host).packed
    except ValueError:
        return bytes(15) + b"\x01"


def host_text(host: bytes) -> str:
    """8 or 20 bytes -> `10.0.0.1:10911` or `[::1]:10911`."""
    port = int.from_bytes(host[-4:], "big")
    if len(host) == 8:
        return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}:{port}"
    import ipaddress

    return f"[{ipaddress.IPv6Address(host[:16])}]:{port}"


def endpoint_of(text: str) -> tuple[str, int] | None:
    """`10.0.0.5:9876`, `name:9876` or `[::1]:9876` -> host without brackets, and port (1 to 65,535); else None."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or len(port) > 5 or not 0 < int(port) < 65_536:
        return None
    return host, int(port)


def endpoint_text(host: str, port: int) -> str:
    """Host and port as text: `10.0.0.5:9876`, and `[::1]:9876` for an IPv6 literal."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def offset_message_id(store_host: bytes, physical_offset: int) -> str:
    """RocketMQ's offset message id: store host and physical offset in upper-case hexadecimal digits."""
    return (store_host + physical_offset.to_bytes(8, "big")).hex().upper()


def physical_offset_of(message_id: str) -> int:
    """The physical offset in an offset message id of 32 or 56 hexadecimal digits, -1 for any other text."""
    if len(message_id) not in (32, 56):
        return -1
    try:
        return int(message_id[-16:], 16)
    except ValueError:
        return -1


def path_in(topic: str, origin: bytes) -> str:
    """The path of a record of `topic` whose property `originMqttTopic` is `origin` (b"": none).

    An invalid path, or one of another topic (a copied property), is ignored: the path is the topic then. So delivery of new
    messages and reading from the log use the same path.
    """
    if origin:
        path = origin.decode("utf-8", "replace")
        if topic_of_path(path) == topic and is_path(path):
            return path
    return topic
