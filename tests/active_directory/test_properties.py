"""Laws that names, filters and values keep whatever is in them, with python-ldap as the second opinion."""

import base64
import contextlib
import datetime
import uuid

import ldap.dn
import ldap.filter
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from active_directory import (
    Client,
    DistinguishedName,
    Equals,
    Filter,
    FilterSyntax,
    GreaterOrEqual,
    InvalidValue,
    LessOrEqual,
    Or,
    Schema,
    Syntax,
    decode,
    encode,
    filters,
    read_values,
)
from active_directory.filters import parse
from active_directory.schema import OM_IA5_STRING, OM_UTC_TIME, AttributeType

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
WITHOUT_NUL = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=24)
AVAS = st.tuples(st.sampled_from(["CN", "OU", "DC", "2.5.4.3"]), WITHOUT_NUL)
RDNS = st.lists(AVAS, min_size=1, max_size=2, unique_by=lambda ava: ava[0])
NAMES = st.lists(RDNS.map(tuple), max_size=4).map(tuple).map(DistinguishedName)
NAME_LIKE = st.text(st.sampled_from('CN=OU,+\\"#;<> aé0\\2C'), max_size=24)


class TestNames:
    @given(NAMES)
    def test_what_is_written_python_ldap_reads_alike(self, name: DistinguishedName) -> None:
        read = ldap.dn.str2dn(str(name), flags=ldap.DN_FORMAT_LDAPV3)
        assert [[(kind, value) for kind, value, _ in rdn] for rdn in read] == [list(rdn) for rdn in name.rdns]
        assert DistinguishedName.parse(str(name)).rdns == name.rdns

    @given(NAMES)
    def test_what_python_ldap_writes_is_read_alike(self, name: DistinguishedName) -> None:
        # It leaves a line end at the end of a value as it is, and reads that for a surplus space.
        assume(not any(char.isspace() and char != " " for rdn in name.rdns for _, value in rdn for char in value))
        written = ldap.dn.dn2str([[(kind, value, ldap.AVA_STRING) for kind, value in rdn] for rdn in name.rdns])
        assert DistinguishedName.parse(written).rdns == name.rdns

    @given(st.one_of(NAME_LIKE, TEXT))
    @example("CN=a\\")
    @example("CN=#0401ff")
    def test_any_text_is_a_name_or_refused(self, text: str) -> None:
        with contextlib.suppress(InvalidValue):
            name = DistinguishedName.parse(text)
            assert DistinguishedName.parse(str(name)).rdns == name.rdns

    @given(NAMES, NAMES)
    def test_places(self, inner: DistinguishedName, outer: DistinguishedName) -> None:
        whole = DistinguishedName((*inner.rdns, *outer.rdns))
        assert whole.is_within(outer)
        assert outer.is_within(whole) == (not inner.rdns)
        assert (whole == outer) == (not inner.rdns)
        assert all(whole.is_within(name) for name in _upwards(whole))
        assert whole == DistinguishedName.parse(str(whole))
        assert hash(whole) == hash(DistinguishedName.parse(str(whole)))


def _upwards(name: DistinguishedName) -> list[DistinguishedName]:
    return [name, *(_upwards(name.parent) if name.parent is not None else [])]


class TestFilters:
    @given(TEXT)
    def test_a_value_escaped_by_either_is_the_same_value(self, value: str) -> None:
        for escaped in (filters.escape(value), ldap.filter.escape_filter_chars(value)):
            assert parse(f"(cn={escaped})") == Equals("cn", value) or value == ""

    @given(st.binary(min_size=1, max_size=24))
    def test_octets_written_one_by_one_are_the_same_octets(self, value: bytes) -> None:
        every_octet = "".join(f"\\{octet:02x}" for octet in value)
        assert parse(f"(cn={every_octet})") == parse(f"(cn={filters.escape(value)})")

    @given(st.text(st.sampled_from("()&|!=*\\~<>:. acn2é0"), max_size=30))
    def test_any_text_is_a_filter_or_refused_at_a_place_in_it(self, text: str) -> None:
        read = _read_or_refusal(text)
        if isinstance(read, FilterSyntax):
            assert 0 <= read.position <= len(text)
        else:
            assert parse(str(read)) == read


def _read_or_refusal(text: str) -> Filter | FilterSyntax:
    try:
        return parse(text)
    except FilterSyntax as refusal:
        return refusal


def attribute(syntax: Syntax, om_syntax: int = 0, *, name: str = "x") -> AttributeType:
    return AttributeType(name, syntax, om_syntax, "1.2.3", single_valued=False)


DN = r"CN=Love\, Ada,OU=Ünï,DC=corp"
BASE64 = st.binary(min_size=1, max_size=24).map(lambda raw: base64.b64encode(raw).decode())
MOMENTS = st.datetimes(timezones=st.none(), allow_imaginary=False)
FILETIMES = st.integers(1, 2**61)


def timestamp(moment: datetime.datetime, digits: str = "") -> str:
    """RFC 3339, with four digits for years before 1000, too."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + (f".{digits}" if digits else "") + "Z"


def of_filetime(filetime: int) -> str:
    seconds, ticks = divmod(filetime, 10_000_000)
    moment = datetime.datetime(1601, 1, 1) + datetime.timedelta(seconds=seconds)  # noqa: DTZ001 - a calendar, no zone
    return timestamp(moment, f"{ticks:07d}".rstrip("0"))


FORMS: dict[str, tuple[AttributeType, st.SearchStrategy[str]]] = {
    "dn": (attribute(Syntax.DN), NAMES.filter(lambda name: bool(name.rdns)).map(str)),
    "oid": (attribute(Syntax.OID), st.from_regex(r"[0-2](\.(0|[1-9][0-9]{0,5})){1,6}", fullmatch=True)),
    "case-exact string": (attribute(Syntax.CASE_EXACT_STRING), WITHOUT_NUL),
    "case-ignore string": (attribute(Syntax.CASE_IGNORE_STRING), WITHOUT_NUL),
    "printable string": (
        attribute(Syntax.PRINTABLE_STRING),
        st.from_regex(r"[A-Za-z0-9 '()+,./:=?-]{1,20}", fullmatch=True),
    ),
    "IA5 string": (
        attribute(Syntax.PRINTABLE_STRING, OM_IA5_STRING),
        st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1),
    ),
    "numeric string": (attribute(Syntax.NUMERIC_STRING), st.from_regex(r"[0-9 ]{1,20}", fullmatch=True)),
    "DN with octets": (
        attribute(Syntax.DN_BINARY),
        st.binary(max_size=9).map(lambda raw: f"B:{2 * len(raw)}:{raw.hex().upper()}:{DN}"),
    ),
    "boolean": (attribute(Syntax.BOOLEAN), st.sampled_from(["TRUE", "FALSE"])),
    "integer": (attribute(Syntax.INTEGER), st.integers(-(2**31), 2**31 - 1).map(str)),
    "octets": (attribute(Syntax.OCTET_STRING), BASE64),
    "GUID": (attribute(Syntax.OCTET_STRING, name="objectGUID"), st.uuids().map(str)),
    "time": (attribute(Syntax.TIME), MOMENTS.map(timestamp)),
    "UTC time": (
        attribute(Syntax.TIME, OM_UTC_TIME),
        MOMENTS.filter(lambda moment: 1950 <= moment.year < 2050).map(timestamp),
    ),
    "unicode string": (attribute(Syntax.UNICODE_STRING), WITHOUT_NUL),
    "presentation address": (attribute(Syntax.PRESENTATION_ADDRESS), WITHOUT_NUL),
    "DN with text": (
        attribute(Syntax.DN_STRING),
        WITHOUT_NUL.map(lambda text: f"S:{len(text)}:{text}:{DN}"),
    ),
    "descriptor": (attribute(Syntax.SECURITY_DESCRIPTOR), BASE64),
    "large integer": (attribute(Syntax.LARGE_INTEGER), st.integers(-(2**63), 2**63 - 1).map(str)),
    "FILETIME": (
        attribute(Syntax.LARGE_INTEGER, name="accountExpires"),
        st.one_of(st.just("never"), FILETIMES.map(of_filetime)),
    ),
    "SID": (
        attribute(Syntax.SID),
        st.lists(st.integers(0, 2**32 - 1), max_size=15).map(lambda parts: "-".join(["S-1-5", *map(str, parts)])),
    ),
}
"""Every form of values, with texts that it accepts in the spelling in which it gives them back."""


class TestValues:
    def test_every_syntax_is_among_the_forms(self) -> None:
        assert {form.syntax for form, _ in FORMS.values()} == set(Syntax)

    @pytest.mark.parametrize("form", FORMS)
    @given(data=st.data())
    def test_what_is_accepted_comes_back_as_it_was(self, form: str, data: st.DataObject) -> None:
        kind, accepted = FORMS[form]
        text = data.draw(accepted)
        assert decode(kind, encode(kind, [text])) == [text]

    @pytest.mark.parametrize("form", sorted(set(FORMS) - {"descriptor"}))  # which nothing is compared with
    @given(data=st.data())
    def test_what_is_shown_is_found_by_the_octets_kept(self, form: str, data: st.DataObject) -> None:
        kind, accepted = FORMS[form]
        text = data.draw(accepted)
        term = read_values(parse(str(Equals(kind.name, text))), kind, Schema({}, {}), is_escaped=False)
        kept = [each.value for each in (term.filters if isinstance(term, Or) else [term]) if isinstance(each, Equals)]
        assert encode(kind, [text])[0] in [value if isinstance(value, bytes) else str(value).encode() for value in kept]

    @pytest.mark.parametrize("form", FORMS)
    @given(data=st.data())
    def test_any_text_is_refused_or_stands_for_a_value(self, form: str, data: st.DataObject) -> None:
        """What is not refused is shown in a way that is accepted again and means the same."""
        kind, accepted = FORMS[form]
        text = data.draw(st.one_of(TEXT, accepted.map(lambda text: text[1:]), accepted.map(lambda text: f"{text} ")))
        encoded = _encoded_or_refusal(kind, text)
        if isinstance(encoded, InvalidValue):
            assert encoded.message
            assert encoded.attribute == kind.name
        else:
            shown = decode(kind, encoded)
            assert decode(kind, encode(kind, shown)) == shown

    @pytest.mark.parametrize("form", FORMS)
    @given(
        data=st.data(),
        compared=st.sampled_from([Equals, GreaterOrEqual, LessOrEqual]),
        is_escaped=st.booleans(),
    )
    def test_any_value_of_a_filter_is_read_or_refused(
        self, form: str, data: st.DataObject, compared: type[Equals | GreaterOrEqual | LessOrEqual], *, is_escaped: bool
    ) -> None:
        kind, accepted = FORMS[form]
        value = data.draw(
            st.one_of(TEXT, accepted, accepted.map(lambda text: f"{text[:-1]}.5Z"), st.binary(max_size=9))
        )
        with contextlib.suppress(InvalidValue):
            parse(str(read_values(compared(kind.name, value), kind, Schema({}, {}), is_escaped=is_escaped)))

    @pytest.mark.parametrize("form", FORMS)
    @given(raw=st.binary(max_size=40))
    def test_whatever_the_directory_holds_can_be_shown(self, form: str, raw: bytes) -> None:
        (text,) = decode(FORMS[form][0], [raw])
        text.encode()

    def test_every_attribute_of_the_schema_keeps_the_law(self, client: Client) -> None:
        """Each with its own range and form, on texts that most forms accept."""
        samples = ["a", "Ada", "1", "0", "-1", "TRUE", "AQID", "2.5.4.3", DN, "2026-01-31T12:00:00Z", "never"]
        samples += ["S-1-5-32-544", str(uuid.UUID(int=7)), "", "\x00", " ", "x" * 70_000, f"B:2:AB:{DN}", f"S:1:a:{DN}"]
        accepting = 0
        for kind in client.schema.attributes.values():
            for text in samples:
                with contextlib.suppress(InvalidValue):
                    shown = decode(kind, encode(kind, [text]))
                    assert decode(kind, encode(kind, shown)) == shown, (kind.name, text)
                    accepting += 1
        assert accepting > 3 * len(client.schema.attributes)


def _encoded_or_refusal(kind: AttributeType, text: str) -> list[bytes] | InvalidValue:
    try:
        return encode(kind, [text])
    except InvalidValue as refusal:
        return refusal
