"""The forms to edit an object, if nobody else has changed it meanwhile, and to create one.

Both are filled in, previewed, then saved. For a new person the form proposes the names that are left empty.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase, QueryDict
from django.utils.translation import gettext as _

from active_directory import Equals, Or
from console.directory.objects.actions import show_password
from console.directory.objects.changes import Change, preview_or_make, render_preview, show_success
from console.directory.objects.form import TITLES, Draft, ExtraAttribute, Field, Record
from console.directory.objects.page import (
    GROUP_SCOPES,
    domain_of,
    find_object,
    render_object,
    require_permission,
    resource_of,
)
from console.page_context import PageContext, page_at
from core.errors import GatewayError
from core.secrets.encryption import UndecryptableSecret, decrypt, encrypt
from core.shapes import parse_guid
from core.text.spellings import in_ascii
from directory.errors import VersionMismatch
from directory.policies.password_policy import generate_first_password, generate_password
from directory.shapes.kinds import ACCOUNT_KINDS, RESOURCES, Kind, permission_for
from directory.shapes.value_rules import MAX_USER_SAM_ACCOUNT_NAME
from directory.shapes.wording.labels import LABELS

CREATIONS: Mapping[Kind, tuple[str, str]] = {
    **{resource.kind: (resource.singular, f"{name}.create") for name, resource in RESOURCES.items()},
    Kind.OBJECT: ("another object", "objects.create"),
}
"""The kinds that people can create: label and operation of each."""
_NOT_IN_ACCOUNT_NAMES = re.compile(r"[^a-z0-9-]+")
_NAMESAKES_SHOWN = "5"
_OWN_FIELDS = ("parent", "name", "objectClass", "enabled", "how", "sealed")


@page_at("directory/objects/<uuid:object_id>/edit", "object-edit", "GET", "POST")
def edit(page: PageContext, object_id: UUID) -> HttpResponseBase:
    record = find_object(page, object_id)
    require_permission(page, permission_for("update", record["kind"]))
    if not page.is_post:
        draft = Draft.from_record(record)
        if (attribute := page.query.get("clear", "")) in LABELS:  # another page proposes it
            draft = replace(draft, extra_attributes=(ExtraAttribute(attribute, "clear", ""),))
        return _edit_form(page, record, draft)
    draft = Draft.from_form(record["kind"], page.request.POST)
    if page.form.get("step") in ("form", "more"):
        return _edit_form(page, record, draft)
    try:
        return preview_or_make(
            page, _update(record, draft, if_match=draft.version), **_form_arguments(page, record, draft)
        )
    except VersionMismatch as refusal:
        # Somebody else has changed the object meanwhile: save nothing, show their changes and a preview on top of them.
        record = find_object(page, object_id)
        rebased = draft.rebased(record)
        return render_preview(
            page,
            _update(record, rebased),
            **_form_arguments(page, record, rebased),
            problem=refusal,
            meanwhile=draft.concurrent_changes(record),
            is_stale=True,
        )
    except GatewayError as refusal:
        return _edit_form(page, record, draft, refusal)


def _update(record: Record, draft: Draft, *, if_match: str | None = None) -> Change:
    return Change(
        operation=f"{resource_of(record)}.update",
        about=record,
        body=draft.body(),
        if_match=if_match,
        title=_("Save the changes of {name}?").format(name=record["name"]),
        confirm=_("Save"),
        message=_("The changes of {name} are saved.").format(name=record["name"]),
    )


def _form_arguments(page: PageContext, record: Record, draft: Draft) -> Mapping[str, Any]:
    """The arguments of `render_preview` by which a draft's preview leads back to its form."""
    return {"form": lambda refusal: _edit_form(page, record, draft, refusal), "kept": draft.as_fields()}


def _edit_form(page: PageContext, record: Record, draft: Draft, problem: GatewayError | None = None) -> HttpResponse:
    return render_object(page, record, "edit", problem=problem, **_form_context(page, draft))


def _form_context(page: PageContext, draft: Draft) -> dict[str, Any]:
    """The context of a draft's fields, for both forms."""
    lines = list(draft.extra_attributes)
    if not lines or page.form.get("step") == "more":
        lines.append(ExtraAttribute())
    return {
        "draft": draft,
        "others": lines,
        "is_account": draft.kind in ACCOUNT_KINDS,
        "is_group": draft.kind == Kind.GROUP,
        "scopes": GROUP_SCOPES,
    }


@dataclass(frozen=True, slots=True)
class NewObject:
    """The form of a new object: its draft, and the form's `own_fields` that are not empty.

    The field `sealed` is a password that was typed already, encrypted while it travels through the preview page.
    """

    draft: Draft
    own_fields: Mapping[str, str]

    @classmethod
    def from_form(cls, kind: Kind, form: QueryDict) -> "NewObject":
        own = {name: text for name in _OWN_FIELDS if (text := form.get(name))}
        if password := form.get("password"):
            own["sealed"] = encrypt(json.dumps({"password": password}))
        return cls(Draft.from_form(kind, form), own)

    @property
    def kind(self) -> Kind:
        return self.draft.kind

    @property
    def sections(self) -> list[tuple[str, list[Field]]]:
        """The draft's sections without the names of a computer, which the directory and the computer itself fill in."""
        return [(title, fields) for title, fields in self.draft.sections if title != "Names"]

    @property
    def parent(self) -> str:
        return self.own_fields.get("parent", "").strip()

    @property
    def name(self) -> str:
        return self.own_fields.get("name", "")

    @property
    def generates_password(self) -> bool:
        return self.own_fields.get("how") == "generate"

    @property
    def account_name(self) -> str:
        return self.draft.values.get("attributes.sAMAccountName", "")

    @property
    def user_principal_name(self) -> str:
        return self.draft.values.get("attributes.userPrincipalName", "")

    def body(self) -> dict[str, Any]:
        """The body of the create operation; raises AttributesConflict."""
        body = {"name": self.name, "parent": self.parent, **self.draft.body()}
        if self.kind in (Kind.USER, Kind.COMPUTER):
            body |= {"enabled": "enabled" in self.own_fields, "password": self._password()}
        elif self.kind is Kind.GROUP:
            body |= body.pop("group", {})
        elif self.kind is Kind.OBJECT:
            body["objectClass"] = self.own_fields.get("objectClass", "").strip()
        return body

    def _password(self) -> str | None:
        """A generated password, or the sealed one; None without one, or if this gateway did not seal it."""
        if self.generates_password:
            display_name = self.draft.values.get("attributes.displayName")
            must_change = self.draft.values.get("account.mustChangePassword")
            make = generate_first_password if must_change else generate_password
            return make(None, account_name=self.account_name, display_name=display_name)
        try:
            content = json.loads(decrypt(self.own_fields.get("sealed", "")))
        except (UndecryptableSecret, ValueError):
            return None
        return str(content["password"]) if isinstance(content, dict) and "password" in content else None

    def with_names(self, domain: str) -> "NewObject":
        """A copy with proposed names in place of empty ones; `domain` is a DNS name (`corp.example.test`)."""
        values = dict(self.draft.values)
        typed = (values.get(f"attributes.{name}", "").strip() for name in ("givenName", "sn", "sAMAccountName"))
        name, account_name, principal_name = propose_names(*typed, name=self.name, domain=domain)
        proposed = {"displayName": name} if self.kind in (Kind.USER, Kind.CONTACT) else {}
        if self.kind is Kind.USER:
            proposed |= {"sAMAccountName": account_name, "userPrincipalName": principal_name}
        for attribute, text in proposed.items():
            key = f"attributes.{attribute}"
            values[key] = values.get(key, "").strip() or text
        return NewObject(replace(self.draft, values=values), {**self.own_fields, "name": name})


def propose_names(
    first: str, last: str, account_name: str = "", *, name: str = "", domain: str
) -> tuple[str, str, str]:
    """A person's name, sAMAccountName and userPrincipalName; those that are not given are proposed."""
    name = name or " ".join(part for part in (first, last) if part)
    account_name = account_name or propose_account_name(first, last) or propose_account_name("", name)
    return name, account_name, f"{account_name}@{domain}" if account_name and domain else ""


def propose_account_name(first: str, last: str) -> str:
    """A sAMAccountName: `ada.lovelace`, shortened to 20 characters (`a.byron-king-lovelac`)."""
    given, family = _to_ascii(first), _to_ascii(last)
    whole = ".".join(part for part in (given, family) if part)
    if len(whole) > MAX_USER_SAM_ACCOUNT_NAME and given and family:
        whole = f"{given[:1]}.{family}"
    return whole[:MAX_USER_SAM_ACCOUNT_NAME].rstrip(".-")


def _to_ascii(name: str) -> str:
    """A name reduced to lower-case letters, digits and hyphens, with letters written as `AccountNames:Letters` says."""
    letters = dict(pair.split("=", 1) for pair in settings.CONFIGURATION.AccountNames.Letters)
    return _NOT_IN_ACCOUNT_NAMES.sub("-", in_ascii(name, letters)).strip("-")


@page_at("directory/new", "object-new", "GET", "POST")
def new(page: PageContext) -> HttpResponseBase:
    kind_name, parent = page.query["kind"], page.query["parent"]
    if kind_name not in list(CREATIONS):
        may_create = ((kind, page.call.may(permission_for("create", kind))) for kind in CREATIONS)
        choices = [(kind, CREATIONS[kind][0]) for kind, may in may_create if may]
        context = {"choices": choices, "parent": parent, "title": _("New object")}
        return page.render("directory/objects/new.html", context)
    kind = Kind(kind_name)
    require_permission(page, permission_for("create", kind))
    if not page.is_post:
        draft = Draft(kind=kind, values={"account.mustChangePassword": "on"} if kind is Kind.USER else {})
        own = {"parent": resolve_name(page, parent), "how": "generate" if kind is Kind.USER else ""}
        return _new_form(page, NewObject(draft, own))
    typed = NewObject.from_form(kind, page.request.POST)
    if page.form.get("step") in ("form", "more"):
        return _new_form(page, typed)
    planned = _with_names(page, typed)

    def form(refusal: GatewayError) -> HttpResponse:
        return _new_form(page, planned, refusal)

    def done(made: Record) -> HttpResponse:
        show_success(page, _("{name} is created.").format(name=planned.name))
        if planned.generates_password:
            return show_password(page, made, change.body["password"])
        return page.redirect("object", object_id=made["id"])

    try:
        body = planned.body()
    except GatewayError as refusal:
        return form(refusal)
    title = _("Create {name}?").format(name=planned.name)
    change = Change(operation=CREATIONS[kind][1], about=None, body=body, title=title, confirm=_("Create"))
    kept = [*planned.own_fields.items(), *planned.draft.as_fields()]
    namesakes = _find_namesakes(page, planned) if page.form.get("step") != "make" else []
    return preview_or_make(page, change, form=form, kept=kept, done=done, namesakes=namesakes)


def _find_namesakes(page: PageContext, planned: NewObject) -> list[Record]:
    """People who are called as the new person would be: it may be the same one, or somebody whom mail mixes up."""
    if planned.kind is not Kind.USER or not planned.name or not page.may("users.search"):
        return []
    name = Or(Equals("name", planned.name), Equals("displayName", planned.name))
    try:
        found = page.perform("users.search", query={"filter": str(name), "pageSize": _NAMESAKES_SHOWN})
    except GatewayError:  # a name that cannot be read must not keep anybody from creating the account
        return []
    namesakes: list[Record] = found["items"]
    return namesakes


def _new_form(page: PageContext, planned: NewObject, problem: GatewayError | None = None) -> HttpResponse:
    title = _(TITLES.get(planned.kind, "New object"))
    context = {**_form_context(page, planned.draft), "new": planned, "title": title, "problem": problem}
    return page.render("directory/objects/new.html", context)


def _with_names(page: PageContext, planned: NewObject) -> NewObject:
    return planned.with_names(domain_of(resolve_name(page, planned.parent)))


def resolve_name(page: PageContext, reference: str) -> str:
    """The distinguished name of an object given by id; any other reference unchanged."""
    if parse_guid(reference) is None:
        return reference
    try:
        record = page.perform("objects.read", id=reference, query={"attributes": "objectSid"})
    except GatewayError:  # creating the object refuses it with a message
        return reference
    return str(record["distinguishedName"])


@page_at("directory/new/names", "object-new-names")
def preview_names(page: PageContext) -> HttpResponseBase:
    """The names that a person would get, shown while the form is being filled in."""
    context = {"new": _with_names(page, NewObject.from_form(Kind.USER, page.request.GET))}
    return page.render("directory/objects/_names.html", context)
