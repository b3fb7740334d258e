"""What stands in the form of an object, and the body of a change that it makes: only what the person has changed."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from console.directory.objects.fields import SECTIONS, Field, Form, fields_of
from console.directory.objects.page import Record
from directory.errors import AttributesConflict
from directory.shapes.kinds import ACCOUNT_KINDS, Kind

How = Literal["replace", "add", "remove", "clear"]
_EXPIRES, _MUST_CHANGE, _NEVER_EXPIRES = (
    "account.expiresAt",
    "account.mustChangePassword",
    "account.passwordNeverExpires",
)
_BOXES: Final = (_NEVER_EXPIRES, _MUST_CHANGE)
_SCOPE, _TYPE = "group.scope", "group.type"
_CHECKED: Final = "on"
"""What a browser sends for a box that is ticked; for another it sends nothing."""


@dataclass(frozen=True, slots=True)
class ExtraAttribute:
    """A line under "another attribute": its name, what happens to its values, and these, one a line."""

    name: str = ""
    how: str = "replace"
    values: str = ""


@dataclass(frozen=True, slots=True)
class Filled:
    """A field with what stands in it, and where a refusal names it."""

    field: Field
    text: str

    @property
    def pointer(self) -> str:
        return f"#/replace/{self.field.attribute}"

    @property
    def is_long(self) -> bool:
        return self.field.form in (Form.TEXT, Form.LINES) or "\n" in self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The form of an object: `values` by field as they stand there, `seen` as they were when it was opened.

    `version` is that of the object when it was opened; both are empty for an object to be made.
    """

    kind: Kind
    values: Mapping[str, str]
    seen: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    others: tuple[ExtraAttribute, ...] = ()

    @classmethod
    def of(cls, record: Record) -> "Draft":
        values = _values_of(record)
        return cls(kind=record["kind"], values=values, seen=values, version=record["version"])

    @classmethod
    def typed(cls, kind: Kind, form: QueryDict) -> "Draft":
        """What a person has sent."""
        seen = _read_seen(form.get("seen", ""))
        lines = zip(
            *(form.getlist(name) for name in ("other.name", "other.how", "other.values")),
            strict=False,
        )
        return cls(
            kind=kind,
            values={key: _text(form, key, seen) for key, _ in _labels(kind)},
            seen=seen,
            version=form.get("version", ""),
            others=tuple(
                ExtraAttribute(name.strip(), how, values.replace("\r\n", "\n"))
                for name, how, values in lines
                if name.strip() or values.strip()
            ),
        )

    def rebased(self, record: Record) -> "Draft":
        """The same on what the object has become since: what the person did not touch is as it is now."""
        now = _values_of(record)
        kept = {key: value for key, value in self.values.items() if value != self.seen.get(key, "")}
        return replace(self, values={**now, **kept}, seen=now, version=record["version"])

    def changed_meanwhile(self, record: Record) -> list[dict[str, Any]]:
        """What differs between the object as it was seen and as it is: changes for `approvals/_changes.html`, by
        label."""
        now = _values_of(record)
        return [
            {"attribute": label, "before": _lines(self.seen.get(key, "")), "after": _lines(now[key])}
            for key, label in _labels(self.kind)
            if self.seen.get(key, "") != now[key]
        ]

    def as_fields(self) -> list[tuple[str, str]]:
        """The fields as a form sends them, for a page that keeps them."""
        further = [
            pair
            for other in self.others
            for pair in (("other.name", other.name), ("other.how", other.how), ("other.values", other.values))
        ]
        return [*self.values.items(), ("seen", self.seen_as_json), ("version", self.version), *further]

    @property
    def sections(self) -> list[tuple[str, list[Filled]]]:
        return [
            (section.title, [Filled(field, self.values.get(field.key, "")) for field in section.fields])
            for section in SECTIONS[self.kind]
        ]

    @property
    def seen_as_json(self) -> str:
        return json.dumps(dict(self.seen))

    @property
    def account(self) -> dict[str, str]:
        """What stands in the options of an account."""
        return self._options("account")

    @property
    def group(self) -> dict[str, str]:
        """What stands in the options of a group, a new one's at first."""
        return {"scope": "global", "type": "security"} | self._options("group")

    def _options(self, of: str) -> dict[str, str]:
        return {
            key.removeprefix(f"{of}."): text for key, text in self.values.items() if key.startswith(f"{of}.") and text
        }

    def body(self) -> dict[str, Any]:
        """The body of an update, or of a creation but for what names the object; raises AttributesConflict."""
        body: dict[str, Any] = {**self._updates()}
        if account := dict(self._account()):
            body["account"] = account
        if group := {key.removeprefix("group."): self.values[key] for key in (_SCOPE, _TYPE) if self._has_new(key)}:
            body["group"] = group
        return body

    def _has_new(self, key: str) -> bool:
        return key in self.values and self.values[key] != self.seen.get(key, "")

    def _updates(self) -> dict[str, Any]:
        replaced: dict[str, list[str]] = {}
        cleared: list[str] = []
        updates: dict[str, Any] = {"replace": replaced, "add": {}, "remove": {}, "clear": cleared}
        for item in fields_of(self.kind):
            if self._has_new(item.key):
                if values := item.values_of(self.values[item.key]):
                    replaced[item.attribute] = values
                else:
                    cleared.append(item.attribute)
        for other in self.others:
            _require_once(other, [*replaced, *cleared])
            if other.how == "clear":
                cleared.append(other.name)
            else:
                updates.get(other.how, replaced).setdefault(other.name, []).extend(_lines(other.values))
        return {name: update for name, update in updates.items() if update}

    def _account(self) -> Iterator[tuple[str, Any]]:
        if self._has_new(_EXPIRES):
            moment = self.values[_EXPIRES]
            with_seconds = f"{moment}:00" if moment.count(":") == 1 else moment
            yield "expiresAt", f"{with_seconds}Z" if moment else None
        for key in _BOXES:
            if self._has_new(key):
                yield key.removeprefix("account."), self.values[key] == _CHECKED


def _require_once(other: ExtraAttribute, written: list[str]) -> None:
    """A JSON object could say it once only, so the later one would win without a word."""
    if other.name.lower() in (name.lower() for name in written):
        detail = _("{name} is written in two places of this form").format(name=other.name)
        raise AttributesConflict.naming(detail, pointer="#/other")


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _text(form: QueryDict, key: str, seen: Mapping[str, str]) -> str:
    """What stands in a field; one that was not sent is as it was, but for a box, which is not ticked then."""
    unsent = "" if key in _BOXES else seen.get(key, "")
    return form.get(key, unsent).replace("\r\n", "\n")


def _labels(kind: Kind) -> Iterator[tuple[str, str]]:
    """All fields of a kind's form, each with its label."""
    yield from ((item.key, item.label) for item in fields_of(kind))
    if kind in ACCOUNT_KINDS:
        yield from (
            (_EXPIRES, _("Account expires")),
            (_NEVER_EXPIRES, _("Password never expires")),
            (_MUST_CHANGE, _("Must change password")),
        )
    if kind is Kind.GROUP:
        yield from ((_SCOPE, _("Scope")), (_TYPE, _("Type")))


def _values_of(record: Record) -> dict[str, str]:
    """What stands in the form of an object as it is."""
    kind, account, group = record["kind"], record["account"], record["group"]
    values = {item.key: item.text_of(record["attributes"].get(item.attribute, [])) for item in fields_of(kind)}
    if kind in ACCOUNT_KINDS:
        moment = parse_datetime(account["expiresAt"]) if account["expiresAt"] else None
        values[_EXPIRES] = f"{moment:%Y-%m-%dT%H:%M:%S}".removesuffix(":00") if moment else ""
        values |= {key: _CHECKED if account[key.removeprefix("account.")] else "" for key in _BOXES}
    if kind == Kind.GROUP:
        values[_SCOPE], values[_TYPE] = group["scope"], group["type"]
    return values


def _read_seen(text: str) -> dict[str, str]:
    """What the form has kept of the object as it was seen; nothing for what no form of ours has sent."""
    try:
        seen = json.loads(text)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in seen.items()} if isinstance(seen, dict) else {}
