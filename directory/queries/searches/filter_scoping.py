"""What the filter of a caller may ask under a role with scopes: of other objects only those inside them.

A comparison with the name of an object outside matches nothing, and its negation matches nothing either: it counts as
unknown (RFC 4511 4.5.1.7), as if the gateway could not read the value. Whether there is any value at all is asked of
the values that the caller may see, which no filter can say: `present` tells what has to be looked at.
By the time of their last change groups are not found: members outside move it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from active_directory import ANYTHING, IN_CHAIN, And, Entry, Equals, Extensible, Filter, Not, Or, Present
from core.text.messages import message
from directory import errors
from directory.lookup.visibility import Visibility

_NOTHING = Not(ANYTHING)
_GROUPS = Equals("objectClass", "group")


@dataclass(frozen=True, slots=True)
class ScopedFilter:
    """A filter that says nothing of what the caller may not see, and by attribute whether visible values are wanted."""

    condition: Filter
    present: Mapping[str, bool] = field(default_factory=dict)

    def acceptor(self, visibility: Visibility) -> Callable[[Entry], bool] | None:
        """What tells the matches, read with the attributes of `present`, among those found; None when all are."""
        if not self.present:
            return None
        wanted = self.present.items()
        return lambda entry: all((name in visibility.confined(entry, name)) is is_wanted for name, is_wanted in wanted)


def scope_filter(condition: Filter, visibility: Visibility) -> ScopedFilter:
    """The filter as it may be asked; raises FilterUnsupported for a presence that is not one of the conditions all of
    which have to hold.
    """
    if not visibility.is_confined:
        return ScopedFilter(condition)
    kept: list[Filter] = []
    present: dict[str, bool] = {}
    for part in _conjuncts(condition):
        is_wanted = not isinstance(part, Not)
        asked = part.filter if isinstance(part, Not) else part
        if isinstance(asked, Present) and visibility.is_reference(asked.attribute):
            name = asked.attribute.lower()
            if present.setdefault(name, is_wanted) is not is_wanted:
                kept.append(_NOTHING)
            if is_wanted:
                kept.append(asked)  # who has no value at all has none that may be seen
        else:
            kept.append(_rewritten(part, visibility, is_negated=False))
    return ScopedFilter(And(*kept) if kept else ANYTHING, present)


def names_only_seen(condition: Filter, visibility: Visibility) -> bool:
    """Whether a filter compares with no name that the caller may not see."""
    match condition:
        case And() | Or():
            return all(names_only_seen(inner, visibility) for inner in condition.filters)
        case Not():
            return names_only_seen(condition.filter, visibility)
        case Present():
            return True
        case _:
            if not any(map(visibility.is_reference, condition.attributes())):
                return True
            return isinstance(condition, Equals | Extensible) and _is_seen(condition, visibility)


def _conjuncts(condition: Filter) -> list[Filter]:
    if isinstance(condition, And):
        return [part for inner in condition.filters for part in _conjuncts(inner)]
    return [condition]


def _rewritten(condition: Filter, visibility: Visibility, *, is_negated: bool) -> Filter:
    match condition:
        case And():
            return And(*(_rewritten(inner, visibility, is_negated=is_negated) for inner in condition.filters))
        case Or():
            return Or(*(_rewritten(inner, visibility, is_negated=is_negated) for inner in condition.filters))
        case Not():
            return Not(_rewritten(condition.filter, visibility, is_negated=not is_negated))
        case _:
            if not any(map(visibility.is_reference, condition.attributes())):
                tells_of_members = any(map(visibility.tells_of_members, condition.attributes()))
                return And(condition, Not(_GROUPS)) if tells_of_members else condition
    if isinstance(condition, Present):
        detail = message(
            "{condition}: inside scopes it can be asked only beside conditions that all have to hold, whether there is "
            "any value",
            condition=condition,
        )
        raise errors.FilterUnsupported.naming(detail, parameter="filter")
    if isinstance(condition, Equals | Extensible) and _is_seen(condition, visibility):
        return condition
    return ANYTHING if is_negated else _NOTHING


def _is_seen(condition: Equals | Extensible, visibility: Visibility) -> bool:
    """Whether it compares as a whole with a value that the caller may see."""
    value = condition.value
    if isinstance(value, int) or (isinstance(condition, Extensible) and condition.rule != IN_CHAIN):
        return False
    return visibility.matches(condition.attribute or "", value)
