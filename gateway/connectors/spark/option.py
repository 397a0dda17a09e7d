"""The options of a query, checked when it starts. An unknown option is an error that names the nearest known one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.client.security import KeyPlace, Tls
from gateway.connectors.spark.column import did_you_mean
from gateway.connectors.spark.failure import OptionError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
EXAMPLE: Final = '{"orders":{"0":17}}'

_BOTH: Final = (
    "nameserver", "topic", "topics", "subscribePattern", "columns", "startingOffsets", "startingTimestamp", "failOnDataLoss",
    "holdMs", "missingQueues", "mode", "minPartitions", "maxRecordsPerPartition", "timeoutMs", "retryMs",
    "tls", "tlsCaFile", "tlsCertificateFile", "tlsKeyFile", "accessKeyFile", "accessKeyEnv",
    "readFromFollowers",
)  # fmt: skip
_BATCH: Final = ("endingOffsets", "endingTimestamp")
_STREAM: Final = ("maxOffsetsPerTrigger",)
_PATH: Final = "path"
_SECRETS: Final = frozenset(
    {"accesskey", "secretkey", "accesssecret", "password", "username", "user", "token", "securitytoken", "signature", "secret"}
)
"""Options, in lower case, by which somebody may try to give a secret itself."""
_PLACE: Final = (
    "Spark keeps options in plans and logs. Write NAME:PASSWORD into the first line of a file and name it by option "
    "'accessKeyFile', or put it into an environment variable and name that by option 'accessKeyEnv'."
)


@dataclass(frozen=True)
class Options:
    """The options of a query.

    nameserver         host:port; several are separated by `;`
    topics             topic names; () with `pattern`
    pattern            regular expression for whole topic names; "" with `topics`
    starting           where the query starts: `earliest`, `latest` or JSON
    starting_ms        store time at which the query starts, epoch milliseconds, instead of `starting`; -1: not given
    ending             where a batch query ends: `latest` or JSON
    ending_ms          store time at which a batch query ends, epoch milliseconds, instead of `ending`; -1: not given
    fail_on_data_loss  True: missing messages fail the query; False: they are skipped and logged
    hold_ms            how long the brokers keep what the query still has to read, in milliseconds; 0: they are not asked
    waits              True: wait for topics, queues and brokers that are missing; False: they fail the query after `retry_s`
    permissive         True: a body that cannot be decompressed is null; False: it fails the query
    partitions_min     least number of tasks, when there are enough rows
    partition_rows     most rows of one task
    trigger_rows       most rows of one micro-batch; 0: no limit
    timeout_s          time for one attempt of a request, in seconds
    retry_s            how long reads are retried, in seconds
    tls                TLS with name servers and brokers, by names of files; None: no TLS
    key                where the access key is; None: requests are not signed
    followers          True: ranges are read from replicas that follow, as far as these have them
    """

    nameserver: str
    topics: tuple[str, ...]
    pattern: str
    starting: str
    starting_ms: int
    ending: str
    ending_ms: int
    fail_on_data_loss: bool
    hold_ms: int
    waits: bool
    permissive: bool
    partitions_min: int
    partition_rows: int
    trigger_rows: int
    timeout_s: float
    retry_s: float
    tls: Tls | None
    key: KeyPlace | None
    followers: bool = False


def parse(given: Mapping[str, str], streaming: bool) -> Options:
    """Options of Spark (names in any letter case) -> checked options. Raises OptionError."""
    known = {name.lower(): name for name in (*_BOTH, *(_STREAM if streaming else _BATCH))}
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() == _PATH:
            values["topics"] = value
        elif name.lower() in known:
            values[known[name.lower()]] = value
        else:
            if name.lower() in _SECRETS:
                raise OptionError(f"Option {name!r} is refused: a secret is not given as an option. {_PLACE}")
            hint = _misplaced(name, streaming) or did_you_mean(name, known.values())
            raise OptionError(f"Option {name!r} is not known here.{hint}")
    topics = tuple(dict.fromkeys(part.strip() for part in _topics(values).split(",") if part.strip()))
    pattern = values.get("subscribePattern", "")
    if bool(topics) == bool(pattern):
        raise OptionError("Say what to read: option 'topics' (a comma list) or option 'subscribePattern', one of them.")
    if pattern:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OptionError(f"Option 'subscribePattern' is no regular expression: {error}") from error
    if "@" in values.get("nameserver", ""):
        raise OptionError(f"Option 'nameserver' is written host:port, without a user. {_PLACE}")
    for edge in ("starting", "ending"):
        if f"{edge}Offsets" in values and f"{edge}Timestamp" in values:
            raise OptionError(f"Options '{edge}Offsets' and '{edge}Timestamp' exclude each other; give one.")
    return Options(
        nameserver=values.get("nameserver", "127.0.0.1:9876"),
        topics=topics,
        pattern=pattern,
        starting=_edge(values, "startingOffsets", EARLIEST, streaming),
        starting_ms=_number(values, "startingTimestamp", -1, 0),
        ending=_edge(values, "endingOffsets", LATEST, streaming),
        ending_ms=_number(values, "endingTimestamp", -1, 0),
        fail_on_data_loss=_truth(values, "failOnDataLoss", True),
        hold_ms=_number(values, "holdMs", 3_600_000, 0),
        waits=_choice(values, "missingQueues", ("fail", "wait")) == "wait",
        permissive=_choice(values, "mode", ("FAILFAST", "PERMISSIVE")) == "PERMISSIVE",
        partitions_min=_number(values, "minPartitions", 1, 1),
        partition_rows=_number(values, "maxRecordsPerPartition", 250_000, 1),
        trigger_rows=_number(values, "maxOffsetsPerTrigger", 0, 1),
        timeout_s=_number(values, "timeoutMs", 10_000, 1) / 1000,
        retry_s=_number(values, "retryMs", 30_000, 0) / 1000,
        tls=_tls(values),
        key=_key(values),
        followers=_truth(values, "readFromFollowers", False),
    )


def _tls(values: Mapping[str, str]) -> Tls | None:
    files = [values.get(name, "").strip() for name in ("tlsCaFile", "tlsCertificateFile", "tlsKeyFile")]
    if not _truth(values, "tls", False):
        if any(files):
            raise OptionError("Options 'tlsCaFile', 'tlsCertificateFile' and 'tlsKeyFile' are used with option tls=true only.")
        return None
    if files[2] and not files[1]:
        raise OptionError("Option 'tlsKeyFile' is the key of a certificate: give option 'tlsCertificateFile' too.")
    return Tls(*files)


def _key(values: Mapping[str, str]) -> KeyPlace | None:
    """Where the access key is. A value that looks like the key itself is refused, and not shown."""
    file, variable = (values.get(name, "").strip() for name in ("accessKeyFile", "accessKeyEnv"))
    if file and variable:
        raise OptionError("Options 'accessKeyFile' and 'accessKeyEnv' exclude each other; give one.")
    if variable and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise OptionError(f"Option 'accessKeyEnv' is the name of an environment variable, not the key itself. {_PLACE}")
    if ":" in file and not re.match(r"/|\./|\.\./|[A-Za-z]:[\\/]", file):
        raise OptionError(f"Option 'accessKeyFile' is the path of a file, not the key itself. {_PLACE}")
    return KeyPlace(file, variable) if file or variable else None


def _misplaced(name: str, streaming: bool) -> str:
    others = _BATCH if streaming else _STREAM
    if name.lower() in {other.lower() for other in others}:
        return f" It is an option of {'spark.read' if streaming else 'spark.readStream'}."
    return ""


def _topics(values: Mapping[str, str]) -> str:
    if "topic" in values and "topics" in values:
        raise OptionError("Options 'topic' and 'topics' are the same; give one.")
    return values.get("topic", values.get("topics", ""))


def _edge(values: Mapping[str, str], name: str, default: str, streaming: bool) -> str:
    text = values.get(name, default).strip()
    if text.lower() in (EARLIEST, LATEST):
        text = text.lower()
    elif not text.startswith("{"):
        raise OptionError(f"Option {name!r} is 'earliest', 'latest' or JSON such as {EXAMPLE}, not {text!r}.")
    if name == "startingOffsets" and text == LATEST and not streaming:
        raise OptionError("Option 'startingOffsets' of a batch query cannot be 'latest': there would be nothing to read.")
    if name == "endingOffsets" and text == EARLIEST:
        raise OptionError("Option 'endingOffsets' cannot be 'earliest': there would be nothing to read.")
    return text


def _number(values: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    if not text.strip().isdigit() or int(text) < least:
        raise OptionError(f"Option {name!r} is a whole number of at least {least}, not {text!r}.")
    return int(text)


def _truth(values: Mapping[str, str], name: str, default: bool) -> bool:
    text = values.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"Option {name!r} is 'true' or 'false', not {text!r}.")
    return text == "true"


def _choice(values: Mapping[str, str], name: str, of: tuple[str, ...]) -> str:
    text = values.get(name, of[0]).strip()
    for one in of:
        if one.lower() == text.lower():
            return one
    raise OptionError(f"Option {name!r} is {' or '.join(of)}, not {text!r}.")
