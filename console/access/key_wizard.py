"""Set up an integration step by step: role, key, directory, allowed addresses, supervision level, then create it all.

The session keeps what was typed. Only the last step creates anything: role, key and link, each by its own operation.
If one is refused, the page says what was created before it.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from django.contrib import messages
from django.http import HttpResponseBase
from django.utils.translation import gettext

from approvals.review.deciders import find_deciders_for
from console.access.keys import directories
from console.access.roles import typed_role
from console.page_context import PageContext, page_at
from console.shared.forms import (
    body_from_form,
    body_members,
    encode_form,
    permission_choices,
    permissions_by_group,
    permissions_by_name,
)
from console.shared.texts import field_message
from core.database.own_rows import version_of
from core.errors import FieldError, GatewayError, NotFound
from core.operation import find_operation
from core.shapes import load_body, parse_guid
from core.text.vocabulary import declare_texts
from directory.errors import Unavailable
from keys.models import Level, Person
from keys.permission_catalogue import FOR_ROLES

_DRAFT = "console-new-key"
"""Session key of the draft."""
_ROLE_TO_COME = "00000000-0000-0000-0000-000000000000"
"""Stands for the id of a new role while the key is validated: the role is created only at the last step."""

Draft = dict[str, Any]
"""What was typed: the key's fields and `directory`; `new_role` has those of a role, if that is the `choice`."""


class Step(NamedTuple):
    """A step; `members` are the members of a key's body that it asks for. Templates translate the title."""

    name: str
    title: str
    members: tuple[str, ...] = ()


STEPS = (
    Step("role", "Role", ("role",)),
    Step("key", "Key and owner", ("name", "owner", "expiresAt")),
    Step("directory", "Directory", ("directory",)),
    Step("addresses", "Addresses", ("allowedAddresses",)),
    Step("level", "Supervision"),  # and all members that no other step asks for
    Step("check", "Check and create"),
)
declare_texts(step.title for step in STEPS)


def _members(step: Step) -> Collection[str]:
    """The members of a key's body that a step asks for."""
    if step.name != "level":
        return step.members
    return body_members("api-keys.create").keys() - {member for each in STEPS for member in each.members}


@page_at("keys/new", "key-new")
def begin(page: PageContext) -> HttpResponseBase:
    """Go to the first step and keep the draft; `role` preselects a role."""
    role = parse_guid(page.query["role"])
    if role is not None:
        _save_draft(page, {**_draft(page), "choice": "existing", "role": str(role)})
    return page.redirect("key-new-step", step="role")


@page_at("keys/new/anew", "key-new-anew", "POST")
def begin_anew(page: PageContext) -> HttpResponseBase:
    page.request.session.pop(_DRAFT, None)
    return page.redirect("key-new-step", step="role")


@page_at("keys/new/<slug:step>", "key-new-step", "GET", "POST")
def show_step(page: PageContext, step: str) -> HttpResponseBase:
    """Show a step, or save what was typed and go to the next or previous one."""
    number = next((number for number, each in enumerate(STEPS) if each.name == step), None)
    if number is None:
        raise NotFound
    page.perform("api-keys.search", query={"pageSize": "1"})  # refuses people who may not see keys
    if not page.may("api-keys.create"):
        return page.redirect("keys")
    draft = _draft(page)
    if not page.is_post:
        return _render_step(page, number, draft)
    if step == "check" and page.form["go"] != "back":
        return _create(page, draft)
    draft |= _typed_fields(page, STEPS[number])
    _save_draft(page, draft)
    if page.form["go"] == "back" or "preset" in page.form:  # a preset's button is on the first step
        return page.redirect("key-new-step", step=STEPS[max(number - 1, 0)].name)
    try:
        _require_plausible(page, STEPS[number], draft)
    except GatewayError as refusal:
        return _render_step(page, number, draft, problem=refusal)
    return page.redirect("key-new-step", step=STEPS[number + 1].name)


def _draft(page: PageContext) -> Draft:
    """The session's draft, with defaults for steps that were not shown yet."""
    kept: Draft = page.request.session.get(_DRAFT, {})
    return {
        "choice": "existing",
        "role": "",
        "new_role": typed_role(page),
        "owner": page.person.username,
        "directory": next((item["id"] for item in directories(page)), ""),
        "supervisionLevel": Level.ASK_DESTRUCTIVE_SECURITY.value,
    } | kept


def _save_draft(page: PageContext, draft: Draft) -> None:
    page.request.session[_DRAFT] = draft


def _typed_fields(page: PageContext, step: Step) -> Draft:
    typed: Draft = {name: page.form.get(name, False) for name in _members(step)}
    if step.name == "role":
        typed |= {"choice": "new" if "preset" in page.form else page.form["choice"], "new_role": typed_role(page)}
    return typed


def _key_body(draft: Draft, role: str) -> Draft:
    """The body of `api-keys.create`; `role` is the role's id."""
    return body_from_form(encode_form({**draft, "role": role}), "api-keys.create")


def _require_plausible(page: PageContext, step: Step, draft: Draft) -> None:
    """Refuse now what the last step would refuse: malformed values and scopes that do not exist."""
    is_new_role = draft["choice"] == "new"
    if step.name == "role" and is_new_role:
        _validate("roles.create", draft["new_role"])
        if scopes := draft["new_role"]["scopes"]:
            with suppress(Unavailable):  # roles.create looks for them anyway
                page.perform("roles.find-scopes", body={"scopes": scopes})
        return
    try:
        _validate("api-keys.create", _key_body(draft, _ROLE_TO_COME if is_new_role else draft["role"]))
    except GatewayError as refusal:
        # The members of later steps are still empty.
        refusal.errors = tuple(error for error in refusal.errors if _step_of(error) == step)
        if refusal.errors:
            raise


def _validate(operation: str, document: dict[str, Any]) -> None:
    """Check a body against the operation's shape; raises InvalidRequest."""
    shape = find_operation(operation).body
    assert shape is not None
    load_body(shape, document)


def _step_of(error: FieldError) -> Step | None:
    """The step with the field that a refusal of the key is about."""
    member = (error.pointer or "").removeprefix("#/").partition("/")[0]
    return next((step for step in STEPS if member in _members(step)), None)


def _render_step(page: PageContext, number: int, draft: Draft, **context: Any) -> HttpResponseBase:
    step = STEPS[number]
    shown = {
        "step": step,
        "steps": [(each, index < number) for index, each in enumerate(STEPS)],
        "is_first": number == 0,
        "typed": draft,
        "is_begun": _DRAFT in page.request.session,
        **_step_context(page, step, draft),
        **context,
    }
    return page.render(f"access/key_new_{step.name}.html", shown)


def _step_context(page: PageContext, step: Step, draft: Draft) -> dict[str, Any]:
    """The choices that a step offers."""
    match step.name:
        case "role":
            return {
                "roles": page.list_all("roles.search"),
                "choices": permission_choices(page, draft["new_role"]["permissions"], for_role=True),
                "presets": FOR_ROLES,
            }
        case "key":
            people = page.list_all("people.search", active="true") if page.is_superuser else []
            return {"people": [person for person in people if person["username"] != page.person.username]}
        case "directory":
            return {"directories": directories(page)}
        case "addresses":
            return {"own_address": page.call.client_address}
        case "level":
            return {"levels": Level}
        case _:
            return _summary(page, draft)


def _summary(page: PageContext, draft: Draft) -> dict[str, Any]:
    """A summary of all steps, with what to know before the key is created."""
    roles = {role["id"]: role for role in page.list_all("roles.search")}
    role = draft["new_role"] if draft["choice"] == "new" else roles.get(draft["role"], {})
    given = role.get("permissions", [])
    owner = Person.objects.filter(username=draft["owner"]).first()
    held = None if owner is None else _permissions_held_by(page, owner)
    meanings = permissions_by_name()
    addresses, level = _key_body(draft, "")["allowedAddresses"], draft["supervisionLevel"]
    deciders = None  # none of its changes would wait, or its owner does not exist
    if owner is not None and level != Level.ACT:
        deciders = find_deciders_for(owner.pk, excluding=page.person.pk)
    return {
        "digest": version_of(draft),
        "role": role,
        "permissions": permissions_by_group(given),
        "owner_lacks": [] if held is None else [meanings[name] for name in given if name not in held],
        "directory": next((item for item in directories(page) if item["id"] == draft["directory"]), None),
        "addresses": addresses,
        "level": Level(level) if level in Level.values else None,
        "deciders": deciders,
        "is_bold": level == Level.ACT and not addresses,
    }


@page_at("keys/deciders", "key-deciders", get="people.search")
def deciders(page: PageContext) -> HttpResponseBase:
    """Who could decide what the keys of an owner ask for; only superusers choose the owner."""
    name = page.query["owner"] if page.is_superuser and page.query["owner"] else page.person.username
    owner = Person.objects.filter(username=name, is_active=True).first()
    found = None if owner is None else find_deciders_for(owner.pk, excluding=page.person.pk)
    return page.render("access/_deciders_of_owner.html", {"deciders": found})


def _permissions_held_by(page: PageContext, owner: Person) -> Collection[str] | None:
    """The owner's permissions; None if the signed-in person may not see them."""
    if owner == page.person:
        return page.call.permissions
    if not page.may("people.read-effective-permissions"):
        return None
    effective = page.perform("people.read-effective-permissions", id=owner.public_id)
    return {item["name"] for item in effective["permissions"]}


def _create(page: PageContext, draft: Draft) -> HttpResponseBase:
    """Create the role if it is new, then the key and its link; redirect to the page that shows the key's value once."""
    if _DRAFT not in page.request.session:  # created already: the form was sent twice
        return page.redirect("keys")
    last = len(STEPS) - 1
    if page.form["digest"] != version_of(draft):  # another tab has changed the draft: create only what was seen
        return _render_step(page, last, draft, is_other=True)
    made_role = None
    try:
        if draft["choice"] == "new":
            made_role = page.perform("roles.create", body=draft["new_role"])
            draft |= {"choice": "existing", "role": made_role["id"]}
            _save_draft(page, draft)
        key = page.perform("api-keys.create", body=_key_body(draft, draft["role"]))
    except GatewayError as refusal:
        if made_role is not None:  # the draft names it now, so sending again does not create a second one
            return _role_without_key(page, made_role, refusal)
        about = STEPS[0] if draft["choice"] == "new" else _first_step(refusal)
        return _render_step(page, last, draft, problem=refusal, about=about)
    page.request.session.pop(_DRAFT)
    shown = {"template": "key_made", "value": key["value"], "role_made": made_role and made_role["name"]}
    if directory := draft["directory"]:
        try:
            page.perform("api-keys.create-link", body={"directory": directory}, id=key["id"])
        except GatewayError as refusal:
            shown["link_problem"] = refusal.detail
    return page.redirect_showing(shown, "key-value", key_id=key["id"])


def _role_without_key(page: PageContext, role: Mapping[str, Any], refusal: GatewayError) -> HttpResponseBase:
    """Go back to the step that the key's refusal is about, and say that the role exists now."""
    made = gettext("The role {name} was created and is chosen now. The key has not been created yet.")
    messages.info(page.request, made.format(name=role["name"]))
    details = [field_message(error.detail) for error in refusal.errors] or [gettext(refusal.detail)]
    messages.error(page.request, " ".join(details))
    return page.redirect("key-new-step", step=(_first_step(refusal) or STEPS[-1]).name)


def _first_step(refusal: GatewayError) -> Step | None:
    """The first step with a field that a refusal of the key is about."""
    about = [_step_of(error) for error in refusal.errors]
    return next((step for step in STEPS if step in about), None)
