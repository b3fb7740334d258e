"""Filters that callers wrote: read strictly, and refused where the directory would ignore a part or reveal a secret."""

import re
from typing import Any

from directory import errors
from directory.ldap import (
    ANYTHING,
    And,
    ApproximatelyEquals,
    AttributeType,
    Equals,
    Extensible,
    Filter,
    FilterSyntax,
    Not,
    Or,
    Schema,
    Syntax,
)
from directory.ldap.codecs import is_credential
from directory.ldap.filters import BIT_AND, BIT_OR, IN_CHAIN, parse
from gateway.core.errors import FieldError, GatewayError

# [MS-ADTS] 3.1.1.3.4.4: what each matching rule applies to.
_SYNTAXES = {
    **dict.fromkeys((BIT_AND, BIT_OR), frozenset({Syntax.INTEGER, Syntax.LARGE_INTEGER})),
    IN_CHAIN: frozenset({Syntax.DN}),
}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NOT_IN_THE_SCHEMA = frozenset({"anr"})  # a virtual attribute of AD ([MS-ADTS] 3.1.1.3.1.3.4)


def read_filter(text: str, schema: Schema) -> Filter:
    """The filter a caller wrote.

    Raises FilterMalformed with the position; AttributeNotReadable when a secret is named; FilterUnsupported for what
    AD would silently treat as never matching: unknown and computed attributes, unknown rules.
    """
    try:
        condition = parse(text)
    except FilterSyntax as error:
        raise _refusal(errors.FilterMalformed, error.reason, position=error.position) from None
    return _checked(condition, schema)


def _checked(condition: Filter, schema: Schema) -> Filter:
    match condition:
        # Samba drops the connection on an empty set, whose meaning is plain (RFC 4526).
        case And(filters=()):
            return ANYTHING
        case Or(filters=()):
            return Not(ANYTHING)
        case And():
            return And(*(_checked(inner, schema) for inner in condition.filters))
        case Or():
            return Or(*(_checked(inner, schema) for inner in condition.filters))
        case Not():
            return Not(_checked(condition.filter, schema))
        case ApproximatelyEquals():  # the same to AD ([MS-ADTS] 3.1.1.3.1.3.1); Samba does not know it
            condition = Equals(condition.attribute, condition.value)
        case Extensible():
            if condition.attribute is None or condition.rule not in _SYNTAXES or condition.dn_attributes:
                raise _refusal(errors.FilterUnsupported, "the directory has no such matching rule")
    for name in condition.attributes():
        _require_usable(name, schema)
    if isinstance(condition, Extensible):
        _require_fitting(condition, schema)
    return condition


def _require_fitting(condition: Extensible, schema: Schema) -> None:
    name = condition.attribute or ""
    attribute = schema.attribute(name.partition(";")[0])
    if attribute is None or attribute.syntax not in _SYNTAXES[condition.rule or ""]:
        raise _refusal(errors.FilterUnsupported, f"the matching rule does not apply to {name}")
    if condition.rule != IN_CHAIN and not _INTEGER.fullmatch(str(condition.value)):
        raise _refusal(errors.FilterUnsupported, f"the bits of {name} are compared with a whole number")


def _require_usable(name: str, schema: Schema) -> None:
    if is_credential(name) or name.lower() == "ntsecuritydescriptor":
        raise _refusal(errors.AttributeNotReadable, f"{name} is never shown, so nothing can be found by it")
    if name.lower() in _NOT_IN_THE_SCHEMA:
        return
    attribute: AttributeType | None = schema.attribute(name)
    if attribute is None:
        raise _refusal(errors.FilterUnsupported, f"{name} is no attribute of the directory's schema")
    if attribute.constructed:
        raise _refusal(errors.FilterUnsupported, f"{name} is computed, so nothing can be found by it")


def _refusal(kind: type[GatewayError], detail: str, **members: Any) -> GatewayError:
    return kind(detail, errors=[FieldError(kind.code, detail, parameter="filter")], **members)
