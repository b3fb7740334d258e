"""Several changes seen together: what they have in common, and which of them differ from the others.

Among two hundred changes of one import the two that are not like the others must not be overlooked. What most of them
do is the rule; whatever does something else, or something more, is an exception with its reasons in words. Pure.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from django.utils.translation import gettext as _

from core.text.vocabulary import noun_label, risk_words
from directory.shapes.wording.attribute_labels import label_of
from directory.shapes.wording.change_words import ChangeFacts, kind_words
from directory.shapes.wording.value_words import given_words

_VALUES: Final = 3
"""So many of the values that an attribute is given are told."""
_DISTINGUISHED: Final = frozenset({"distinguishedname", "name", "cn"})
"""Different for every object."""

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Member:
    """One of the changes."""

    id: UUID
    risk: str
    change: ChangeFacts


@dataclass(frozen=True, slots=True)
class Common:
    """What becomes of an attribute by several changes: in how many, and its values with how often each is given."""

    attribute: str
    label: str
    count: int
    values: tuple[tuple[str, int], ...]
    distinct: int


def union_of(members: Sequence[Member]) -> list[Common]:
    """Everything that the changes write, the most frequent attributes first."""
    given: dict[str, Counter[str]] = {}
    names: dict[str, str] = {}
    for member in members:
        for each in member.change.changes:
            key = each.attribute.lower()
            names.setdefault(key, each.attribute)
            given.setdefault(key, Counter())[given_words(each, member.change.named)] += 1
    found = [
        Common(
            attribute=names[key],
            label=label_of(names[key]),
            count=values.total(),
            values=tuple(values.most_common(_VALUES)),
            distinct=len(values),
        )
        for key, values in given.items()
    ]
    return sorted(found, key=lambda each: (-each.count, each.label.lower()))


def exceptions_of(members: Sequence[Member]) -> dict[UUID, list[str]]:
    """Those that differ from most of the others, with why. Without a majority there is no rule to differ from."""
    usual_risk = _usual(members, lambda member: member.risk)
    usual_action = _usual(members, lambda member: member.change.operation)
    usual_kind = _usual(members, lambda member: member.change.kind)
    by_name = {
        member.id: {each.attribute.lower(): given_words(each, member.change.named) for each in member.change.changes}
        for member in members
    }
    labels = {each.attribute.lower(): label_of(each.attribute) for member in members for each in member.change.changes}
    most = len(members) / 2
    usual_values: dict[str, str | None] = {}
    for name in labels:
        having = [of_one[name] for of_one in by_name.values() if name in of_one]
        if len(having) > most:
            usual_values[name] = _most(having, more_than=most)

    def reasons(member: Member) -> Iterable[str]:
        if usual_risk is not None and member.risk != usual_risk:
            yield _("{this} instead of {usual}").format(this=risk_words(member.risk), usual=risk_words(usual_risk))
        if usual_action is not None and member.change.operation != usual_action:
            this, usual = (noun_label(name.rpartition(".")[2]) for name in (member.change.operation, usual_action))
            yield _("{this} instead of {usual}").format(this=this, usual=usual)
        elif usual_kind is not None and member.change.kind != usual_kind:
            this, usual = kind_words(member.change.kind), kind_words(usual_kind)
            yield _("a {this} instead of a {usual}").format(this=this, usual=usual)
        mine = by_name[member.id]
        for name, label in labels.items():
            if name in _DISTINGUISHED:
                continue
            if name not in usual_values:
                if name in mine and usual_action is not None:
                    yield _("also changes {attribute}").format(attribute=label)
            elif name not in mine:
                yield _("does not change {attribute}").format(attribute=label)
            elif (usual_value := usual_values[name]) is not None and mine[name] != usual_value:
                text = _("{attribute}: {this} instead of {usual}")
                yield text.format(attribute=label, this=mine[name], usual=usual_value)

    found = {member.id: list(reasons(member)) for member in members}
    return {id: why for id, why in found.items() if why}


def _usual(members: Sequence[Member], what: Callable[[Member], _Key]) -> _Key | None:
    return _most([what(member) for member in members], more_than=len(members) / 2)


def _most(values: Sequence[_Key], *, more_than: float) -> _Key | None:
    """The value that more of them have than that; None if there is none."""
    if not values:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if count > more_than else None
