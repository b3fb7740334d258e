"""Filters: escaping that cannot be broken out of, and a reader that says where it stopped."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from active_directory import (
    And,
    Anr,
    AnyGuid,
    BitAnd,
    Client,
    Contains,
    EndsWith,
    Equals,
    Extensible,
    Filter,
    FilterSyntax,
    GreaterOrEqual,
    InChain,
    LessOrEqual,
    Not,
    Or,
    Present,
    Scope,
    StartsWith,
    Substrings,
)
from active_directory.filters import parse
from lab.directory import Directory

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.sampled_from(["cn", "sAMAccountName", "1.2.840.113556.1.4.221", "member;range=0-1", "extensionAttribute1"])
ITEMS: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Present, st.just("cn")),
    st.builds(Equals, st.just("cn"), TEXT),
    st.builds(GreaterOrEqual, st.just("cn"), TEXT),
    st.builds(LessOrEqual, st.just("cn"), TEXT),
    st.builds(lambda a, b, c: Substrings("cn", a, (b,), c), TEXT, TEXT.filter(bool), TEXT),
    st.builds(lambda v, d: Extensible("cn", "1.2.3", v, d), TEXT, st.booleans()),
    st.builds(lambda v: Extensible(None, "caseExactMatch", v), TEXT),
)
FILTERS = st.recursive(
    ITEMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda some: And(*some)),
        st.lists(inner, max_size=3).map(lambda some: Or(*some)),
        inner.map(Not),
    ),
    max_leaves=8,
)


@given(FILTERS)
def test_a_rendered_filter_is_read_back(built: Filter) -> None:
    assert parse(str(built)) == built


@given(st.binary(max_size=30))
def test_bytes_are_read_back(value: bytes) -> None:
    read = parse(str(Equals("objectGUID", value)))
    assert isinstance(read, Equals)
    assert (read.value if isinstance(read.value, bytes) else str(read.value).encode()) == value


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_stumble(text: str) -> None:
    position = 0
    try:
        parse(text)
    except FilterSyntax as error:
        position = error.position
    assert 0 <= position <= len(text)


def test_a_value_cannot_break_out() -> None:
    assert str(Equals("cn", "*)(objectClass=*")) == r"(cn=\2a\29\28objectClass=\2a)"
    with pytest.raises(ValueError, match="name"):
        Equals("cn=*)(x", "y")


def test_the_forms() -> None:
    guid = uuid.UUID("c208f98d-8616-42bb-8dbe-82453aae2c00")
    assert str(StartsWith("cn", "A")) == "(cn=A*)"
    assert str(EndsWith("cn", "A")) == "(cn=*A)"
    assert str(Contains("cn", "A")) == "(cn=*A*)"
    assert str(BitAnd("userAccountControl", 2)) == "(userAccountControl:1.2.840.113556.1.4.803:=2)"
    assert str(InChain("memberOf", "CN=a,DC=b")) == "(memberOf:1.2.840.113556.1.4.1941:=CN=a,DC=b)"
    assert str(Anr("Ada L")) == "(anr=Ada L)"
    assert str(And(Not(Present("mail")), Or())) == "(&(!(mail=*))(|))"
    assert AnyGuid([guid.bytes_le]).attributes() == {"objectGUID"}
    assert (
        str(AnyGuid([guid.bytes_le])) == rf"(|(objectGUID={''.join(f'{chr(92)}{byte:02x}' for byte in guid.bytes_le)}))"
    )


def test_the_attributes_of_a_filter() -> None:
    read = parse("(&(cn=a)(|(mail;x-lang=b)(!(memberOf:dn:1.2.3:=c)))(:caseExactMatch:=d))")
    assert read.attributes() == {"cn", "mail", "memberOf"}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("cn=a", 0),
        ("(cn=a", 5),
        ("(cn=a))", 6),
        ("(cn=a)(cn=b)", 6),
        ("()", 1),
        ("(cn)", 3),
        ("(=a)", 1),
        ("(cn=a(b)", 5),
        (r"(cn=\zz)", 4),
        (r"(cn=\2)", 4),
        ("(cn=a**b)", 6),
        ("(!)", 2),
        ("(!(cn=a)(cn=b))", 8),
        ("(&(cn=a)x)", 8),
        ("(cn:=", 5),
        ("(:=a)", 1),
        ("(:dn:=a)", 1),
        ("(cn:dn=a)", 6),
        ("(cn=a\x00)", 5),
        ("(cn>=a*)", 6),
        ("(c_n=a)", 2),
        ("(é=a)", 1),
        ("(&" * 40, 64),
    ],
)
def test_the_reader_says_where_it_stopped(text: str, position: int) -> None:
    with pytest.raises(FilterSyntax) as caught:
        parse(text)
    assert caught.value.position == position, caught.value


def test_the_reader_is_bounded() -> None:
    with pytest.raises(FilterSyntax):
        parse("(cn=" + "a" * 10_000 + ")")
    assert parse("(!" * 31 + "(cn=a)" + ")" * 31)
    with pytest.raises(FilterSyntax):
        parse("(!" * 32 + "(cn=a)" + ")" * 32)


@pytest.mark.parametrize(
    "text",
    [
        "(&)",
        "(|)",
        " ( & (cn=a) (cn=b) ) ",
        "(cn=)",
        "(cn= a )",
        "(cn:=a)",
        "(cn:dn:2.4.6:=a)",
        "(cn=*)",
        r"(cn=\c3\a9)",
    ],
)
def test_what_is_well_formed_is_read(text: str) -> None:
    assert parse(text)


def test_the_directory_reads_our_filters_alike(client: Client, directory: Directory, organizational_unit: str) -> None:
    awkward = r"a*b(c)d\e"
    directory.add_user("awkward", parent=organizational_unit, description=awkward, enabled=False)
    user = directory.add_user("plain", parent=organizational_unit, description="plain", enabled=True)

    def found(some: Filter) -> list[str | None]:
        return sorted(str(e.text("cn")) for e in client.search(organizational_unit, Scope.SUBTREE, some, ["cn"]))

    assert found(Equals("description", awkward)) == ["awkward"]
    assert found(Contains("description", "*b(")) == ["awkward"]
    assert found(BitAnd("userAccountControl", 2)) == ["awkward"]
    assert found(AnyGuid([user.bytes_le])) == ["plain"]
    assert found(AnyGuid([])) == []
    assert found(And(Equals("objectClass", "user"), Not(Anr("plain")))) == ["awkward"]
    assert found(Or()) == []
    assert found(parse(r"(description=a\2ab\28c\29*)")) == ["awkward"]
