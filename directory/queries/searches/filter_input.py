"""Filters that callers wrote: read strictly, and refused where the directory would ignore a part or reveal a secret."""

import re
from dataclasses import replace
from typing import Any

from active_directory import (
    ANYTHING,
    BIT_AND,
    BIT_OR,
    IN_CHAIN,
    And,
    Anr,
    ApproximatelyEquals,
    Equals,
    Extensible,
    Filter,
    FilterSyntax,
    Not,
    Or,
    Schema,
    SearchFlags,
    StartsWith,
    Syntax,
    parse_filter,
)
from core.errors import GatewayError
from core.text.messages import message
from directory import errors
from directory.queries.searches.filter_cost import Cost, cost_of
from directory.shapes.record import why_unreadable

# [MS-ADTS] 3.1.1.3.4.4: what each matching rule applies to.
_SYNTAXES = {
    **dict.fromkeys((BIT_AND, BIT_OR), frozenset({Syntax.INTEGER, Syntax.LARGE_INTEGER})),
    IN_CHAIN: frozenset({Syntax.DN}),
}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_RESOLVING = "anr"  # a virtual attribute of AD ([MS-ADTS] 3.1.1.3.1.3.4)


def read_filter(text: str, schema: Schema, *, confidential: bool) -> tuple[Filter, Cost]:
    """The filter a caller wrote, who may read confidential attributes or not, and what it costs.

    Raises FilterMalformed with the position; AttributeNotReadable when a secret is named; FilterUnsupported for what
    AD would silently treat as never matching: unknown and computed attributes, unknown rules; FilterTooCostly.
    """
    try:
        condition = parse_filter(text)
    except FilterSyntax as error:
        raise _refusal(errors.FilterMalformed, error.reason, position=error.position) from None
    checked = _checked(condition, schema, confidential=confidential)
    return checked, cost_of(checked, schema)


def resolve_names(text: str, schema: Schema, *, confidential: bool) -> Filter:
    """Ambiguous name resolution of a text, without the attributes that the caller may not read.

    The directory resolves by all that its schema marks for it, confidential ones too, as the gateway's account may
    read them: where there is such a one, the others are named one by one.
    """
    names = [attribute for attribute in schema.attributes.values() if SearchFlags.ANR in attribute.search_flags]
    readable = [known.name for known in names if confidential or not known.confidential]
    if len(readable) == len(names):
        return Anr(text)
    return Or(*(StartsWith(name, text) for name in readable)) if readable else Not(ANYTHING)


def _checked(condition: Filter, schema: Schema, *, confidential: bool) -> Filter:
    match condition:
        # Samba drops the connection on an empty set, whose meaning is plain (RFC 4526).
        case And(filters=()):
            return ANYTHING
        case Or(filters=()):
            return Not(ANYTHING)
        case And():
            return And(*(_checked(inner, schema, confidential=confidential) for inner in condition.filters))
        case Or():
            return Or(*(_checked(inner, schema, confidential=confidential) for inner in condition.filters))
        case Not():
            return Not(_checked(condition.filter, schema, confidential=confidential))
        case _:
            return _checked_term(condition, schema, confidential=confidential)


def _checked_term(condition: Filter, schema: Schema, *, confidential: bool) -> Filter:
    condition = _named(condition, schema)
    match condition:
        case ApproximatelyEquals():  # the same to AD ([MS-ADTS] 3.1.1.3.1.3.1); Samba does not know it
            condition = Equals(condition.attribute, condition.value)
        case Extensible():
            if condition.attribute is None or condition.rule not in _SYNTAXES or condition.dn_attributes:
                raise _refusal(errors.FilterUnsupported, "the directory has no such matching rule")
    for name in condition.attributes():
        _require_usable(name, schema, confidential=confidential)
    if isinstance(condition, Extensible):
        _require_fitting(condition, schema)
    if _RESOLVING in map(str.lower, condition.attributes()):
        text = str(condition.value) if isinstance(condition, Equals) else "?"
        resolving = resolve_names(text, schema, confidential=confidential)
        if isinstance(condition, Equals):
            return resolving
        if resolving != Anr(text):
            raise _refusal(errors.FilterUnsupported, f"{condition}: anr is compared with a text")
    return condition


def _named(condition: Filter, schema: Schema) -> Filter:
    """The term under the schema's name of its attribute, which a caller may write as an OID too (RFC 4515)."""
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
    if attribute is None or attribute.syntax not in _SYNTAXES[condition.rule or ""]:
        raise _refusal(errors.FilterUnsupported, f"the matching rule does not apply to {name}")
    if condition.rule != IN_CHAIN and not _INTEGER.fullmatch(str(condition.value)):
        raise _refusal(errors.FilterUnsupported, f"the bits of {name} are compared with a whole number")


def _require_usable(name: str, schema: Schema, *, confidential: bool) -> None:
    attribute = schema.attribute(name)
    if why := why_unreadable(name, attribute, confidential=confidential):
        raise _refusal(errors.AttributeNotReadable, f"{name} {why}, so nothing can be found by it")
    if name.lower() == _RESOLVING:
        return
    if attribute is None:
        detail = message("{name} is no attribute of the directory's schema", name=name)
        raise _refusal(errors.FilterUnsupported, detail)
    if attribute.constructed:
        raise _refusal(errors.FilterUnsupported, f"{name} is computed, so nothing can be found by it")


def _refusal(kind: type[GatewayError], detail: str, **members: Any) -> GatewayError:
    return kind.naming(detail, parameter="filter", **members)
