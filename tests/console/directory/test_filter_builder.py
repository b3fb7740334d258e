"""Filters put together from conditions, and read back into them."""

import pytest

from console.directory.filter_builder import Condition, Conditions, Group, parse_conditions

TYPES = {"whencreated": "time", "pwdlastset": "time", "objectguid": "guid", "isdeleted": "boolean"}


def made(*conditions: Condition, match: str = "all") -> str:
    return str(Conditions(groups=[Group(match, list(conditions))]).to_filter(TYPES))


@pytest.mark.parametrize(
    ("operator", "value", "text"),
    [
        ("is", "Sales", "(department=Sales)"),
        ("is-not", "Sales", "(!(department=Sales))"),
        ("begins", "Sa", "(department=Sa*)"),
        ("contains", "al", "(department=*al*)"),
        ("ends", "es", "(department=*es)"),
        ("at-least", "5", "(department>=5)"),
        ("at-most", "5", "(department<=5)"),
        ("present", "", "(department=*)"),
        ("absent", "", "(!(department=*))"),
        ("bits", "2", "(department:1.2.840.113556.1.4.803:=2)"),
        ("no-bits", "2", "(!(department:1.2.840.113556.1.4.803:=2))"),
        ("nested", "CN=a,DC=b", "(department:1.2.840.113556.1.4.1941:=CN=a,DC=b)"),
    ],
)
def test_each_comparison_is_made_and_read_back(operator: str, value: str, text: str) -> None:
    condition = Condition("department", operator, value)
    assert made(condition) == text
    assert parse_conditions(text) == Conditions(groups=[Group("all", [condition])])


@pytest.mark.parametrize(
    "text",
    [
        "(&(a=1)(b=2))",
        "(|(a=1)(b=2))",
        "(!(|(a=1)(b=2)))",
        "(&(a=1)(|(b=2)(c=3)))",
        "(&(a=1)(b=2)(!(|(c=3)(d=4))))",
        "(|(&(a=1)(b=2))(&(c=3)(d=4)))",
        "(&(|(a=1)(b=2))(|(c=3)(d=4)))",
    ],
)
def test_groups_say_what_the_filter_said(text: str) -> None:
    conditions = parse_conditions(text)
    assert conditions is not None
    again = str(conditions.to_filter({}))
    # Conditions beside groups become a group of their own, which says the same.
    assert again == text.replace("(&(a=1)(b=2)(!", "(&(&(a=1)(b=2))(!")


@pytest.mark.parametrize(
    "text",
    [
        "(&(a=1)(|(b=2)(&(c=3)(d=4))))",  # deeper than groups
        "(!(&(a=1)(b=2)))",
        "(a=x*y*z)",
        "(a~=x)",
        r"(a=\ff\fe)",  # octets
        "(a:=1)",
        "(&)",
        "(mail=",
        "",
    ],
)
def test_what_says_more_is_left_to_be_written(text: str) -> None:
    assert parse_conditions(text) is None


@pytest.mark.parametrize(
    ("attribute", "value", "text"),
    [
        ("whenCreated", "2025-01-31", "(whenCreated>=2025-01-31T00:00:00Z)"),
        ("whenCreated", "2025-01-31T12:30:00+01:00", "(whenCreated>=2025-01-31T11:30:00Z)"),
        ("whenCreated", "20250131000000.0Z", "(whenCreated>=20250131000000.0Z)"),
        ("pwdLastSet", "1601-01-01T00:00:01Z", "(pwdLastSet>=1601-01-01T00:00:01Z)"),
        ("department", "2025-01-31", "(department>=2025-01-31)"),
        ("isDeleted", "true", "(isDeleted>=TRUE)"),
    ],
)
def test_values_are_written_as_searches_read_them(attribute: str, value: str, text: str) -> None:
    assert made(Condition(attribute, "at-least", value)) == text


def test_an_identifier_is_sought_by_its_octets_and_read_back() -> None:
    guid = "8e3f6a52-7d1b-4c0e-9a41-5b7f2c9d0e13"
    text = made(Condition("objectGUID", "is", guid))
    assert text == r"(objectGUID=\52\6a\3f\8e\1b\7d\0e\4c\9a\41\5b\7f\2c\9d\0e\13)"
    read = parse_conditions(text)
    assert read is not None
    assert read.groups[0].conditions == [Condition("objectGUID", "is", guid)]


def test_what_is_typed_is_escaped() -> None:
    assert made(Condition("cn", "contains", "a*)(b")) == r"(cn=*a\2a\29\28b*)"


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (Condition("department", "is", ""), "needs a value"),
        (Condition("", "is", "Sales"), "name of an attribute"),
        (Condition("a b", "present", ""), "name of an attribute"),
        (Condition("userAccountControl", "bits", "two"), "needs a number"),
        (Condition("objectGUID", "is", "nonsense"), "badly formed"),
        (Condition("whenCreated", "is", "2025-13-01"), "month"),
    ],
)
def test_a_condition_that_cannot_be_says_why(condition: Condition, problem: str) -> None:
    conditions = Conditions(groups=[Group("all", [condition])])
    assert conditions.to_filter(TYPES) is None
    assert problem in condition.problem


def test_empty_rows_are_no_conditions() -> None:
    empty = Condition()
    assert Conditions().to_filter({}) is None
    assert made(empty, Condition("mail", "present"), Condition(" ", "contains", " ")) == "(mail=*)"
    assert empty.problem == ""
