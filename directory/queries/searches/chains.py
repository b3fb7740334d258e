"""In-chain terms on groups and members, which the gateway follows itself.

A domain controller follows a chain for each object anew: Samba took 5 to 7 s among 4,400 objects. The gateway walks the
groups once and reads their lists of members. A chain of `memberOf` finds what the nested member list shows, so also
accounts by their primary groups, which AD's own rule omits; a chain of `member` finds the groups that the nested group
list of an object shows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple, TypeGuard

from active_directory import (
    IN_CHAIN,
    AnyGuid,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    Extensible,
    Filter,
    InvalidValue,
    Not,
    Or,
    is_samba,
)
from directory.groups import (
    MEMBERSHIP_ATTRIBUTES,
    NESTING_ATTRIBUTES,
    groups_above,
    is_group,
    nested_groups,
)
from directory.queries.searches.filters import all_of, conjuncts, map_terms, terms_of
from directory.queries.searches.listed import Listed, have_primary, in_both, members_of

_FEW_GROUPS = 2
"""Within a disjunction or a negation, Samba compares `memberOf` of every object with each name. It is faster to list
the members of more groups."""
_MAX_LISTED = 1000
"""So many members may be listed in a filter. More are picked from what the rest of the filter finds."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A condition in which chains were followed; entries that it finds match if all of `accepts` say so.

    Only what is `listed` can match, if that is known. It is expensive where the domain controller must follow a chain,
    or compare very many names.
    """

    condition: Filter
    accepts: tuple[Callable[[Entry], bool], ...] = ()
    listed: Listed | None = None
    is_expensive: bool = False


class _Chain(NamedTuple):
    """What a chain leads to: a condition, and its members where looking for them by the condition would be slow.

    `is_short`: the condition has few names, so that it can be compared within a disjunction or a negation.
    """

    condition: Filter
    members: Callable[[], Listed] | None = None
    is_short: bool = True


def chains_in(condition: Filter) -> set[Extensible]:
    """The terms of a condition that follow a chain; doing so may look at many groups and members."""
    return {term for term, _ in terms_of(condition) if isinstance(term, Extensible) and term.rule == IN_CHAIN}


def follow_chains(client: Client, condition: Filter) -> Followed:
    """Replace the chains of a condition, and a `memberOf` that all must have, by what they lead to.

    The domain controller follows the others: of other attributes, and from objects that cannot be read here. Nothing is
    read where there are none.
    """
    parts = conjuncts(condition)
    terms: set[Extensible | Equals] = {*chains_in(condition), *filter(_is_direct_membership, parts)}
    if not terms:
        return Followed(condition)
    chains = {term: _follow(client, term) for term in terms}
    left: list[Filter] = [term for term in terms if chains[term] is None and isinstance(term, Extensible)]

    def followed(term: Filter, is_negated: bool) -> Filter:
        chain = chains.get(term) if isinstance(term, Extensible) else None
        if chain is None:
            return term
        if chain.members is None or chain.is_short:
            return chain.condition
        members = chain.members().names
        if is_negated or len(members) > _MAX_LISTED:
            left.append(term)
            return chain.condition
        return AnyGuid(sorted(members))

    kept: list[Filter] = []
    accepts: list[Callable[[Entry], bool]] = []
    listed: Listed | None = None
    for part in parts:
        is_wanted = not isinstance(part, Not)
        inner = part.filter if isinstance(part, Not) else part
        chain = chains.get(inner) if isinstance(inner, Extensible | Equals) else None
        if chain is None or chain.members is None or (chain.is_short and not is_wanted):
            kept.append(map_terms(part, followed))
        elif is_wanted:
            listed = in_both(listed, chain.members())
        else:
            accepts.append(_rejector(chain.members()))
    return Followed(all_of(kept), tuple(accepts), listed, bool(left))


def _rejector(listed: Listed) -> Callable[[Entry], bool]:
    return lambda entry: entry.values("objectGUID")[0] not in listed.names


def _is_direct_membership(term: Filter) -> TypeGuard[Equals]:
    return isinstance(term, Equals) and term.attribute.lower() == "memberof"


def _follow(client: Client, term: Extensible | Equals) -> _Chain | None:
    """What a chain leads to; None where only the domain controller can tell."""
    attribute, is_slow = (term.attribute or "").lower(), is_samba(client)
    if attribute == "member":
        start = _find(client, term.value, ("objectGUID", *MEMBERSHIP_ATTRIBUTES))
        if start is None:
            return None
        return _Chain(AnyGuid([group.guid.bytes_le for group, _ in groups_above(client, start)]))
    group = _find(client, term.value, NESTING_ATTRIBUTES) if attribute == "memberof" else None
    if group is None or not is_group(group):
        return None
    if isinstance(term, Equals):
        return _Chain(term, (lambda: members_of(client, [group], primary=False)) if is_slow else None)
    groups = nested_groups(client, group, has_index=not is_slow)
    condition = Or(*(Equals("memberOf", each.dn) for each in groups), *have_primary(groups))
    if not is_slow:
        return _Chain(condition)
    return _Chain(condition, cache(partial(members_of, client, groups)), len(groups) <= _FEW_GROUPS)


def _find(client: Client, name: str | bytes | int, attributes: tuple[str, ...]) -> Entry | None:
    """The object of this name, if it is one of this domain and can be read."""
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    try:
        if DistinguishedName.parse(text).domain != DistinguishedName.parse(client.default_naming_context):
            return None
    except InvalidValue:
        return None
    found = client.find(text, attributes)
    return found if found is not None and "objectGUID" in found and "objectSid" in found else None
