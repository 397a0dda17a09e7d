"""Changes of the number of controllers while they run: the requests of an operator, and the steps of raft towards them.

The list of controllers (domain/controller/controller_list.py) is the goal, which is committed like any change. The leader then
takes the steps: a new member becomes a learner, a learner that has caught up becomes a voter, a member that is no longer in the
list is removed. A new leader continues the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from controller.member.replacement import MemberChange
from controller.raft.configuration import Configuration
from domain.address import endpoint_of
from domain.controller.controller_list import ControllerList, ControllerPlace
from domain.limits import CONTROLLERS_MAX


def begun(book: ControllerList, seeds: Sequence[str], heard: Mapping[str, int], configuration: Configuration) -> ControllerList:
    """Book from which a first change starts: the controllers of the settings, with their identities. Raises ValueError.

    The mapping is address -> identity that answers there.
    """
    if book.number:
        return book
    missing = [each for each in seeds if each not in heard]
    unheard = sorted(configuration.voters - set(heard.values()))
    if len(missing) > 1 or len(missing) != len(unheard):
        raise ValueError(f"who is who is not known yet: {' and '.join(missing) or 'one of the controllers'} does not answer")
    return ControllerList(0, tuple(ControllerPlace(each, heard[each] if each in heard else unheard[0]) for each in seeds))


def with_controller(book: ControllerList, address: str, configuration: Configuration) -> ControllerList:
    """Book with one more controller. Raises ValueError with the reason of a refusal."""
    if address in book.addresses:
        return book
    found = endpoint_of(address)
    if found is None:
        raise ValueError(f"{address!r} is no address: HOST:PORT of a controller is wanted, as in 10.0.0.5:9878")
    under_way = unfinished(book, configuration)
    if under_way:
        raise ValueError(under_way)
    if len(book.places) >= CONTROLLERS_MAX:
        raise ValueError(f"there are {len(book.places)} controllers, and more are of no use")
    local = [each for each in book.addresses if _is_loopback(each)]
    if local and not _is_loopback(address):
        raise ValueError(
            f"{address} cannot reach {local[0]}, which is an address of one machine: start that controller again with "
            "controller.peers that name it as others reach it"
        )
    return ControllerList(book.number + 1, (*book.places, ControllerPlace(address, 0)))


def without_controller(
    book: ControllerList, address: str, heard: Mapping[str, int], configuration: Configuration
) -> ControllerList:
    """Book with one controller less. Raises ValueError with the reason of a refusal. One that is no member yet can always be
    removed."""
    place = next((each for each in book.places if each.address == address), None)
    if place is None:
        return book
    left = tuple(each for each in book.places if each is not place)
    if place.node:
        under_way = unfinished(book, configuration)
        if under_way:
            raise ValueError(under_way)
        answering = sum(heard.get(each.address) == each.node for each in left)
        if not left:
            raise ValueError("it is the last controller: what they have decided would be lost")
        if answering <= len(left) // 2:
            raise ValueError(
                f"of the {len(left)} that would be left {answering} answer, which is no majority: start the others first"
            )
    return ControllerList(book.number + 1, left)


def unfinished(book: ControllerList, configuration: Configuration) -> str:
    """The change that is under way, for people; "": none is."""
    new = [each.address for each in book.places if not each.node]
    if new:
        return f"a change is under way: {new[0]} is taken in, one at a time (or remove it again)"
    voters = {each.node for each in book.places}
    if configuration.is_joint or configuration.learners or voters != configuration.voters:
        return "a change of the controllers is under way: ask again when it is over"
    return ""


def reshaped(configuration: Configuration, book: ControllerList, heard: Mapping[str, int]) -> MemberChange | None:
    """Next change of members towards the book; None when no change is needed or possible.

    The mapping is address -> identity that answers there.
    """
    wanted = [heard.get(each.address, each.node) for each in book.places]
    goal = {each for each in wanted if each}
    if configuration.is_joint or len(goal) != sum(map(bool, wanted)):
        return None  # two addresses of one controller: the replaced one would be ambiguous
    there = set(heard.values()) & goal
    voters, learners = configuration.voters, configuration.learners
    newcomers = sorted(there - voters - learners)
    if newcomers:
        return MemberChange(voters, learners | {newcomers[0]})
    ready, gone = sorted(learners & there), sorted(voters - goal)
    if ready:
        return MemberChange(frozenset((voters - set(gone[:1])) | {ready[0]}), learners - {ready[0]})
    if learners - goal:
        return MemberChange(voters, learners & goal)
    left = voters - set(gone[:1])
    if gone and _majority(there, left):
        return MemberChange(left, learners)
    return None


def settled(configuration: Configuration, book: ControllerList, heard: Mapping[str, int]) -> ControllerList | None:
    """Book with the identities of new voters; None when it has them already."""
    if configuration.is_joint:
        return None
    found = tuple(
        ControllerPlace(each.address, heard[each.address]) if heard.get(each.address) in configuration.voters else each
        for each in book.places
    )
    nodes = [each.node for each in found if each.node]
    return None if found == book.places or len(nodes) != len(set(nodes)) else ControllerList(book.number + 1, found)


def _majority(there: Set[int], voters: Set[int]) -> bool:
    return len(there & voters) > len(voters) // 2


def _is_loopback(address: str) -> bool:
    host = (endpoint_of(address) or ("", 0))[0]
    return host in ("localhost", "::1") or host.startswith("127.")
