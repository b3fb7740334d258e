"""New objects: what kind, where, how they are called; previewed with the names that are proposed, then made."""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import HttpResponse, HttpResponseBase, QueryDict
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from active_directory import DistinguishedName, InvalidValue
from console.directory.objects.actions import show_password
from console.directory.objects.changes import Change, Question, ask, tell
from console.directory.objects.edit import form_context
from console.directory.objects.form import Draft, Filled
from console.directory.objects.page import Record, require
from console.page_context import PageContext, console_page
from core.errors import GatewayError
from core.secrets.encryption import UndecryptableSecret, decrypt, encrypt
from core.shapes import parse_guid
from directory.policies.password_generator import generate_password
from directory.shapes.kinds import RESOURCES, Kind, permission_for
from directory.shapes.value_rules import MAX_USER_SAM_ACCOUNT_NAME

KINDS: Final[Mapping[Kind, tuple[str, str]]] = {
    **{resource.kind: (resource.singular, f"{name}.create") for name, resource in RESOURCES.items()},
    Kind.OBJECT: ("another object", "objects.create"),
}
"""What can be made here: what it is called, and the operation that makes it."""
_TITLES: Final[Mapping[Kind, str]] = {
    Kind.USER: gettext_noop("New user"),
    Kind.GROUP: gettext_noop("New group"),
    Kind.COMPUTER: gettext_noop("New computer"),
    Kind.ORGANIZATIONAL_UNIT: gettext_noop("New organizational unit"),
    Kind.CONTACT: gettext_noop("New contact"),
}

_LATIN: Final = str.maketrans({"ß": "ss", "æ": "ae", "ø": "o", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th"})
_NOT_IN_ACCOUNT_NAMES: Final = re.compile(r"[^a-z0-9-]+")
_OWN_FIELDS: Final = ("parent", "name", "objectClass", "enabled", "how", "sealed")
_ONLY_SHOWN_LATER: Final = frozenset({"Names"})
"""Sections of a form that a new object has no use for: the directory and the machine itself fill them in."""


@dataclass(frozen=True, slots=True)
class NewObject:
    """The form of a new object: its draft, and its `own` fields, without those left empty.

    `sealed` among them is a password that was given already, encrypted on its way through pages; with `generate` one is
    made and told once instead.
    """

    draft: Draft
    own: Mapping[str, str]

    @classmethod
    def typed(cls, kind: Kind, form: QueryDict) -> "NewObject":
        own = {name: text for name in _OWN_FIELDS if (text := form.get(name))}
        if password := form.get("password"):
            own["sealed"] = encrypt(json.dumps({"password": password}))
        return cls(Draft.typed(kind, form), own)

    @property
    def kind(self) -> Kind:
        return self.draft.kind

    @property
    def sections(self) -> list[tuple[str, list[Filled]]]:
        return [(title, fields) for title, fields in self.draft.sections if title not in _ONLY_SHOWN_LATER]

    @property
    def parent(self) -> str:
        return self.own.get("parent", "").strip()

    @property
    def name(self) -> str:
        return self.own.get("name", "")

    @property
    def generate(self) -> bool:
        return self.own.get("how") == "generate"

    @property
    def account_name(self) -> str:
        return self.draft.values.get("attributes.sAMAccountName", "")

    @property
    def user_principal_name(self) -> str:
        return self.draft.values.get("attributes.userPrincipalName", "")

    def as_fields(self) -> list[tuple[str, str]]:
        return [*self.own.items(), *self.draft.as_fields()]

    def body(self) -> dict[str, Any]:
        """The body of the creation; raises AttributesConflict."""
        body = {"name": self.name, "parent": self.parent, **self.draft.body()}
        if self.kind in (Kind.USER, Kind.COMPUTER):
            body |= {"enabled": "enabled" in self.own, "password": self._password()}
        elif self.kind is Kind.GROUP:
            body |= body.pop("group", {})
        elif self.kind is Kind.OBJECT:
            body["objectClass"] = self.own.get("objectClass", "").strip()
        return body

    def _password(self) -> str | None:
        if not self.generate:
            return _opened(self.own.get("sealed", ""))
        display_name = self.draft.values.get("attributes.displayName")
        return generate_password(None, account_name=self.account_name, display_name=display_name)

    def with_names(self, domain: str) -> "NewObject":
        """The same with names in place of those left empty, for a person in that domain (`corp.example.test`)."""
        values = dict(self.draft.values)
        first, last = (values.get(f"attributes.{name}", "").strip() for name in ("givenName", "sn"))
        name = self.name or " ".join(part for part in (first, last) if part)
        if self.kind in (Kind.USER, Kind.CONTACT):
            _fill(values, "displayName", name)
        if self.kind is Kind.USER:
            _fill(values, "sAMAccountName", account_name_for(first, last) or account_name_for("", name))
            account_name = values["attributes.sAMAccountName"]
            _fill(values, "userPrincipalName", f"{account_name}@{domain}" if account_name and domain else "")
        return NewObject(replace(self.draft, values=values), {**self.own, "name": name})


def _fill(values: dict[str, str], attribute: str, proposed: str) -> None:
    key = f"attributes.{attribute}"
    values[key] = values.get(key, "").strip() or proposed


def account_name_for(first: str, last: str) -> str:
    """A sAMAccountName of a person: `ada.lovelace`, or what fits of it, such as `a.byron-king-lovelac`."""
    given, family = _plain(first), _plain(last)
    whole = ".".join(part for part in (given, family) if part)
    if len(whole) > MAX_USER_SAM_ACCOUNT_NAME and given and family:
        whole = f"{given[:1]}.{family}"
    return whole[:MAX_USER_SAM_ACCOUNT_NAME].rstrip(".-")


def _plain(name: str) -> str:
    """A name in small letters without accents, with only what may be in every account name."""
    decomposed = unicodedata.normalize("NFKD", name.lower().translate(_LATIN))
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return _NOT_IN_ACCOUNT_NAMES.sub("-", letters).strip("-")


def _opened(sealed: str) -> str | None:
    """The password that was sealed; None when none was, or when it was not sealed by this form."""
    if not sealed:
        return None
    try:
        content = json.loads(decrypt(sealed))
    except (UndecryptableSecret, ValueError):
        return None
    return str(content["password"]) if isinstance(content, dict) and "password" in content else None


@console_page("GET", "POST")
def new(page: PageContext) -> HttpResponseBase:
    kind = _kind(page)
    if kind is None:
        return page.render(
            "directory/objects/new.html",
            {"choices": _choices(page), "parent": page.query.get("parent", ""), "title": _("New object")},
        )
    require(page, permission_for("create", kind))
    if page.request.method == "GET":
        draft = Draft(kind=kind, values={"account.mustChangePassword": "on"} if kind is Kind.USER else {})
        own = {"parent": name_of(page, page.query.get("parent", "")), "how": "generate" if kind is Kind.USER else ""}
        return _form(page, NewObject(draft, own))
    typed = NewObject.typed(kind, page.request.POST)
    if page.form.get("step") in ("form", "more"):
        return _form(page, typed)
    return _ask(page, typed.with_names(domain_of(name_of(page, typed.parent))))


def _kind(page: PageContext) -> Kind | None:
    text = page.query.get("kind", "")
    return Kind(text) if text in list(KINDS) else None


def _choices(page: PageContext) -> list[tuple[Kind, str]]:
    return [(kind, label) for kind, (label, _) in KINDS.items() if page.call.may(permission_for("create", kind))]


def _ask(page: PageContext, planned: NewObject) -> HttpResponse:
    """The preview of the new object, or its making."""

    def form(refusal: GatewayError) -> HttpResponse:
        return _form(page, planned, refusal)

    def done(made: Record) -> HttpResponse:
        tell(page, _("{name} is created.").format(name=planned.name))
        if planned.generate:
            return show_password(page, made, change.body["password"])
        return page.redirect("object", object_id=made["id"])

    try:
        change = Change(KINDS[planned.kind][1], body=planned.body())
    except GatewayError as refusal:
        return form(refusal)
    question = Question(
        title=_("Create {name}?").format(name=planned.name), confirm=_("Create"), about=None, message=""
    )
    return ask(page, change, question, form=form, kept=planned.as_fields(), done=done)


def _form(page: PageContext, planned: NewObject, problem: GatewayError | None = None) -> HttpResponse:
    return page.render(
        "directory/objects/new.html",
        {
            **form_context(page, planned.draft),
            "new": planned,
            "title": _(_TITLES.get(planned.kind, "New object")),
            "problem": problem,
        },
    )


def name_of(page: PageContext, reference: str) -> str:
    """The distinguished name of a place that may be given by its id; as it was given if there is no such place."""
    if parse_guid(reference) is None:
        return reference
    try:
        record = page.perform("objects.read", id=reference, query={"attributes": "objectSid"})
    except GatewayError:  # said when the object is to be made
        return reference
    return str(record["distinguishedName"])


def domain_of(distinguished_name: str) -> str:
    try:
        name = DistinguishedName.parse(distinguished_name)
    except InvalidValue:
        return ""
    return ".".join(rdn[0][1] for rdn in name.rdns if rdn[0][0].upper() == "DC")


@console_page()
def proposed_names(page: PageContext) -> HttpResponseBase:
    """The names that a person would get, while the form is being filled in."""
    planned = NewObject.typed(Kind.USER, page.request.GET)
    return page.render(
        "directory/objects/_names.html", {"new": planned.with_names(domain_of(name_of(page, planned.parent)))}
    )


urls = [
    path("directory/new", new, name="object-new"),
    path("directory/new/names", proposed_names, name="object-new-names"),
]
