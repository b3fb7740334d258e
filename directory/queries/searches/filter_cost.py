"""What a filter that a caller wrote may cost a domain controller: too much is refused, and much takes turns.

Costs were measured on Samba 4.17 with 4,400 objects, in units of one comparison of a text that no index spares (2 ms):
a part of a substring takes 2, a distinguished name 60 to 100, ambiguous name resolution 20. One in-chain term took 5 to
7 s. Windows keeps links in a table of its own, so that names cost it little: the weights lie between the two.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings

from active_directory import (
    IN_CHAIN,
    And,
    AnyGuid,
    Equals,
    Extensible,
    Filter,
    Not,
    Or,
    Schema,
    SearchFlags,
    Substrings,
    Syntax,
)
from core.text.messages import message
from directory import errors

_NAME_WEIGHT = 6
_ANR_WEIGHT = 10
_PART_WEIGHT = 2
_CHEAP = 12
"""Comparisons up to which a search does not count as expensive: two names, such as `memberOf=`, or anr."""
_IDENTIFYING = frozenset(
    {"objectguid", "objectsid", "samaccountname", "userprincipalname", "distinguishedname", "cn", "name", "mail"}
)
"""Indexed, and seldom the same for many. Other indexed attributes, such as objectClass, spare nothing."""
_NAMES = frozenset({Syntax.DN, Syntax.DN_BINARY, Syntax.DN_STRING})
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Cost:
    """How many comparisons with each object a filter takes, and how many chains it follows."""

    comparisons: int = 0
    chains: int = 0

    @property
    def is_expensive(self) -> bool:
        """Whether a domain controller may be busy for so long that its other clients notice."""
        return self.chains > 0 or self.comparisons > _CHEAP


def cost_of(condition: Filter, schema: Schema) -> Cost:
    """What a filter costs; raises FilterTooCostly naming the term with which it is too much."""
    limits = settings.CONFIGURATION.Searches
    comparisons = chains = 0
    for number, (term, is_negated) in enumerate(_terms(condition), 1):
        if number > limits.MaxTerms:
            raise _too_costly(term, f"a filter may have at most {limits.MaxTerms} terms")
        if isinstance(term, Extensible) and term.rule == IN_CHAIN:
            chains += 1
            if chains > limits.MaxInChainTerms:
                raise _too_costly(term, f"a filter may follow at most {limits.MaxInChainTerms} chains")
            continue
        weight = _weight(term, schema)
        comparisons += max(1, weight) if is_negated else weight  # no index tells who is not meant
        if comparisons > limits.MaxComparisons:
            detail = (
                f"a filter may take at most {limits.MaxComparisons} comparisons that no index spares; a distinguished"
                f" name counts {_NAME_WEIGHT}, each part of a substring {_PART_WEIGHT}, anr {_ANR_WEIGHT}"
            )
            raise _too_costly(term, detail)
    return Cost(comparisons, chains)


def _too_costly(term: Filter, detail: str) -> errors.FilterTooCostly:
    text = str(term)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    whole = message("{shown}: {detail}", shown=shown, detail=detail)
    return errors.FilterTooCostly.naming(whole, parameter="filter", term=shown)


def _terms(condition: Filter, is_negated: bool = False) -> Iterator[tuple[Filter, bool]]:
    """The comparisons of a filter, each with whether it stands below an odd or even number of negations."""
    match condition:
        case And() | Or():
            for inner in condition.filters:
                yield from _terms(inner, is_negated)
        case Not():
            yield from _terms(condition.filter, True)
        case _:
            yield condition, is_negated


def _weight(term: Filter, schema: Schema) -> int:
    (name,) = term.attributes()
    if name.lower() == "anr":
        return _ANR_WEIGHT
    attribute = schema.attribute(name)
    if isinstance(term, Substrings):
        if attribute is not None and SearchFlags.TUPLEINDEX in attribute.search_flags:
            return 1
        parts = [part for part in (term.initial, *term.middle, term.final) if part]
        return _PART_WEIGHT * len(parts)
    if not isinstance(term, Equals):
        return 1
    if attribute is None or attribute.indexed or name.lower() in _IDENTIFYING:
        return 0
    return _NAME_WEIGHT if attribute.syntax in _NAMES else 1


def is_narrow(condition: Filter) -> bool:
    """Whether few objects are looked at at all: an index leads to them."""
    match condition:
        case And():
            return any(map(is_narrow, condition.filters))
        case Or():
            return bool(condition.filters) and all(map(is_narrow, condition.filters))
        case Equals():
            return condition.attribute.lower() in _IDENTIFYING
        case _:
            return isinstance(condition, AnyGuid)
