"""Objects whose names look like one that a change sets or refers to: an approver could mistake one for the other.

They are searched for among the siblings of the target, and in the whole directory by the most likely look-alike
spellings (`core.text.names`). Both searches are bounded and may miss some.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from uuid import UUID

from active_directory import Client, DistinguishedName, Entry, Equals, Or, Scope, comparable
from core.call import Call
from core.text.messages import Message, message
from core.text.names import are_look_alikes, candidate_look_alikes
from directory.lookup.access import client_of
from directory.lookup.prefetch import prefetch_of
from directory.lookup.visibility import Visibility, parent_of, visibility_of
from directory.shapes.proposal import Proposal

_NAMING_ATTRIBUTES = frozenset({"distinguishedname", "samaccountname", "displayname"})
_MAX_REFERENCES = 100
_SPELLINGS_PER_SEARCH = 100
"""Spellings in one LDAP filter."""
_MAX_SPELLINGS, _MIN_SPELLINGS_PER_NAME = 500, 4
"""All names of a change share the maximum, but each gets at least the minimum."""
_MAX_FOUND = 100
_MAX_WARNINGS = 5
_MAX_SIBLINGS = 1000
"""In a larger container some siblings are not looked at."""
_NAME_ATTRIBUTES = ("name", "sAMAccountName", "displayName")


@dataclass(frozen=True, slots=True)
class _NamedObject:
    """An object by its names; `accounts` are those that are account names."""

    id: UUID
    dn: str
    names: tuple[str, ...]
    accounts: tuple[str, ...]

    @classmethod
    def of(cls, entry: Entry) -> "_NamedObject":
        names = dict.fromkeys(name for attribute in _NAME_ATTRIBUTES for name in entry.texts(attribute))
        return cls(entry.guid, entry.dn, tuple(names), tuple(entry.texts("sAMAccountName")))


@dataclass(frozen=True, slots=True)
class _Subject:
    """An object that a change names, with all its names, and the warning about its look-alike."""

    warning: Callable[[str], Message]
    id: UUID | None
    names: tuple[str, ...]


def look_alikes(call: Call, proposal: Proposal) -> tuple[Message, ...]:
    """Warnings about names that a change sets or refers to and that look like another object's.

    A look-alike that the caller may not see is never named, and only its account name counts: whether an account name
    is taken, the caller could find out anyway by trying to set it.
    """
    client, visibility = client_of(call), visibility_of(call)
    new_names = _new_names(proposal)
    subjects = list(_referenced_subjects(client, visibility, proposal))
    if new_names:
        subjects.insert(0, _Subject(_new_name_warning, proposal.target.id, new_names))
    if not subjects:
        return ()
    siblings = _find_similar_siblings(call, client, proposal, new_names) if new_names else []
    found = [*siblings, *_find_likely_spellings(client, subjects)]
    warnings = (warning for each in subjects for warning in _warnings(visibility, each, found))
    return tuple(islice(dict.fromkeys(warnings), _MAX_WARNINGS))


def _new_names(proposal: Proposal) -> tuple[str, ...]:
    names = []
    for change in proposal.changes:
        if change.attribute.lower() in _NAMING_ATTRIBUTES:
            new = [value for value in change.after if value not in change.before]
            is_name = change.attribute == "distinguishedName"
            names += [DistinguishedName.parse(value).rdn_value for value in new] if is_name else new
    return tuple(dict.fromkeys(names))


def _referenced_subjects(client: Client, visibility: Visibility, proposal: Proposal) -> Iterator[_Subject]:
    """The objects that the change newly refers to, and the target group where these are its new members."""
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
    wanted = {*islice(referred, _MAX_REFERENCES), *((target.id,) if is_membership and target.id else ())}
    for guid, entry in client.read_many(wanted, ("objectGUID", *_NAME_ATTRIBUTES)).items():
        if guid == target.id:
            warning = _target_warning
        elif _may_be_named(visibility, entry.dn):
            warning = partial(_reference_warning, entry.dn)
        else:
            warning = _hidden_reference_warning
        yield _Subject(warning, guid, _NamedObject.of(entry).names)


def _find_similar_siblings(
    call: Call, client: Client, proposal: Proposal, names: tuple[str, ...]
) -> list[_NamedObject]:
    """The look-alikes in the container where the target is, or will be."""
    place = next((c.after[0] for c in proposal.changes if c.attribute == "distinguishedName" and c.after), None)
    container = parent_of(place or proposal.target.distinguished_name)

    def read() -> list[_NamedObject]:
        attributes = ("objectGUID", *_NAME_ATTRIBUTES)
        found = client.search(container, Scope.ONE_LEVEL, attributes=attributes, limit=_MAX_SIBLINGS)
        return [_NamedObject.of(entry) for entry in found if "objectGUID" in entry]

    prefetch = prefetch_of(call)
    siblings = read() if prefetch is None else prefetch.get_or_read(("siblings", container.lower()), read)
    return [other for other in siblings if other.id != proposal.target.id and _are_twins(names, other.names)]


def _find_likely_spellings(client: Client, subjects: Sequence[_Subject]) -> list[_NamedObject]:
    names = dict.fromkeys(name for each in subjects for name in each.names)
    share = max(_MAX_SPELLINGS // max(1, len(names)), _MIN_SPELLINGS_PER_NAME)
    twins = ((name, twin) for name in names for twin in candidate_look_alikes(name)[:share])
    spellings = list(dict.fromkeys(twin for name, twin in twins if comparable(twin) != comparable(name)))
    found: list[_NamedObject] = []
    for first in range(0, len(spellings), _SPELLINGS_PER_SEARCH):
        some = spellings[first : first + _SPELLINGS_PER_SEARCH]
        condition = Or(*(Equals(attribute, spelling) for attribute in _NAME_ATTRIBUTES for spelling in some))
        base, attributes = client.settings.base_dn, ("objectGUID", *_NAME_ATTRIBUTES)
        entries = client.search(base, Scope.SUBTREE, condition, attributes=attributes, limit=_MAX_FOUND)
        found += map(_NamedObject.of, entries)
    return found


def _warnings(visibility: Visibility, subject: _Subject, others: Iterable[_NamedObject]) -> Iterator[Message]:
    for other in others:
        if other.id == subject.id or not _are_twins(subject.names, other.names):
            continue
        is_seen = _may_be_named(visibility, other.dn)
        if is_seen or _are_twins(subject.names, other.accounts):
            yield subject.warning(other.dn if is_seen else message("an account that the caller may not see"))


def _new_name_warning(other: str) -> Message:
    return message("it gives a name that looks like that of {object}", object=other)


def _target_warning(other: str) -> Message:
    return message("its target has a name that looks like that of {object}", object=other)


def _reference_warning(name: str, other: str) -> Message:
    return message("it refers to {name}, whose name looks like that of {object}", name=name, object=other)


def _hidden_reference_warning(other: str) -> Message:
    return message("it refers to an object, whose name looks like that of {object}", object=other)


def _are_twins(names: Collection[str], others: Collection[str]) -> bool:
    return any(
        are_look_alikes(one, other) and comparable(one) != comparable(other) for other in others for one in names
    )


def _may_be_named(visibility: Visibility, dn: str) -> bool:
    return visibility.values and visibility.can_see(dn)
