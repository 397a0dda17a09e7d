"""The table `[audit]` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The table `[audit]`: the log of logins, refusals and changes of administrators, a JSON object a line.

    enabled      whether there is one
    file         the file; "": `audit/audit.jsonl` in the data folder. Older parts have `.1`, `.2` and so on behind the name
    bytes_max    size at which a new file is begun, in bytes
    files_max    older files that are kept
    interval_s   seconds after which logins and refusals that recurred are written as a count
    """

    enabled: bool = True
    file: str = ""
    bytes_max: Annotated[int, Meta(ge=65_536, le=1_000_000_000_000)] = 8 * 1024 * 1024
    files_max: Annotated[int, Meta(ge=1, le=1_000)] = 8
    interval_s: Annotated[int, Meta(ge=1, le=86_400)] = 600
