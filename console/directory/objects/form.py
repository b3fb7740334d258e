"""The form of an object: which attributes it has for each kind, their values, and the update that it makes.

All other attributes are on the tab "All attributes" and can be edited under "Another attribute".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from core.text.vocabulary import declare_texts, texts_by_name
from directory.errors import AttributesConflict
from directory.shapes.inputs import pointer
from directory.shapes.kinds import ACCOUNT_KINDS, Kind
from directory.shapes.wording.labels import label_of

Record = Mapping[str, Any]
"""An object as operations return it."""

_TEXT, _LINES, _OBJECT = "text", "lines", "object"
_INPUT_TYPES = {
    "info": _TEXT,
    "street": _TEXT,
    "streetAddress": _TEXT,
    "proxyAddresses": _LINES,
    "servicePrincipalName": _LINES,
    "directReports": _OBJECT,
    "managedBy": _OBJECT,
    "manager": _OBJECT,
}
"""How values are typed: a text of several lines, one value a line, or an object's name; all others in one line."""
_HELP = texts_by_name(
    {
        "sAMAccountName": "sAMAccountName, the name before Windows 2000",
        "proxyAddresses": "SMTP: before the main one, smtp: before the others",
    }
)
_DESCRIBED = ("displayName", "description")
_PERSON = ("givenName", "sn", *_DESCRIBED)
_CONTACT = ("mail", "telephoneNumber", "mobile", "proxyAddresses")
_ORGANISATION = ("title", "department", "company", "manager")
_CITY = ("l", "st", "postalCode")
_MACHINE_NAMES = ("sAMAccountName", "dNSHostName", "servicePrincipalName")

TITLES: Mapping[Kind, str] = texts_by_name(
    {
        Kind.USER: "New user",
        Kind.GROUP: "New group",
        Kind.COMPUTER: "New computer",
        Kind.ORGANIZATIONAL_UNIT: "New organizational unit",
        Kind.CONTACT: "New contact",
    }
)
"""The title of the form for a new object of a kind; the others are titled `New object`."""
SECTIONS: Mapping[Kind, Mapping[str, Sequence[str]]] = {
    Kind.USER: {
        "Person": (*_PERSON, "initials"),
        "Sign-in names": ("userPrincipalName", "sAMAccountName"),
        "Contact": (*_CONTACT, "physicalDeliveryOfficeName", "wWWHomePage"),
        "Organisation": (*_ORGANISATION, "employeeID", "employeeNumber", "info"),
        "Address": ("streetAddress", *_CITY),
    },
    Kind.GROUP: {"Group": (*_DESCRIBED, "sAMAccountName", "mail", "managedBy", "info")},
    Kind.COMPUTER: {
        "Computer": (*_DESCRIBED, "location", "managedBy"),
        "Names": _MACHINE_NAMES,
    },
    Kind.SERVICE_ACCOUNT: {
        "Service account": (*_DESCRIBED, "managedBy"),
        "Names": _MACHINE_NAMES,
    },
    Kind.ORGANIZATIONAL_UNIT: {
        "Organizational unit": (*_DESCRIBED, "managedBy"),
        "Address": ("street", *_CITY),
    },
    Kind.CONTACT: {
        "Person": _PERSON,
        "Contact": _CONTACT,
        "Organisation": (*_ORGANISATION, "info"),
    },
    Kind.CONTAINER: {"Container": _DESCRIBED},
    Kind.OBJECT: {"Object": _DESCRIBED},
}
"""The attributes of the overview and the form, by kind and title of their section."""
declare_texts(title for sections in SECTIONS.values() for title in sections)
READ_ONLY: Mapping[Kind, Sequence[str]] = {
    Kind.USER: ("directReports",),
    Kind.COMPUTER: ("operatingSystem", "operatingSystemVersion"),
    Kind.ORGANIZATIONAL_UNIT: ("gPLink",),
}
"""Attributes that the overview shows, but that others write: back links, the computer itself, Group Policy."""


@dataclass(frozen=True, slots=True)
class Field:
    """A form's field for an attribute, with the text in it."""

    attribute: str
    text: str = ""

    @property
    def label(self) -> str:
        return label_of(self.attribute)

    @property
    def key(self) -> str:
        """The field's name in a form."""
        return f"attributes.{self.attribute}"

    @property
    def pointer(self) -> str:
        """The JSON pointer by which a refusal names it."""
        return pointer("replace", self.attribute)

    @property
    def input_type(self) -> str:
        return _INPUT_TYPES.get(self.attribute, "line")

    @property
    def help(self) -> str:
        """In English; it is translated where it is shown."""
        return _HELP.get(self.attribute, "")

    @property
    def is_long(self) -> bool:
        return self.input_type in (_TEXT, _LINES) or "\n" in self.text

    @property
    def values(self) -> list[str]:
        """The values typed, one a line. A text is a single value with CRLF line ends, as Windows tools write it."""
        if self.input_type == _TEXT:
            return [self.text.replace("\n", "\r\n")] if self.text.strip() else []
        return _split_lines(self.text)


def fields_of(kind: Kind) -> list[Field]:
    return [Field(name) for names in SECTIONS[kind].values() for name in names]


OBJECT_REFERENCES = frozenset(name.lower() for name, form in _INPUT_TYPES.items() if form == _OBJECT)
"""Attributes whose values are distinguished names, in lower case."""
READ_ATTRIBUTES = ",".join(
    dict.fromkeys(
        [
            *(name for sections in SECTIONS.values() for names in sections.values() for name in names),
            *(name for names in READ_ONLY.values() for name in names),
            *("objectSid", "primaryGroupID"),
        ]
    )
)
"""The attributes that an object's pages read, for all kinds, joined by commas."""

_EXPIRES = "account.expiresAt"
_CHECKBOXES = ("account.passwordNeverExpires", "account.mustChangePassword")
_CHECKED = "on"
"""What browsers send for a ticked box; they send nothing for others."""
_SCOPE, _TYPE = "group.scope", "group.type"


class ExtraAttribute(NamedTuple):
    """A line under "Another attribute": its name, the kind of update (`replace`, `add`, …), and values, one a line."""

    name: str = ""
    how: str = "replace"
    values: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The content of an object's form: `values` by field now, `seen` by field when the form was opened.

    `version` is the object's when the form was opened. `seen` and `version` are empty for a new object.
    """

    kind: Kind
    values: Mapping[str, str]
    seen: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    extra_attributes: tuple[ExtraAttribute, ...] = ()

    @classmethod
    def from_record(cls, record: Record) -> "Draft":
        values = _field_values(record)
        return cls(kind=record["kind"], values=values, seen=values, version=record["version"])

    @classmethod
    def from_form(cls, kind: Kind, form: QueryDict) -> "Draft":
        """The draft that a form sent. A missing field is unchanged, except for a box, which is then unticked."""
        seen = _parse_seen(form.get("seen", ""))
        unsent = {**seen, **dict.fromkeys(_CHECKBOXES, "")}
        lines = zip(*(form.getlist(f"other.{name}") for name in ExtraAttribute._fields), strict=False)
        others = (ExtraAttribute(name.strip(), how, _normalize_line_ends(values)) for name, how, values in lines)
        return cls(
            kind=kind,
            values={key: _normalize_line_ends(form.get(key, unsent.get(key, ""))) for key in _field_labels(kind)},
            seen=seen,
            version=form.get("version", ""),
            extra_attributes=tuple(other for other in others if other.name or other.values.strip()),
        )

    @property
    def changed(self) -> dict[str, str]:
        """The fields that the person has changed."""
        return {key: text for key, text in self.values.items() if text != self.seen.get(key, "")}

    def rebased(self, record: Record) -> "Draft":
        """The person's changes applied to the object as it is now; untouched fields take the present values."""
        now = _field_values(record)
        return replace(self, values={**now, **self.changed}, seen=now, version=record["version"])

    def concurrent_changes(self, record: Record) -> list[dict[str, Any]]:
        """What others have changed since the form was opened, by label, for `approvals/_changes.html`."""
        now = _field_values(record)
        return [
            {"attribute": label, "before": _split_lines(self.seen.get(key, "")), "after": _split_lines(now[key])}
            for key, label in _field_labels(self.kind).items()
            if self.seen.get(key, "") != now[key]
        ]

    def as_fields(self) -> list[tuple[str, str]]:
        """The draft as hidden fields, for a page that passes it on."""
        others = [(f"other.{name}", text) for other in self.extra_attributes for name, text in other._asdict().items()]
        return [*self.values.items(), ("seen", self.seen_as_json), ("version", self.version), *others]

    @property
    def sections(self) -> list[tuple[str, list[Field]]]:
        return [
            (title, [Field(name, self.values.get(Field(name).key, "")) for name in names])
            for title, names in SECTIONS[self.kind].items()
        ]

    @property
    def seen_as_json(self) -> str:
        return json.dumps(dict(self.seen))

    @property
    def account(self) -> dict[str, str]:
        """The values of the account options."""
        return self._options("account.")

    @property
    def group(self) -> dict[str, str]:
        """The values of the group options, by default a global security group."""
        return {"scope": "global", "type": "security"} | self._options("group.")

    def _options(self, prefix: str) -> dict[str, str]:
        given = ((key, text) for key, text in self.values.items() if text and key.startswith(prefix))
        return {key.removeprefix(prefix): text for key, text in given}

    def body(self) -> dict[str, Any]:
        """The changed members of an update; for a creation all but those that name the object.

        Raises AttributesConflict if an attribute is both in its own field and under "Another attribute".
        """
        changed = self.changed
        replaced: dict[str, list[str]] = {}
        cleared: list[str] = []
        body: dict[str, Any] = {"replace": replaced, "add": {}, "remove": {}, "clear": cleared}
        for each in fields_of(self.kind):
            if each.key in changed:
                if values := Field(each.attribute, changed[each.key]).values:
                    replaced[each.attribute] = values
                else:
                    cleared.append(each.attribute)
        for other in self.extra_attributes:
            # A JSON object can have the attribute only once: the later value would silently win.
            if other.name.lower() in (name.lower() for name in (*replaced, *cleared)):
                detail = _("{name} is written in two places of this form").format(name=other.name)
                raise AttributesConflict.naming(detail, pointer="#/other")
            if other.how == "clear":
                cleared.append(other.name)
            else:
                body.get(other.how, replaced).setdefault(other.name, []).extend(_split_lines(other.values))
        account: dict[str, Any] = {key: changed[key] == _CHECKED for key in _CHECKBOXES if key in changed}
        if (moment := changed.get(_EXPIRES)) is not None:
            with_seconds = f"{moment}:00" if moment.count(":") == 1 else moment
            account[_EXPIRES] = f"{with_seconds}Z" if moment else "never"
        body["account"] = {key.removeprefix("account."): value for key, value in account.items()}
        body["group"] = {key.removeprefix("group."): changed[key] for key in (_SCOPE, _TYPE) if key in changed}
        return {name: update for name, update in body.items() if update}


def _split_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _normalize_line_ends(text: str) -> str:
    """A text with LF line ends: browsers send CRLF, and Windows stores it."""
    return text.replace("\r\n", "\n")


def _field_labels(kind: Kind) -> dict[str, str]:
    """The labels of all fields of a kind's form, by field name."""
    labels = {each.key: each.label for each in fields_of(kind)}
    if kind in ACCOUNT_KINDS:
        account = (_("Account expires"), _("Password never expires"), _("Must change password"))
        labels |= zip((_EXPIRES, *_CHECKBOXES), account, strict=True)
    if kind == Kind.GROUP:
        labels |= {_SCOPE: _("Scope"), _TYPE: _("Type")}
    return labels


def _field_values(record: Record) -> dict[str, str]:
    """The present values of all fields, by field name."""
    kind, account, group = record["kind"], record["account"], record["group"]
    values = {
        each.key: _normalize_line_ends("\n".join(record["attributes"].get(each.attribute, [])))
        for each in fields_of(kind)
    }
    if kind in ACCOUNT_KINDS:
        moment = parse_datetime(account["expiresAt"]) if account["expiresAt"] else None
        values[_EXPIRES] = f"{moment:%Y-%m-%dT%H:%M:%S}".removesuffix(":00") if moment else ""
        values |= {key: _CHECKED if account[key.removeprefix("account.")] else "" for key in _CHECKBOXES}
    if kind == Kind.GROUP:
        values[_SCOPE], values[_TYPE] = group["scope"], group["type"]
    return values


def _parse_seen(text: str) -> dict[str, str]:
    """The `seen` values that the form sent as JSON; empty if it is not JSON of ours."""
    try:
        seen = json.loads(text)
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in seen.items()} if isinstance(seen, dict) else {}
