"""Requests made up from an OpenAPI document: mostly understandable, sometimes not; what they name is mostly there.

A text such as `@user` stands for something of the test's world and is replaced when the request is sent, so that what
is drawn does not depend on what the directory holds at that moment.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.support.openapi import Document, Documented

Json = Any

NASTY = (
    *("", " ", "*", "\\", "\x00", "\x7f", "\u202e", "ß", "İ", "数", "😀", "é", "é", "null", "true", "0", "-1"),
    *("2147483648", "9223372036854775808", "1e309", "(", ")", "(cn=*)", "*)(cn=*", "../..", "%00", "'; --", "<GUID=x>"),
    *("CN=x", "CN=x,", ",", "+", "#", '"', "=", "never", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "x" * 300),
)
_ATTRIBUTES = (
    *("title", "mail", "description", "displayName", "department", "telephoneNumber", "otherTelephone", "info"),
    *("sAMAccountName", "userAccountControl", "pwdLastSet", "lockoutTime", "accountExpires", "member", "manager"),
    *("managedBy", "servicePrincipalName", "thumbnailPhoto", "jpegPhoto", "logonHours", "employeeID", "uidNumber"),
    *("countryCode", "c", "st", "l", "street", "proxyAddresses", "groupType", "primaryGroupID", "unicodePwd", "cn"),
    *("objectGUID", "objectSid", "memberOf", "objectClass", "name", "nTSecurityDescriptor", "whenCreated", "nosuch"),
    *("TITLE", "userPassword", "msDS-cloudExtensionAttribute1", "extensionAttribute1", "wWWHomePage", "2.5.4.12"),
)
_PARENTS = (*("@unit.dn", "@inner.dn", "@inner", "@unit") * 2, "@user.dn", "@missing", "CN=nowhere,@unit.dn")
_OBJECTS = ("@user", "@group", "@computer", "@inner", "@missing")
SEEDS: Mapping[str, tuple[Json, ...]] = {
    "attributes": ("mail", "*", "member,title", "*,mail", "unicodePwd", "nosuch", "objectSid,objectGUID,whenCreated"),
    "sort": ("cn", "-cn", "whenCreated", "-uSNChanged", "accountExpires", "member", "objectSid", "unicodePwd", "x"),
    "filter": (
        *("(cn=*)", "(&)", "(|)", "(!(cn=a*))", "(objectGUID=\\01\\02)", "(groupType:1.2.840.113556.1.4.803:=2)"),
        *("(cn=", "(nosuch=x)", "(unicodePwd=x)", "(tokenGroups=*)", "(accountExpires>=zz)", "(member=nonsense)"),
        *("(&(cn=a)(|(sn=b)(!(mail=*))))", "(objectSid=S-1-5-32)", "(whenCreated>=20200101000000.0Z)", "(anr=a)"),
    ),
    "base": _PARENTS,
    "parent": _PARENTS,
    "dn": ("@user.dn", "@group.dn", "@unit.dn", "@missing", "cn = nobody , @unit.dn"),
    "cursor": ("@cursor", "x"),
    "name": ("@random", "@random", "Ada", "Zoë", "a,b+c=d", " x ", "#1", "x" * 64, "x" * 65, "Ada Lovelace"),
    "samAccountName": ("ada", "a" * 20, "a" * 21, "a@b", "a/b", "@random"),
    "userPrincipalName": ("ada@corp.example.test", "ada", "@random"),
    "password": ("Correct-Horse-9", "short", "x" * 256, "Pässwörd-12345"),
    "newPassword": ("Correct-Horse-9", "Other-Horse-10", "short", "Pässwörd-12345"),
    "currentPassword": ("Correct-Horse-9", "wrong"),
    "objectClass": ("container", "contact", "organizationalUnit", "user", "group", "top", "nosuch", "printQueue"),
    "accounts": _OBJECTS,
    "add": _OBJECTS,
    "remove": _OBJECTS,
    "id": _OBJECTS,
    "ids": _OBJECTS,
    "ifMatch": ("@version", '"x"', "*"),
    "planId": ("@plan", "@missing"),
    "target": _OBJECTS,
    "scopes": ("@unit.dn", "@inner", "@missing"),
    "owner": ("@username", "nobody"),
    "username": ("@username", "@random"),
    "role": ("@role", "@missing"),
    "directory": ("@directory", "@missing"),
    "urls": ("ldaps://127.0.38.200", "ldap://127.0.38.200", "ldaps://127.0.38.200:99999"),
    "permissions": ("directory.read_object", "directory.read_object", "nosuch"),
    "allowedAddresses": ("127.0.0.1", "10.0.0.0/8", "10.0.0.1/8", "::1"),
    "expiresAt": ("2199-01-01T00:00:00Z", "2000-01-01T00:00:00Z", "2199-01-01T00:00:00"),
    "digest": ("@digest", "@missing"),
    "clear": _ATTRIBUTES,
}
"""What members and parameters of these names are given besides anything their schema allows."""

HEADERS: Mapping[str, tuple[str, ...]] = {
    "If-Match": ("@version", '"x"', 'W/"1", "2"', "*", "", "nonsense", '"', "\xe9"),
    "If-None-Match": ("@version", "*", '"x", W/"@bare-version"', "nonsense"),
    "X-Change-Reason": ("tidying up", "\xc3\xa9t\xc3\xa9", "%C3%A9t%C3%A9", "%", "\xff", "x" * 501),
    "X-Client-Id": ("nonsense", "@missing", ""),
    "X-Request-Id": ("mine-1", "no good", "x" * 129),
    "Prefer": ("respond-async", "respond-async, wait=1", ";;;"),
    "Accept": (*("application/x-ndjson",) * 3, "text/csv", "text/html", "application/json;q=0", "nonsense", ""),
    "Idempotency-Key": ("one", "@random", "\xe9", "x" * 256),
    "Content-Encoding": ("gzip", "identity"),
}

_BROKEN_BODIES = (
    *(b"", b"{", b"null", b"[]", b'"x"', b"1", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":"\\ud800"}', b'{"a":"\\u0000"}'),
    *(b"\xff", b"\xef\xbb\xbf{}", b"[" * 70 + b"]" * 70, b"{}" + b" " * 2000),
)

_text = st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
_other_types: st.SearchStrategy[Json] = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), _text,
    st.lists(_text, max_size=2), st.dictionaries(_text, _text, max_size=2),
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A request with its placeholders. `body` is a JSON document, octets for one that is none, or None."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Json = None


def requests(document: Document, operation: Documented, ids: Callable[[str], tuple[str, ...]]) -> st.SearchStrategy:
    """The strategy of one operation's requests; `ids` gives placeholders for the identifiers in a path."""
    body = None if operation.body is None else values(document, operation.body)
    query = {
        item["name"]: (item.get("required", False), _query_value(document, item))
        for item in operation.parameters("query")
    }
    names = [item["name"] for item in operation.parameters("path")]
    known_ids = st.sampled_from(ids(operation.path))

    @st.composite
    def drawn(draw: st.DrawFn) -> Drawn:
        path = operation.path
        for name in names:
            odd = draw(_once_in(10))
            path = path.replace(f"{{{name}}}", draw(st.sampled_from(["@missing", "x", "@UPPER"]) if odd else known_ids))
        parameters = [
            (name, draw(strategy))
            for name, (required, strategy) in query.items()
            if (not draw(_once_in(20)) if required else draw(_once_in(5)))
        ]
        if draw(_once_in(20)):
            parameters.append(draw(st.sampled_from([("nosuch", "1"), *parameters])))
        headers = {name: draw(st.sampled_from(texts)) for name, texts in HEADERS.items() if draw(_once_in(15))}
        content: Json = None
        if body is not None:
            content = draw(_mostly(body, st.sampled_from(_BROKEN_BODIES), one_in=15))
        elif operation.method != "GET":
            content = draw(_mostly(st.none(), st.sampled_from(_BROKEN_BODIES), one_in=15))
        return Drawn(path, tuple(parameters), headers, content)

    return drawn()


def _query_value(document: Document, parameter: Mapping[str, Any]) -> st.SearchStrategy[str]:
    schema = document.resolve(parameter["schema"])
    items = document.resolve(schema.get("items", {}))
    allowed = values(document, items if schema.get("type") == "array" else schema, parameter["name"])
    if schema.get("type") == "array":
        allowed = st.lists(allowed.map(_as_text), min_size=1, max_size=3).map(",".join)
    return _mostly(allowed.map(_as_text), _text)


def _as_text(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def values(document: Document, schema: Mapping[str, Any], name: str = "") -> st.SearchStrategy[Json]:
    """Values of a schema, now and then one of another type altogether."""
    resolved = document.resolve(schema)
    allowed = _allowed(document, resolved, name)
    if name in SEEDS and resolved.get("type") == "string" and "enum" not in resolved:
        allowed = _mostly(st.sampled_from(SEEDS[name]), allowed)
    return _mostly(allowed, _other_types, one_in=30)


def _mostly(
    usual: st.SearchStrategy[Json], other: st.SearchStrategy[Json], *, one_in: int = 6
) -> st.SearchStrategy[Json]:
    return _once_in(one_in).flatmap(lambda is_other: other if is_other else usual)


def _once_in(number: int) -> st.SearchStrategy[bool]:
    return st.sampled_from([False] * (number - 1) + [True])


def _allowed(document: Document, schema: Mapping[str, Any], name: str) -> st.SearchStrategy[Json]:
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return st.one_of(*(values(document, inner, name) for inner in schema[choice]))
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    by_type: dict[str, Callable[[], st.SearchStrategy[Json]]] = {
        "null": st.none,
        "boolean": st.booleans,
        "integer": lambda: _integers(schema),
        "array": lambda: st.lists(values(document, schema.get("items", {}), name), max_size=3),
        "object": lambda: _objects(document, schema),
        "string": lambda: _strings(schema),
    }
    return by_type.get(schema.get("type", ""), lambda: _other_types)()


def _integers(schema: Mapping[str, Any]) -> st.SearchStrategy[int]:
    least, most = schema.get("minimum", 0), schema.get("maximum", 5)
    return st.one_of(st.sampled_from([least, most, least - 1, most + 1]), st.integers(-5, 100))


def _strings(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    if schema.get("format") == "uuid":
        return st.sampled_from(_OBJECTS)
    if schema.get("format") == "date-time":
        return st.sampled_from(["2026-01-31T12:00:00Z", "2199-12-31T23:59:59.123456+14:00", "1601-01-01T00:00:00Z"])
    return _text


def _objects(document: Document, schema: Mapping[str, Any]) -> st.SearchStrategy[Json]:
    members = schema.get("properties")
    if members is None:  # a bag
        value = schema.get("additionalProperties")
        of_update = values(document, value, "") if isinstance(value, Mapping) else _other_types
        named = st.one_of(of_update, st.sampled_from(("@user.dn", "@group.dn", "0", "512", "514", "TRUE", "AQID")))
        return st.dictionaries(st.one_of(st.sampled_from(_ATTRIBUTES), _text), named, max_size=4)
    made_of = {name: values(document, member, name) for name, member in members.items()}
    needed = frozenset(schema.get("required", ()))
    examples = [_placed(example) for example in schema.get("examples", ())]

    @st.composite
    def drawn(draw: st.DrawFn) -> dict[str, Json]:
        if examples and draw(st.sampled_from([True, False, False])):
            return dict(draw(st.sampled_from(examples)))
        made = {name: draw(value) for name, value in made_of.items() if name in needed or draw(st.booleans())}
        match draw(st.integers(0, 29)):
            case 7:
                made["nosuch"] = draw(_other_types)
            case 8 if made:
                made.pop(draw(st.sampled_from(sorted(made))))
        return made

    return drawn()


def _placed(example: Mapping[str, Json]) -> dict[str, Json]:
    """A documented example about objects that are there, under a name that is not."""
    placed = dict(example)
    for name in ("parent", "base", "name"):
        if isinstance(example.get(name), str):
            placed[name] = SEEDS[name][0]
    for name in ("accounts", "add", "remove"):
        if isinstance(example.get(name), list):
            placed[name] = ["@user"]
    return placed


_PLACEHOLDER = re.compile(r"@[a-zA-Z]+(?:[.-][a-z]+)*")


def filled(value: Json, replace: Callable[[str], str]) -> Json:
    """A drawn value with its placeholders replaced; texts that only look like one stay."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: replace(match[0]), value)
    if isinstance(value, dict):
        return {filled(name, replace): filled(inner, replace) for name, inner in value.items()}
    return [filled(inner, replace) for inner in value] if isinstance(value, list) else value
