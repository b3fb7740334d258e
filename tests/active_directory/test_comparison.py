"""Text compares as the domain controller compares it, letter by letter."""

import re
import sys
from functools import cache

import ldap
import pytest
from hypothesis import given
from hypothesis import strategies as st

from active_directory import case_insensitive_pattern, comparable, fold_case
from lab.directory import Directory

IN_ONE_OBJECT = 60


def other_cases(letter: str) -> set[str]:
    """What Python makes of a letter in other cases: sometimes several letters."""
    return {letter.upper(), letter.lower(), letter.title(), letter.casefold()} - {letter}


@cache
def letters() -> list[str]:
    """All that have other cases. Looking for them takes seconds, which no process shall spend before it has to."""
    return [letter for letter in map(chr, range(sys.maxunicode + 1)) if other_cases(letter)]


@pytest.mark.parametrize("capitals", [True, False])
def test_the_directory_takes_the_same_letters_for_one(
    directory: Directory, organizational_unit: str, *, capitals: bool
) -> None:
    asked = [letter for letter in letters() if (letter.upper() == letter) is capitals]
    for start in range(0, len(asked), IN_ONE_OBJECT):
        some = asked[start : start + IN_ONE_OBJECT]
        values = sorted(set().union(*map(other_cases, some)).difference(some))
        contact = f"CN=contact {start},{organizational_unit}"
        directory.add(contact, {"objectClass": "contact", "otherTelephone": values})
        held = {fold_case(value) for value in values}
        for letter in some:
            found = directory.search(f"(otherTelephone={letter})", "1.1", base=contact, scope=ldap.SCOPE_BASE)
            assert bool(found) is (fold_case(letter) in held), (letter, hex(ord(letter)))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Ada", "aDA", True),
        ("Émilie", "éMILIE", True),
        ("Σίσυφος", "ΣΊΣΥΦΟΣ", True),
        ("Maße", "Masse", False),
        ("Maße", "MAẞE", False),
        ("ﬁ", "fi", False),
        ("İ", "i", False),
        ("ı", "I", False),
        ("ſ", "s", False),
        ("\N{KELVIN SIGN}", "k", False),
        ("\N{ANGSTROM SIGN}", "å", False),
        ("Å", "A\N{COMBINING RING ABOVE}", False),
        ("  a   b ", "A B", True),
        ("a b", "a\N{NO-BREAK SPACE}b", False),
        ("a b", "a\tb", False),
        ("ab", "a b", False),
    ],
)
def test_what_the_directory_holds_side_by_side(
    directory: Directory, organizational_unit: str, one: str, other: str, *, same: bool
) -> None:
    assert (comparable(one) == comparable(other)) is same
    first, second = (f"OU={value.replace(' ', chr(92) + '20')},{organizational_unit}" for value in (one, other))
    directory.add(first, {"objectClass": "organizationalUnit"})
    if same:
        with pytest.raises(ldap.ALREADY_EXISTS):
            directory.add(second, {"objectClass": "organizationalUnit"})
    else:
        directory.add(second, {"objectClass": "organizationalUnit"})


@given(st.text())
def test_folding_keeps_every_letter_in_its_place(text: str) -> None:
    folded = fold_case(text)
    assert len(folded) == len(text)
    assert fold_case(folded) == folded
    assert all(fold_case(letter) == other for letter, other in zip(text, folded, strict=True))


@given(st.text(), st.text())
def test_a_pattern_finds_the_texts_that_differ_in_case_only(text: str, other: str) -> None:
    for candidate in (text, fold_case(text), text.lower(), text.upper(), text.casefold(), other):
        assert bool(re.fullmatch(case_insensitive_pattern(text), candidate)) is (
            fold_case(candidate) == fold_case(text)
        )
