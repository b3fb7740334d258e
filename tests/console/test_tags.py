"""What the console's templates say of times, names and values."""

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from django.utils.translation import override

from console.shared.spelling import spell
from console.templatetags import console, directory_lists
from core.errors import FieldError
from core.text.times import schedule_in_words
from directory.shapes.wording.labels import operation_words
from directory.shapes.wording.value_words import common_name, container_path


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=0), "just now"),
        (timedelta(seconds=61), "1 minute ago"),
        (timedelta(hours=3), "3 hours ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=-7, hours=-1), "in 7 days"),
        (timedelta(seconds=-50), "in a moment"),
        (timedelta(days=800), "2 years ago"),
    ],
)
def test_moments(ago: timedelta, said: str) -> None:
    assert f">{said}<" in console.moment(timezone.now() - ago)


def test_what_only_looks_like_a_time_is_shown_as_it_is() -> None:
    for text in ("2026-02-30T00:00:00Z", "0000-00-00T00:00:00Z", "2026-11-29T99:99:99Z"):
        assert directory_lists.shown_value(text) == console.moment(text) == console.exact_moment(text) == text
        assert not console.is_past(text)


def test_times_as_the_readers_language_writes_them() -> None:
    at = datetime(2026, 11, 21, 9, 5, 7, tzinfo=UTC)
    with override("de"):
        assert ">21.11.2026, 09:05:07 UTC<" in console.exact_moment(at)
        assert 'title="21.11.2026, 09:05:07 UTC"' in console.moment(at)
        assert schedule_in_words(at, None, None) == "am 21.11.2026, 09:05 UTC"
        assert console.quoted("Ticket 4711") == "„Ticket 4711“"


def test_exact_times() -> None:
    at = datetime(2026, 11, 21, 9, 5, 7, tzinfo=UTC)
    assert ">2026-11-21 09:05:07 UTC<" in console.exact_moment(at)
    assert console.moment("2026-11-21T09:05:07Z").startswith('<time datetime="2026-11-21T09:05:07+00:00"')
    assert (console.exact_moment("never"), console.moment(None)) == ("never", "—")


@pytest.mark.parametrize(
    ("dn", "name", "place"),
    [
        ("CN=Ada Lovelace,OU=London,OU=Staff,DC=corp,DC=test", "Ada Lovelace", "corp.test / Staff / London"),
        (r"CN=Lovelace\, Ada,CN=Users,DC=corp,DC=test", "Lovelace, Ada", "corp.test / Users"),
        ("DC=corp,DC=test", "corp", "test"),
        ("no name at all", "no name at all", ""),
        ("", "", ""),
        (None, "", ""),
    ],
)
def test_names_and_places(dn: str | None, name: str, place: str) -> None:
    assert (common_name(dn), container_path(dn)) == (name, place)


def test_values_side_by_side() -> None:
    [few] = console.side_by_side([{"attribute": "title", "before": ["a", "b"], "after": ["b", "c"]}])
    assert (few["before"], few["after"]) == ([("a", False), ("b", True)], [("b", True), ("c", False)])
    [bits] = console.side_by_side([{"attribute": "userAccountControl", "current": ["514"], "proposed": ["512"]}])
    assert "ACCOUNTDISABLE" in bits["before"][0][0].replace("_", "")


def test_of_many_values_only_the_changed_ones() -> None:
    members = [f"CN={number}" for number in range(20)]
    [many] = console.side_by_side([{"attribute": "member", "before": members, "after": [*members, "CN=new"]}])
    assert (many["before"], many["after"], many["unchanged"]) == ([], [("CN=new", False)], 20)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FieldError("c", "d", pointer="#/allowedAddresses/0"), "allowed addresses"),
        (FieldError("c", "d", parameter="pageSize"), "page size"),
        (FieldError("c", "d", pointer="#/"), ""),
    ],
)
def test_fields_are_called_as_their_labels(error: FieldError, said: str) -> None:
    assert console.field_label(error) == said


def test_operations_in_words() -> None:
    assert operation_words("users.reset-password") == "Reset the password of a user"
    assert operation_words("users.reset-password", "Ada") == "Reset the password of Ada"
    assert operation_words("webhook-endpoints.create") == "Create a webhook endpoint", "the back office does it"
    assert operation_words("people.activate", "ada") == "Activate ada", "a directory does it"
    assert operation_words("users.dance-with", "Ada") == "Dance with Ada", "an earlier release did it"


def test_a_password_is_spelled_in_the_readers_language() -> None:
    with override("en"):
        assert spell("Tz-7&") == [
            ("T", "capital Tango"),
            ("z", "Zulu"),
            ("-", "hyphen"),
            ("7", "7"),
            ("&", "ampersand"),
        ]
    with override("de"):
        assert spell("Tä!") == [("T", "Tübingen, groß"), ("ä", "ä"), ("!", "Ausrufezeichen")]
