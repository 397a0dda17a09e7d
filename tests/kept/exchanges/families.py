"""The families of exchanges, a file of vectors each."""

from __future__ import annotations

from typing import Final

from tests.kept.exchanges.controllers import CONTROLLERS
from tests.kept.exchanges.exchange import Exchanges
from tests.kept.exchanges.forwarding import FORWARDING
from tests.kept.exchanges.name_servers import NAME_SERVERS
from tests.kept.exchanges.raft import RAFT
from tests.kept.exchanges.replication import REPLICATION

FAMILIES: Final[dict[str, Exchanges]] = {
    "forwarding": FORWARDING,
    "replication": REPLICATION,
    "raft": RAFT,
    "controllers": CONTROLLERS,
    "name-servers": NAME_SERVERS,
}
