"""Founding of a group of controllers, without a command of an operator, and without a second group.

Each controller queries all addresses in its settings, its own too. The one at the first address founds the group when all have
answered and none of them knows a group; the others take the founders from a controller that knows them. A controller with an
empty directory therefore never founds a second group: a controller that knows the first one answers, or not all answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from controller.member.identity import MemberIdentity


@final
class Founding:
    """Knowledge of one controller about the others, from their greetings."""

    def __init__(self, identity: MemberIdentity, addresses: Sequence[str]) -> None:
        """`addresses`: of all controllers, this one's too, in the same order everywhere."""
        self.identity = identity
        self.addresses = tuple(addresses)
        self._heard: dict[str, MemberIdentity] = {}
        self._levels: dict[int, int] = {}

    def heard(self, address: str, greeting: MemberIdentity) -> frozenset[int]:
        """Take a greeting from `address`. Returns the founders if it has made the group known, else an empty set."""
        self._heard[address] = greeting
        return self.notified(greeting)

    def notified(self, greeting: MemberIdentity) -> frozenset[int]:
        """Take the greeting of a controller that has connected to this one; its address is unknown."""
        self._levels[greeting.node] = greeting.level
        if self.identity.founders:
            return frozenset()
        founders = greeting.founders or self._first()
        if not founders:
            return frozenset()
        self.identity = self.identity._replace(founders=founders)
        return founders

    def all_read(self, level: int) -> bool:
        """True when all controllers that have sent a greeting can read `level`."""
        return all(each >= level for each in self._levels.values())

    def follow(self, addresses: Sequence[str]) -> None:
        """Set the addresses of the controllers. A controller that answers elsewhere still gets the messages to it."""
        self.addresses = tuple(addresses)

    def silent(self, address: str) -> None:
        """Note that no controller answers at `address` any more."""
        self._heard.pop(address, None)

    @property
    def is_founder(self) -> bool:
        """True when this controller is one of the first voters; else it waits until a leader takes it in."""
        return self.identity.node in self.identity.founders

    @property
    def address(self) -> str:
        """The address at which this controller has reached itself, "" before that."""
        return self.address_of(self.identity.node)

    def address_of(self, node: int) -> str:
        """Address of a controller, "" when unknown."""
        return next((address for address, each in self._heard.items() if each.node == node), "")

    def node_at(self, address: str) -> int:
        """Identity of the controller that answers at an address; 0: none does."""
        found = self._heard.get(address)
        return 0 if found is None else found.node

    @property
    def places(self) -> dict[int, str]:
        """Identity -> the address at which it answers."""
        return {each.node: address for address, each in self._heard.items()}

    @property
    def here(self) -> dict[str, int]:
        """Address of a controller -> the identity that answers there. One of another group is not there."""
        own = self.identity.founders
        found = {each: self._heard[each] for each in self.addresses if each in self._heard}
        return {address: each.node for address, each in found.items() if not each.founders or each.founders == own}

    @property
    def missing(self) -> list[str]:
        """Addresses without an answer."""
        return [address for address in self.addresses if address not in self.here]

    @property
    def nodes(self) -> frozenset[int]:
        """Identities that answer now."""
        return frozenset(self.here.values())

    def _first(self) -> frozenset[int]:
        """The founders, when this controller is the one to found."""
        nodes = self.nodes
        first = self._heard.get(self.addresses[0])
        if self.missing or first is None or first.node != self.identity.node or len(nodes) != len(self.addresses):
            return frozenset()
        return frozenset() if any(each.founders for each in self._heard.values()) else nodes
