"""Objects whose names look like one that a change gives or refers to: an approver could take one for the other.

They are looked for among the siblings of what is named, and in the whole directory by the spellings that are most
likely (`core.text.look_alikes`). Both searches are bounded, so not every such object is found.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from active_directory import Client, DistinguishedName, Equals, Or, Scope, comparable
from core.call import Call
from core.text.look_alikes import are_look_alikes, likely_twins
from directory.lookup.access import client_of
from directory.lookup.siblings import NAMES, Named, as_named, objects_in
from directory.lookup.visibility import Visibility, parent_of, visibility_of
from directory.shapes.proposal import Proposal

_GIVEN_BY = frozenset({"distinguishedname", "samaccountname", "displayname"})
_REFERENCES = 100
_SPELLINGS = 100
"""So many spellings are looked for by one search."""
_ALL_SPELLINGS, _LEAST_SPELLINGS = 500, 4
"""Of one name all likely spellings are looked for, of many together fewer of each."""
_FOUND = 100
_TOLD = 5


@dataclass(frozen=True, slots=True)
class _Named:
    """What a change names: the beginning of the sentence about it, and the names by which it is known."""

    sentence: str
    id: UUID | None
    names: tuple[str, ...]
    container: str | None = None


def look_alikes(call: Call, proposal: Proposal) -> tuple[str, ...]:
    """For each name that a change gives or refers to and that looks like another object's, a sentence that tells so.

    What the caller may not see is not named, and found by its account name alone: whether that is taken, they could
    learn by asking for it.
    """
    client, visibility = client_of(call), visibility_of(call)
    named = list(_named(client, visibility, proposal))
    return tuple(islice(dict.fromkeys(_sentences(call, client, visibility, named)), _TOLD))


def _named(client: Client, visibility: Visibility, proposal: Proposal) -> Iterator[_Named]:
    target = proposal.target
    given = _names_given(proposal)
    if given:
        place = next((c.after[0] for c in proposal.changes if c.attribute == "distinguishedName" and c.after), None)
        container = parent_of(place or target.distinguished_name)
        yield _Named("it gives a name that looks like that of", target.id, given, container)
    referred = {
        proposal.identities[value]
        for change in proposal.changes
        if change.attribute.lower() != "distinguishedname"
        for value in change.after
        if value in proposal.identities and value not in change.before
    }
    if not referred:
        return
    is_membership = any(change.attribute.lower() == "member" for change in proposal.changes)
    wanted = {*islice(referred, _REFERENCES), *((target.id,) if is_membership and target.id else ())}
    for guid, entry in client.read_many(wanted, ("objectGUID", *NAMES)).items():
        if guid == target.id:
            sentence = "its target has a name that looks like that of"
        else:
            shown = entry.dn if _may_name(visibility, entry.dn) else "an object"
            sentence = f"it refers to {shown}, whose name looks like that of"
        yield _Named(sentence, guid, as_named(entry).names)


def _names_given(proposal: Proposal) -> tuple[str, ...]:
    names = []
    for change in proposal.changes:
        if change.attribute.lower() in _GIVEN_BY:
            new = [value for value in change.after if value not in change.before]
            is_name = change.attribute == "distinguishedName"
            names += [DistinguishedName.parse(value).rdn_value for value in new] if is_name else new
    return tuple(dict.fromkeys(names))


def _sentences(call: Call, client: Client, visibility: Visibility, named: Collection[_Named]) -> Iterator[str]:
    for each in named:
        yield from _of_siblings(call, client, visibility, each)
    names = dict.fromkeys(name for each in named for name in each.names)
    share = max(_ALL_SPELLINGS // max(1, len(names)), _LEAST_SPELLINGS)
    spellings = dict.fromkeys(
        spelling
        for name in names
        for spelling in likely_twins(name)[:share]
        if comparable(spelling) != comparable(name)
    )
    for found in _spelled(client, list(spellings)):
        for each in named:
            yield from _sentence(visibility, each, found)


def _of_siblings(call: Call, client: Client, visibility: Visibility, each: _Named) -> Iterator[str]:
    if each.container is None or call.directory is None:
        return
    for other in objects_in(client, call.directory.id, each.container):
        if any(_sentence(visibility, each, other)):
            break
    else:
        return
    for other in objects_in(client, call.directory.id, each.container, anew=True):  # it may have gone since
        yield from _sentence(visibility, each, other)


def _spelled(client: Client, spellings: list[str]) -> Iterator[Named]:
    for first in range(0, len(spellings), _SPELLINGS):
        some = spellings[first : first + _SPELLINGS]
        condition = Or(*(Equals(attribute, spelling) for attribute in NAMES for spelling in some))
        base, attributes = client.settings.base_dn, ("objectGUID", *NAMES)
        yield from map(as_named, client.search(base, Scope.SUBTREE, condition, attributes=attributes, limit=_FOUND))


def _sentence(visibility: Visibility, named: _Named, other: Named) -> Iterator[str]:
    if other.id == named.id or not _are_twins(named.names, other.names):
        return
    is_seen = _may_name(visibility, other.dn)
    if is_seen or _are_twins(named.names, other.accounts):
        yield f"{named.sentence} {other.dn if is_seen else 'an account that the caller may not see'}"


def _are_twins(names: Collection[str], others: Collection[str]) -> bool:
    return any(
        are_look_alikes(one, other) and comparable(one) != comparable(other) for other in others for one in names
    )


def _may_name(visibility: Visibility, dn: str) -> bool:
    return visibility.values and visibility.can_see(dn)
