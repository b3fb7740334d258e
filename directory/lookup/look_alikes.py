"""Objects whose names look like one that a change gives or refers to: an approver could take one for the other.

They are looked for among the siblings of what is named, and in the whole directory by the spellings that are most
likely (`core.text.look_alikes`). Both searches are bounded, so not every such object is found.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from uuid import UUID

from active_directory import Client, DistinguishedName, Equals, Or, Scope, comparable
from core.call import Call
from core.text.look_alikes import are_look_alikes, likely_twins
from core.text.messages import Message, message
from directory.lookup.access import client_of
from directory.lookup.siblings import NAMES, Named, as_named, forms_of, objects_in
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
class _Subject:
    """What a change names: the sentence that tells of its look-alike, and the names by which it is known."""

    sentence: Callable[[str], Message]
    id: UUID | None
    names: tuple[str, ...]


def look_alikes(call: Call, proposal: Proposal) -> tuple[Message, ...]:
    """For each name that a change gives or refers to and that looks like another object's, a sentence that tells so.

    What the caller may not see is not named, and found by its account name alone: whether that is taken, they could
    learn by asking for it.
    """
    client, visibility = client_of(call), visibility_of(call)
    given = _names_given(proposal)
    subjects = list(_referred(client, visibility, proposal))
    if given:
        subjects.insert(0, _Subject(_given, proposal.target.id, given))
    if not subjects:
        return ()
    beside = _find_beside(call, client, proposal, given) if given else []
    found = [*beside, *_find_spelled(client, subjects)]
    sentences = (sentence for each in subjects for sentence in _sentences(visibility, each, found))
    return tuple(islice(dict.fromkeys(sentences), _TOLD))


def _names_given(proposal: Proposal) -> tuple[str, ...]:
    names = []
    for change in proposal.changes:
        if change.attribute.lower() in _GIVEN_BY:
            new = [value for value in change.after if value not in change.before]
            is_name = change.attribute == "distinguishedName"
            names += [DistinguishedName.parse(value).rdn_value for value in new] if is_name else new
    return tuple(dict.fromkeys(names))


def _referred(client: Client, visibility: Visibility, proposal: Proposal) -> Iterator[_Subject]:
    """The objects that the change refers to anew, and a group that gets members."""
    target = proposal.target
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
            sentence = _of_target
        elif _may_name(visibility, entry.dn):
            sentence = partial(_of_referred, entry.dn)
        else:
            sentence = _of_unseen_referred
        yield _Subject(sentence, guid, as_named(entry).names)


def _find_beside(call: Call, client: Client, proposal: Proposal, given: tuple[str, ...]) -> list[Named]:
    """The objects whose names look alike where the target is, or will be; read anew, as those kept may have gone."""
    place = next((c.after[0] for c in proposal.changes if c.attribute == "distinguishedName" and c.after), None)
    container = parent_of(place or proposal.target.distinguished_name)
    forms = forms_of(given)
    assert call.directory is not None
    alike = [
        other.id
        for other in objects_in(client, call.directory.id, container)
        if not forms.isdisjoint(other.forms) and other.id != proposal.target.id and _are_twins(given, other.names)
    ]
    found = map(as_named, client.read_many(alike, ("objectGUID", *NAMES)).values()) if alike else ()
    return [other for other in found if parent_of(other.dn).lower() == container.lower()]


def _find_spelled(client: Client, subjects: Sequence[_Subject]) -> list[Named]:
    names = dict.fromkeys(name for each in subjects for name in each.names)
    share = max(_ALL_SPELLINGS // max(1, len(names)), _LEAST_SPELLINGS)
    twins = ((name, twin) for name in names for twin in likely_twins(name)[:share])
    spellings = list(dict.fromkeys(twin for name, twin in twins if comparable(twin) != comparable(name)))
    found: list[Named] = []
    for first in range(0, len(spellings), _SPELLINGS):
        some = spellings[first : first + _SPELLINGS]
        condition = Or(*(Equals(attribute, spelling) for attribute in NAMES for spelling in some))
        base, attributes = client.settings.base_dn, ("objectGUID", *NAMES)
        found += map(as_named, client.search(base, Scope.SUBTREE, condition, attributes=attributes, limit=_FOUND))
    return found


def _sentences(visibility: Visibility, subject: _Subject, others: Iterable[Named]) -> Iterator[Message]:
    for other in others:
        if other.id == subject.id or not _are_twins(subject.names, other.names):
            continue
        is_seen = _may_name(visibility, other.dn)
        if is_seen or _are_twins(subject.names, other.accounts):
            yield subject.sentence(other.dn if is_seen else message("an account that the caller may not see"))


def _given(other: str) -> Message:
    return message("it gives a name that looks like that of {object}", object=other)


def _of_target(other: str) -> Message:
    return message("its target has a name that looks like that of {object}", object=other)


def _of_referred(name: str, other: str) -> Message:
    return message("it refers to {name}, whose name looks like that of {object}", name=name, object=other)


def _of_unseen_referred(other: str) -> Message:
    return message("it refers to an object, whose name looks like that of {object}", object=other)


def _are_twins(names: Collection[str], others: Collection[str]) -> bool:
    return any(
        are_look_alikes(one, other) and comparable(one) != comparable(other) for other in others for one in names
    )


def _may_name(visibility: Visibility, dn: str) -> bool:
    return visibility.values and visibility.can_see(dn)
