"""What updates mean, as laws: against a plain model of a modify, and against what the directory then holds."""

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from active_directory import AttributeType, Entry, Modification, Schema, Syntax, decode
from core.shapes import load_body
from directory.errors import AttributeSingleValued
from directory.shapes.inputs import AttributeUpdates
from directory.shapes.kinds import Kind
from directory.shapes.modifications import Delta, delta_of, parse_updates
from lab.directory import Directory
from tests.support.cast import Integration

PHONES = AttributeType("otherTelephone", Syntax.UNICODE_STRING, 64, "1.2.3", single_valued=False)
TITLE = AttributeType("title", Syntax.UNICODE_STRING, 64, "1.2.4", single_valued=True)
NOTES = AttributeType("notes", Syntax.OCTET_STRING, 4, "1.2.5", single_valued=False)
MEMBERS = AttributeType("seeAlso", Syntax.DN, 127, "1.2.6", single_valued=False, link_id=2)
SCHEMA = Schema({kind.name.lower(): kind for kind in (PHONES, TITLE, NOTES, MEMBERS)}, {})

VALUES: Mapping[str, st.SearchStrategy[str]] = {
    PHONES.name: st.sampled_from(["1", "a", "A", "é", "É", "ß", "ẞ", "ss"]),
    TITLE.name: st.sampled_from(["x", "X", "y"]),
    NOTES.name: st.sampled_from(["AQ==", "Ag==", "AwQ="]),
    MEMBERS.name: st.sampled_from(["CN=a,DC=b", "cn=A,dc=b", "CN=c\\, d,DC=b", "CN=e,DC=b"]),
}


@st.composite
def updates(draw: st.DrawFn, names: Sequence[str]) -> dict[str, Any]:
    """Bags that name each attribute in ways that do not exclude each other."""
    made: dict[str, Any] = {"replace": {}, "add": {}, "remove": {}, "clear": []}
    for name in names:
        values = st.lists(VALUES[name], min_size=1, max_size=1 if name == TITLE.name else 3)
        match draw(st.sampled_from(["replace", "clear", "add", "remove", "both", "both", "nothing"])):
            case "replace":
                made["replace"][name] = draw(values)
            case "clear":
                made["clear"].append(name)
            case "both" if name != TITLE.name:
                made["add"][name] = added = draw(values)
                if removed := [value for value in draw(values) if value not in added]:
                    made["remove"][name] = removed
            case "add" | "remove" as update:
                made[update][name] = draw(values)
    return made


def _key_of_text(name: str, text: str) -> Any:
    return _key(name, text.encode())


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Entries whose values differ as the directory compares them."""
    values: dict[str, list[bytes]] = {"objectGUID": [uuid4().bytes_le]}
    for name, strategy in VALUES.items():
        most = 1 if name == TITLE.name else 3
        texts = draw(st.lists(strategy, max_size=most, unique_by=partial(_key_of_text, name)))
        if texts:
            values[name] = [_octets(name, text) for text in texts]
    return Entry("CN=x,DC=b", values)


def _octets(name: str, text: str) -> bytes:
    return base64.b64decode(text) if name == NOTES.name else text.encode()


def _key(name: str, value: bytes) -> object:
    """What two values of these attributes are compared by: all but the octets without regard to case."""
    return value if name == NOTES.name else "".join(map(_fold, value.decode()))


def _fold(letter: str) -> str:
    return letter.upper() if len(letter.upper()) == 1 else letter


def modified(entry: Entry, modifications: Sequence[Modification]) -> Entry:
    """What Samba makes of a modify: it removes the first value that is like the one named, whatever its case, and
    refuses to add one that is present; in another case it adds it, unless it is a name.
    """
    held = {name: list(entry.values(name)) for name in VALUES}
    for step in modifications:
        values = held[step.attribute]
        for value in step.values:
            alike = [other for other in values if _key(step.attribute, other) == _key(step.attribute, value)]
            if step.op == "delete":
                assert alike, f"refused: {step}"
                values.remove(alike[0])
            else:
                assert value not in values, f"refused: {step}"
                assert not alike or step.attribute != MEMBERS.name, f"refused: {step}"
                values.append(value)
    return Entry(entry.dn, {"objectGUID": [entry.guid.bytes_le], **{name: v for name, v in held.items() if v}})


def wanted(name: str, given: Mapping[str, Any], before: Sequence[bytes]) -> set[object]:
    """The keys of the values that updates ask for, in words as plain as the documentation's."""
    keys = {_key(name, value) for value in before}
    if name in given["clear"]:
        return set()
    if name in given["replace"]:
        return {_key(name, _octets(name, text)) for text in given["replace"][name]}
    keys -= {_key(name, _octets(name, text)) for text in given["remove"].get(name, ())}
    return keys | {_key(name, _octets(name, text)) for text in given["add"].get(name, ())}


def delta_for(given: Mapping[str, Any], entry: Entry) -> Delta | None:
    """What the updates make of an entry; None when they ask for two values where one may be."""
    try:
        return delta_of(
            parse_updates(load_body(AttributeUpdates, given), SCHEMA, kind=Kind.CONTACT), entry, kind=Kind.CONTACT
        )
    except AttributeSingleValued:
        return None


class TestLaws:
    @given(updates(tuple(VALUES)), entries())
    def test_the_modify_leads_to_what_was_asked_for(self, given: dict[str, Any], entry: Entry) -> None:
        delta = delta_for(given, entry)
        if delta is None:
            return
        after = modified(entry, delta.modifications)
        for name in VALUES:
            assert {_key(name, value) for value in after.values(name)} == wanted(name, given, entry.values(name))

    @given(updates(tuple(VALUES)), entries())
    def test_what_is_as_asked_for_is_not_changed_again(self, given: dict[str, Any], entry: Entry) -> None:
        delta = delta_for(given, entry)
        if delta is None:
            return
        again = delta_for(given, modified(entry, delta.modifications))
        assert again is not None
        assert (again.modifications, again.changes) == ([], [])

    @given(updates(tuple(VALUES)), entries())
    def test_the_changes_tell_what_the_modify_does(self, given: dict[str, Any], entry: Entry) -> None:
        delta = delta_for(given, entry)
        if delta is None:
            return
        after = modified(entry, delta.modifications)
        told = {change.attribute: change for change in delta.changes}
        assert told.keys() == {step.attribute for step in delta.modifications}
        for name in VALUES:
            kind = SCHEMA.attributes[name.lower()]
            before_text, after_text = decode(kind, entry.values(name)), decode(kind, after.values(name))
            if name not in told:
                assert before_text == after_text
            elif name == MEMBERS.name:  # recorded as what was removed and what was added
                assert set(told[name].before) == set(before_text) - set(after_text)
                assert set(told[name].after) == set(after_text) - set(before_text)
            else:
                assert list(told[name].before) == before_text
                assert set(told[name].after) == set(after_text)

    @given(updates(tuple(VALUES)), entries())
    def test_values_that_nobody_named_are_left_alone(self, given: dict[str, Any], entry: Entry) -> None:
        """Not even removed and added again: somebody else may be changing them at this moment."""
        delta = delta_for({**given, "replace": {}, "clear": []}, entry)
        if delta is None:
            return
        named = {
            (name, _key(name, _octets(name, text)))
            for update in ("add", "remove")
            for name, texts in given[update].items()
            for text in texts
        }
        for step in delta.modifications:
            assert all((step.attribute, _key(step.attribute, value)) in named for value in step.values)

    @given(updates(tuple(VALUES)), entries(), st.sampled_from(list(VALUES)))
    def test_the_order_of_attributes_and_the_case_of_their_names_mean_nothing(
        self, given: dict[str, Any], entry: Entry, first: str
    ) -> None:
        turned: dict[str, Any] = {"clear": [name.upper() for name in reversed(given["clear"])]}
        for update in ("replace", "add", "remove"):
            turned[update] = {
                name.upper(): given[update][name] for name in sorted(given[update], key=lambda name: name != first)
            }
        one, other = delta_for(given, entry), delta_for(turned, entry)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert sorted(map(repr, one.modifications)) == sorted(map(repr, other.modifications))


def test_values_that_differ_in_case_only_are_not_lost() -> None:
    """Samba takes `a` beside `A`, but removes the first of them whichever is named."""
    entry = Entry("CN=x,DC=b", {"otherTelephone": [b"a", b"A", "ß".encode(), b"ss", b"1"]})

    def steps(**updates: Any) -> list[tuple[str, tuple[str, ...]]]:
        delta = delta_for(updates, entry)
        assert delta is not None
        return [(step.op, tuple(value.decode() for value in step.values)) for step in delta.modifications]

    assert steps(add={"otherTelephone": ["2"]}) == [("add", ("2",))]
    assert steps(add={"otherTelephone": ["A", "SS"]}) == []
    assert steps(add={"otherTelephone": ["ẞ", "2", "b", "B"]}) == [("add", ("ẞ", "2", "b", "B"))]
    assert steps(remove={"otherTelephone": ["1"]}) == [("delete", ("1",))]
    assert steps(remove={"otherTelephone": ["A"]}) == [("delete", ("A", "a")), ("add", ("a",))]
    assert steps(remove={"otherTelephone": ["ss", "a"]}) == [("delete", ("a", "ss", "A")), ("add", ("A",))]
    assert steps(remove={"otherTelephone": ["SS"]}) == [("delete", ("ss",))]
    assert steps(remove={"otherTelephone": ["ẞ"]}) == []
    assert steps(replace={"otherTelephone": ["a"]}) == [("delete", ("A", "ß", "ss", "1", "a")), ("add", ("a",))]


PHONE_VALUES = st.sampled_from(["1", "+44 20", "a", "A", "é", "É", "x" * 64, "a,b\\c", "ß", "ss", "a ", "数"])
DESCRIPTIONS = st.sampled_from(["Analyst", "ANALYST", "Ünïcode", " padded", "two\nlines"])


@st.composite
def updates_of_a_user(draw: st.DrawFn) -> dict[str, Any]:
    """Updates of a user: a multi-valued attribute, a single-valued one, and one that is single-valued on accounts."""
    made: dict[str, Any] = draw(
        st.sampled_from(
            [
                lambda values: {"replace": {"otherTelephone": values}},
                lambda values: {"add": {"otherTelephone": values}},
                lambda values: {"remove": {"otherTelephone": values}},
                lambda values: {"add": {"otherTelephone": values[:1]}, "remove": {"otherTelephone": values[1:]}},
                lambda _: {"clear": ["otherTelephone"]},
            ]
        )
    )(draw(st.lists(PHONE_VALUES, min_size=1, max_size=4, unique=True)))
    for name in ("title", "description"):
        if draw(st.booleans()):
            made.setdefault("replace", {})[name] = draw(DESCRIPTIONS)
    return made


@settings(
    max_examples=40,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(update=updates_of_a_user())
def test_the_directory_holds_what_the_dry_run_said(
    integration: Integration, ada: UUID, directory: Directory, update: dict[str, Any]
) -> None:
    """One update after the other, each on what the one before left."""
    path = f"/api/ad/users/{ada}"
    before = directory.read(ada)
    promised = integration.patch(f"{path}?dryRun=true", update)
    assert promised.status == 200, promised.body
    assert directory.read(ada) == before
    for change in promised.body["changes"]:
        held = {value.decode() for value in before.get(change["attribute"], [])}
        assert set(change["before"]) == held
    done = integration.patch(path, update)
    assert done.status == 200, done.body
    after = directory.read(ada)
    for change in promised.body["changes"]:
        held = {value.decode() for value in after.get(change["attribute"], [])}
        assert set(change["after"]) == held
    for name in {"otherTelephone", "title", "description"} - {
        change["attribute"] for change in promised.body["changes"]
    }:
        assert after.get(name) == before.get(name)
    again = integration.patch(f"{path}?dryRun=true", update)
    assert again.body["changes"] == [], "an update of what is so already changes nothing"
