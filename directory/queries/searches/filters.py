"""Filters that callers write: what they may ask, what they cost a domain controller, and what scopes leave of them.

A filter is refused where the directory would ignore a part of it, reveal a secret or work for too long.

Costs were measured on Samba 4.17 with 4,400 objects. The unit is one unindexed comparison of a text (2 ms): a part of a
substring takes 2 units, a distinguished name 60 to 100, ambiguous name resolution 20. One in-chain term took 5 to 7 s
(see `chains`).
Windows keeps links in a table of its own and compares names at little cost: the weights lie between the two.

For a caller with scopes, a comparison with the name of an object outside matches nothing, and neither does its
negation: it counts as undefined (RFC 4511 4.5.1.7), as if the gateway could not read the value. No filter can ask
whether an attribute has a value that the caller may see: `ScopedFilter.present` names the attributes to look at.
Groups are not found by the time of their last change, because members outside the scopes move it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.conf import settings

from active_directory import (
    ANYTHING,
    BIT_AND,
    BIT_OR,
    IN_CHAIN,
    And,
    Anr,
    AnyGuid,
    ApproximatelyEquals,
    Client,
    Entry,
    Equals,
    Extensible,
    Filter,
    FilterSyntax,
    InvalidValue,
    Not,
    Or,
    Present,
    Schema,
    SearchFlags,
    StartsWith,
    Substrings,
    Syntax,
    has_slow_broad_indexes,
    incomparable_reason,
    parse_filter,
    read_values,
)
from core.errors import GatewayError
from core.text.messages import message
from directory import errors
from directory.lookup.visibility import Visibility
from directory.shapes.record import unreadable_reason

# The domain controller computes these for base searches only ([MS-ADTS] 3.1.1.4.5.19 to 21).
_SINGLE_OBJECT_ONLY = frozenset({"tokenGroups", "tokenGroupsGlobalAndUniversal", "tokenGroupsNoGCAcceptable"})
# The syntaxes that each matching rule applies to ([MS-ADTS] 3.1.1.3.4.4).
_RULE_SYNTAXES = {
    **dict.fromkeys((BIT_AND, BIT_OR), frozenset({Syntax.INTEGER, Syntax.LARGE_INTEGER})),
    IN_CHAIN: frozenset({Syntax.DN}),
}
_ANR = "anr"  # a virtual attribute of AD ([MS-ADTS] 3.1.1.3.1.3.4)

FILTER = (
    "An LDAP filter (RFC 4515), with values as records show them or as the directory keeps them; others are refused"
    " with `Search.FilterInvalid`. One that would cost a domain controller too much, such as many chains of links or"
    " many substrings, is refused with `AD.Filter.TooCostly`."
)

_NAME_WEIGHT = 6
_ANR_WEIGHT = 10
_PART_WEIGHT = 2
_MAX_CHEAP_COMPARISONS = 12
"""A search with more comparisons is expensive. Two names, such as two `memberOf=`, or one anr are still cheap."""
_IDENTIFYING = frozenset("objectguid objectsid samaccountname userprincipalname distinguishedname cn name mail".split())
"""Attributes with an index and few objects for each value. The index of others, such as objectClass, saves nothing."""
_NAME_SYNTAXES = frozenset({Syntax.DN, Syntax.DN_BINARY, Syntax.DN_STRING})
_MAX_SHOWN_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Cost:
    """How many comparisons a filter makes with each object, besides following chains."""

    comparisons: int = 0

    @property
    def is_expensive(self) -> bool:
        """Whether a domain controller may be busy for so long that its other clients notice."""
        return self.comparisons > _MAX_CHEAP_COMPARISONS


def read_filter(text: str, schema: Schema, *, confidential: bool) -> tuple[Filter, Cost]:
    """Parse and check a caller's filter; `confidential` is whether the caller may read confidential attributes.

    Raises FilterMalformed or FilterValueInvalid with the position, AttributeNotReadable for a filter that names a
    secret, FilterTooCostly, and FilterUnsupported for unknown or computed attributes and unknown rules, which AD would
    silently not match.
    """
    try:
        condition = parse_filter(text)
    except FilterSyntax as error:
        raise _refusal(errors.FilterMalformed, error.reason, position=error.position) from None
    checked = map_terms(condition, lambda term, _: checked_term(term, text, schema, confidential=confidential))
    return checked, cost_of(checked, schema)


def resolve_names(text: str, schema: Schema, *, confidential: bool) -> Filter:
    """Ambiguous name resolution of a text, without the attributes that the caller may not read.

    AD's own anr compares all attributes that the schema marks for it. Where the gateway's account may read one of them
    and the caller may not, the filter names the others one by one.
    """
    names = [attribute for attribute in schema.attributes.values() if SearchFlags.ANR in attribute.search_flags]
    readable = [known.name for known in names if confidential or not known.is_confidential]
    if len(readable) == len(names):
        return Anr(text)
    return Or(*(StartsWith(name, text) for name in readable)) if readable else Not(ANYTHING)


def map_terms(condition: Filter, changed: Callable[[Filter, bool], Filter], *, is_negated: bool = False) -> Filter:
    """The filter with `changed` applied to each comparison, and to whether it is below an odd number of negations."""
    match condition:
        # Samba drops the connection on an empty And or Or, which mean true and false (RFC 4526).
        case And(filters=()):
            return ANYTHING
        case Or(filters=()):
            return Not(ANYTHING)
        case And():
            return And(*(map_terms(inner, changed, is_negated=is_negated) for inner in condition.filters))
        case Or():
            return Or(*(map_terms(inner, changed, is_negated=is_negated) for inner in condition.filters))
        case Not():
            return Not(map_terms(condition.filter, changed, is_negated=not is_negated))
        case _:
            return changed(condition, is_negated)


def checked_term(condition: Filter, text: str, schema: Schema, *, confidential: bool) -> Filter:
    """A comparison as the directory understands it; raises as `read_filter`. `text` is what it was parsed from."""
    condition = _with_schema_name(condition, schema)
    match condition:
        case ApproximatelyEquals():  # the same to AD ([MS-ADTS] 3.1.1.3.1.3.1); Samba does not know it
            condition = Equals(condition.attribute, condition.value, at=condition.at)
        case Extensible():
            if condition.attribute is None or condition.rule not in _RULE_SYNTAXES or condition.dn_attributes:
                raise _refusal(errors.FilterUnsupported, "the directory has no such matching rule")
    for name in condition.attributes():
        _require_usable(name, schema, confidential=confidential)
    if isinstance(condition, Extensible):
        _require_fitting(condition, schema)
    if _ANR in map(str.lower, condition.attributes()):
        if isinstance(condition, Equals) and condition.value and isinstance(condition.value, str):
            return resolve_names(condition.value, schema, confidential=confidential)
        if isinstance(condition, Equals) or resolve_names("?", schema, confidential=confidential) != Anr("?"):
            kind = errors.FilterValueInvalid if isinstance(condition, Equals) else errors.FilterUnsupported
            detail = message("{shown}: {detail}", shown=_shown(condition), detail="anr is compared with a text")
            raise _refusal(kind, detail, position=getattr(condition, "at", 0))
        return condition
    return _with_read_values(condition, text, schema)


def _with_read_values(condition: Filter, text: str, schema: Schema) -> Filter:
    """The term with its values as the directory keeps them; the caller may write them as records show them."""
    (name,) = condition.attributes()
    attribute = schema.attribute(name)
    assert attribute is not None  # _require_usable has looked
    at = getattr(condition, "at", 0)
    if why := incomparable_reason(condition, attribute):
        detail = message("{shown}: {detail}", shown=_shown(condition), detail=f"{name} {why}")
        raise _refusal(errors.FilterUnsupported, detail, position=at)
    try:
        return read_values(condition, attribute, schema, is_escaped=text[at:].startswith(("\\", "*\\")))
    except InvalidValue as error:
        detail = message("{shown}: {detail}", shown=_shown(condition), detail=error.message)
        raise _refusal(errors.FilterValueInvalid, detail, position=at) from None


def _with_schema_name(condition: Filter, schema: Schema) -> Filter:
    """The term with the schema's name of its attribute, which a caller may also write as an OID (RFC 4515)."""
    written = getattr(condition, "attribute", None)
    known = schema.attribute_by_oid(written) if written else None
    if known is None:
        return condition
    term: Any = condition
    named: Filter = replace(term, attribute=known.name)
    return named


def _require_fitting(condition: Extensible, schema: Schema) -> None:
    name = condition.attribute or ""
    attribute = schema.attribute(name.partition(";")[0])
    if attribute is None or attribute.syntax not in _RULE_SYNTAXES[condition.rule or ""]:
        raise _refusal(errors.FilterUnsupported, f"the matching rule does not apply to {name}")


def _require_usable(name: str, schema: Schema, *, confidential: bool) -> None:
    attribute = schema.attribute(name)
    if why := unreadable_reason(name, attribute, confidential=confidential):
        raise _refusal(errors.AttributeNotReadable, f"{name} {why}, so nothing can be found by it")
    if name.lower() == _ANR:
        return
    if attribute is None:
        detail = message("{name} is no attribute of the directory's schema", name=name)
        raise _refusal(errors.FilterUnsupported, detail)
    if attribute.constructed:
        raise _refusal(errors.FilterUnsupported, f"{name} is computed, so nothing can be found by it")


def _refusal(kind: type[GatewayError], detail: str, **members: Any) -> GatewayError:
    return kind.naming(detail, parameter="filter", **members)


def cost_of(condition: Filter, schema: Schema) -> Cost:
    """What a filter costs; raises FilterTooCostly with the term that exceeds a limit."""
    limits = settings.CONFIGURATION.Searches
    comparisons = chains = 0
    for number, (term, is_negated) in enumerate(terms_of(condition), 1):
        if number > limits.MaxTerms:
            raise _too_costly(term, f"a filter may have at most {limits.MaxTerms} terms")
        if isinstance(term, Extensible) and term.rule == IN_CHAIN:
            chains += 1
            if chains > limits.MaxInChainTerms:
                raise _too_costly(term, f"a filter may follow at most {limits.MaxInChainTerms} chains")
            continue
        weight = _weight(term, schema)
        comparisons += max(1, weight) if is_negated else weight  # no index finds the objects without a value
        if comparisons > limits.MaxComparisons:
            detail = (
                f"a filter may take at most {limits.MaxComparisons} comparisons that no index spares; a distinguished"
                f" name counts {_NAME_WEIGHT}, each part of a substring {_PART_WEIGHT}, anr {_ANR_WEIGHT}"
            )
            raise _too_costly(term, detail)
    return Cost(comparisons)


def _too_costly(term: Filter, detail: str) -> errors.FilterTooCostly:
    shown = _shown(term)
    whole = message("{shown}: {detail}", shown=shown, detail=detail)
    return errors.FilterTooCostly.naming(whole, parameter="filter", term=shown)


def took_too_long(seconds: int) -> errors.FilterTooCostly:
    """The refusal of an expensive search that a domain controller did not finish in time."""
    detail = message(
        "it took the domain controller more than the {seconds} s that Searches:ExpensiveSeconds gives an "
        "expensive search: ask for less, by filter or base",
        seconds=seconds,
    )
    return errors.FilterTooCostly.naming(detail, parameter="filter")


def _shown(term: Filter) -> str:
    text = str(term)
    return text if len(text) <= _MAX_SHOWN_LENGTH else f"{text[:_MAX_SHOWN_LENGTH]}…"


def terms_of(condition: Filter, is_negated: bool = False) -> Iterator[tuple[Filter, bool]]:
    """The comparisons of a filter, each with whether it is below a negation."""
    match condition:
        case And() | Or():
            for inner in condition.filters:
                yield from terms_of(inner, is_negated)
        case Not():
            yield from terms_of(condition.filter, True)
        case _:
            yield condition, is_negated


def _weight(term: Filter, schema: Schema) -> int:
    (name,) = term.attributes()
    if name.lower() == _ANR:
        return _ANR_WEIGHT
    attribute = schema.attribute(name)
    if isinstance(term, Substrings):
        if attribute is not None and SearchFlags.TUPLEINDEX in attribute.search_flags:
            return 1
        parts = [part for part in (term.initial, *term.middle, term.final) if part]
        return _PART_WEIGHT * len(parts)
    if not isinstance(term, Equals):
        return 1
    if attribute is None or attribute.is_indexed or name.lower() in _IDENTIFYING:
        return 0
    return _NAME_WEIGHT if attribute.syntax in _NAME_SYNTAXES else 1


def require_searchable(names: Iterable[str], *, parameter: str) -> None:
    """Refuse attributes that a domain controller computes for single objects only: it fails all other searches."""
    for name in names:
        if name in _SINGLE_OBJECT_ONLY:
            detail = message("{name} is computed for one object at a time: read each by itself", name=name)
            raise errors.AttributeNotReadable.naming(detail, parameter=parameter)


def is_narrow(condition: Filter) -> bool:
    """Whether an index leads to the few objects that may match."""
    match condition:
        case And():
            return any(map(is_narrow, condition.filters))
        case Or():
            return bool(condition.filters) and all(map(is_narrow, condition.filters))
        case Equals():
            return condition.attribute.lower() in _IDENTIFYING
        case _:
            return isinstance(condition, AnyGuid)


_NOTHING = Not(ANYTHING)
_GROUPS = Equals("objectClass", "group")
_USERS = Equals("objectClass", "user")


@dataclass(frozen=True, slots=True)
class ScopedFilter:
    """A filter that reveals nothing hidden; `present` says which attributes must have visible values, or must not."""

    condition: Filter
    present: Mapping[str, bool] = field(default_factory=dict)

    def acceptor(self, visibility: Visibility) -> Callable[[Entry], bool] | None:
        """Decides whether an entry, read with the attributes in `present`, matches; None where all found entries do."""
        if not self.present:
            return None
        wanted = self.present.items()
        return lambda entry: all((name in visibility.confined(entry, name)) is is_wanted for name, is_wanted in wanted)


def scope_filter(condition: Filter, visibility: Visibility) -> ScopedFilter:
    """The filter as the caller's scopes leave it.

    Raises FilterUnsupported for a presence test of a reference that is not one of the filter's conjuncts: only those
    can be checked on the entries found.
    """
    if not visibility.is_confined:
        return ScopedFilter(condition)
    kept: list[Filter] = []
    present: dict[str, bool] = {}
    for part in conjuncts(condition):
        is_wanted = not isinstance(part, Not)
        asked = part.filter if isinstance(part, Not) else part
        if isinstance(asked, Present) and visibility.is_reference(asked.attribute):
            name = asked.attribute.lower()
            if present.setdefault(name, is_wanted) is not is_wanted:
                kept.append(_NOTHING)
            if is_wanted:
                kept.append(asked)  # an object without any value has no visible one either
        else:
            kept.append(map_terms(part, partial(_scoped_term, visibility)))
    return ScopedFilter(And(*kept) if kept else ANYTHING, present)


def is_filter_visible(condition: Filter, visibility: Visibility) -> bool:
    """Whether a filter compares references only with names that the caller may see."""
    return all(
        isinstance(term, Present)
        or not any(map(visibility.is_reference, term.attributes()))
        or _is_term_visible(term, visibility)
        for term, _ in terms_of(condition)
    )


def all_of(conditions: Iterable[Filter]) -> Filter:
    """The conjunction, without terms that are true of every object."""
    parts = [part for condition in conditions for part in conjuncts(condition) if part != ANYTHING]
    return And(*parts) if parts else ANYTHING


def past_user_index(client: Client, condition: Filter, declared: Filter) -> Filter:
    """The condition, worded so that Samba does not use its index of users for what `declared` asks in a large domain.

    Nearly all objects of a domain are in this index, to which computers belong, too. Among 37,000, Samba takes 18 to 27
    µs for each that an index leads to, and 7 µs for one that it looks at without; among 5,000, 5 and 8 µs. Indexes that
    the other conditions ask for are still used.
    """
    if not has_slow_broad_indexes(client):
        return condition
    broad = [part for part in conjuncts(declared) if any(term == _USERS for term, _ in terms_of(part))]
    return all_of(Not(Not(part)) if part in broad else part for part in conjuncts(condition))


def conjuncts(condition: Filter) -> list[Filter]:
    if isinstance(condition, And):
        return [part for inner in condition.filters for part in conjuncts(inner)]
    return [condition]


def _scoped_term(visibility: Visibility, term: Filter, is_negated: bool) -> Filter:
    if not any(map(visibility.is_reference, term.attributes())):
        changes_with_members = any(map(visibility.changes_with_members, term.attributes()))
        return And(term, Not(_GROUPS)) if changes_with_members else term
    if isinstance(term, Present):
        detail = message(
            "{condition}: inside scopes it can be asked only beside conditions that all have to hold, whether there is "
            "any value",
            condition=term,
        )
        raise _refusal(errors.FilterUnsupported, detail)
    if str(getattr(term, "value", "")).lower().startswith(("<guid=", "<sid=")):
        detail = message("{condition}: inside scopes objects are named by their distinguished names", condition=term)
        raise _refusal(errors.FilterUnsupported, detail)
    if _is_term_visible(term, visibility):
        return term
    return ANYTHING if is_negated else _NOTHING


def _is_term_visible(term: Filter, visibility: Visibility) -> bool:
    """Whether the term compares with a whole value that the caller may see: parts of one could be guessed."""
    if not isinstance(term, Equals | Extensible) or isinstance(term.value, int):
        return False
    if isinstance(term, Extensible) and term.rule != IN_CHAIN:
        return False
    return visibility.can_see_filter_value(term.attribute or "", term.value)
