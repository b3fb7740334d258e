"""Set up an integration step by step: role, key, directory, allowed addresses, supervision level, then create it all.

The session keeps what was typed at each step. Only the last step creates anything: role, key and link, each by its own
operation. If one is refused, the page says what was created before it.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponseBase
from django.utils.translation import gettext

from approvals.review.deciders import find_deciders_for
from console.access.keys import directories
from console.access.roles import EMPTY_ROLE, role_body, typed_role
from console.page_context import PageContext, page_at
from console.shared.forms import (
    body_from_form,
    body_members,
    encode_form,
    permission_choices,
    permissions_by_group,
    permissions_by_name,
    split_lines,
)
from console.shared.texts import field_message
from core.database.own_rows import version_of
from core.errors import GatewayError, NotFound
from core.operation import find_operation
from core.shapes import load_body, parse_guid
from core.text.vocabulary import declare_texts
from directory.errors import Unavailable
from keys.models import Level, Person
from keys.permission_catalogue import FOR_ROLES

_DRAFT = "console-key-draft"
"""Session key of the draft."""
_ROLE_TO_COME = "00000000-0000-0000-0000-000000000000"
"""Stands for the id of a new role while the key is validated: the role is created only at the last step."""

Draft = dict[str, dict[str, Any]]
"""What was typed, by step and field."""


@dataclass(frozen=True, slots=True)
class Step:
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
    Step("check", "Check and make"),
)
declare_texts(step.title for step in STEPS)
_STEPS_BY_NAME = {step.name: step for step in STEPS}


def _members(step: str) -> Collection[str]:
    """The members of a key's body that a step asks for."""
    if step != "level":
        return _STEPS_BY_NAME[step].members
    return body_members("api-keys.create").keys() - {member for each in STEPS for member in each.members}


@page_at("keys/new", "key-new")
def begin(page: PageContext) -> HttpResponseBase:
    """Go to the first step and keep the draft; `role` preselects a role."""
    role = parse_guid(page.query["role"])
    if role is not None:
        _save_draft(page, {**_draft(page), "role": {**EMPTY_ROLE, "choice": "existing", "role": str(role)}})
    return page.redirect("key-new-step", step="role")


@page_at("keys/new/anew", "key-new-anew", "POST")
def begin_anew(page: PageContext) -> HttpResponseBase:
    page.request.session.pop(_DRAFT, None)
    return page.redirect("key-new-step", step="role")


@page_at("keys/new/<slug:step>", "key-new-step", "GET", "POST")
def step(page: PageContext, step: str) -> HttpResponseBase:
    """Show a step, or save what was typed and go to the next or previous one."""
    if step not in _STEPS_BY_NAME:
        raise NotFound
    page.perform("api-keys.search", query={"pageSize": "1"})  # refuses people who may not see keys
    if not page.may("api-keys.create"):
        return page.redirect("keys")
    draft = _draft(page)
    if not page.is_post:
        return _render_step(page, step, draft)
    if step == "check" and page.form.get("go") != "back":
        return _create(page, draft)
    if step != "check":
        draft = {**draft, step: _typed_step(page, step)}
        _save_draft(page, draft)
    number = STEPS.index(_STEPS_BY_NAME[step])
    if page.form.get("go") == "back" or "preset" in page.form:  # a preset's button is on the first step
        return page.redirect("key-new-step", step=STEPS[max(number - 1, 0)].name)
    try:
        _require_plausible(page, step, draft)
    except GatewayError as refusal:
        return _render_step(page, step, draft, problem=refusal)
    return page.redirect("key-new-step", step=STEPS[number + 1].name)


def _draft(page: PageContext) -> Draft:
    """The session's draft, with defaults for steps that were not shown yet."""
    kept: Draft = page.request.session.get(_DRAFT, {})
    return {
        "role": {"choice": "existing", "role": "", **EMPTY_ROLE},
        "key": {"name": "", "owner": page.call.person.username, "expiresAt": ""},
        "directory": {"directory": next((item["id"] for item in directories(page)), "")},
        "addresses": {"allowedAddresses": ""},
        "level": {"supervisionLevel": Level.ASK_DESTRUCTIVE_SECURITY.value, "passwordsToRequester": False},
    } | kept


def _save_draft(page: PageContext, draft: Draft) -> None:
    page.request.session[_DRAFT] = draft


def _typed_step(page: PageContext, step: str) -> dict[str, Any]:
    typed: dict[str, Any] = {name: page.form.get(name, False) for name in _members(step)}
    if step != "role":
        return typed
    choice = "new" if "preset" in page.form else page.form["choice"]
    return {**typed, "choice": choice, **typed_role(page)}


def _key_body(draft: Draft, role: str) -> dict[str, Any]:
    """The body of `api-keys.create`; `role` is the role's id."""
    fields = {**draft["key"], **draft["addresses"], **draft["level"], "role": role}
    return body_from_form(encode_form(fields), "api-keys.create")


def _require_plausible(page: PageContext, step: str, draft: Draft) -> None:
    """Refuse now what the last step would refuse: malformed values and scopes that do not exist."""
    is_new = draft["role"]["choice"] == "new"
    if step == "role" and is_new:
        body = role_body(draft["role"])
        _validate("roles.create", body)
        if body["scopes"]:
            with suppress(Unavailable):  # roles.create looks for them anyway
                page.perform("roles.find-scopes", body={"scopes": body["scopes"]})
        return
    role = _ROLE_TO_COME if is_new else draft["role"]["role"]
    try:
        _validate("api-keys.create", _key_body(draft, role))
    except GatewayError as refusal:
        # The members of later steps are still empty.
        refusal.errors = tuple(error for error in refusal.errors if _is_about(step, error.pointer or ""))
        if refusal.errors:
            raise


def _validate(operation: str, document: dict[str, Any]) -> None:
    """Check a body against the operation's shape; raises InvalidRequest."""
    shape = find_operation(operation).body
    assert shape is not None
    load_body(shape, document)


def _is_about(step: str, pointer: str) -> bool:
    return pointer.removeprefix("#/").partition("/")[0] in _members(step)


def _render_step(page: PageContext, step: str, draft: Draft, **context: Any) -> HttpResponseBase:
    number = STEPS.index(_STEPS_BY_NAME[step])
    shown = {
        "step": _STEPS_BY_NAME[step],
        "steps": [(item, STEPS.index(item) < number) for item in STEPS],
        "is_first": number == 0,
        "typed": draft.get(step, {}),
        "is_begun": _DRAFT in page.request.session,
        **_step_context(page, step, draft),
        **context,
    }
    return page.render(f"access/key_new_{step}.html", shown)


def _step_context(page: PageContext, step: str, draft: Draft) -> dict[str, Any]:
    """The choices that a step offers."""
    match step:
        case "role":
            return {
                "chosen": draft["role"],
                "roles": page.list_all("roles.search"),
                "choices": permission_choices(page, draft["role"]["permissions"], for_role=True),
                "presets": FOR_ROLES,
            }
        case "key":
            people = page.list_all("people.search", active="true") if page.is_superuser else []
            return {"people": [person for person in people if person["username"] != page.call.person.username]}
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
    typed = draft["role"]
    is_new = typed["choice"] == "new"
    role = {**typed, "scopes": split_lines(typed["scopes"])} if is_new else roles.get(typed["role"], {})
    given = role.get("permissions", [])
    held = _permissions_held_by(page, draft["key"]["owner"])
    meanings = permissions_by_name(page)
    addresses, level = split_lines(draft["addresses"]["allowedAddresses"]), draft["level"]["supervisionLevel"]
    return {
        "draft": draft,
        "digest": version_of(draft),
        "is_new_role": is_new,
        "role_name": role.get("name"),
        "scopes": role.get("scopes", []),
        "permissions": permissions_by_group(page, given),
        "owner_lacks": [] if held is None else [meanings[name] for name in given if name not in held],
        "directory": next((item for item in directories(page) if item["id"] == draft["directory"]["directory"]), None),
        "addresses": addresses,
        "level": Level(level) if level in Level.values else None,
        "deciders": _deciders(page, draft),
        "is_bold": level == Level.ACT and not addresses,
    }


def _deciders(page: PageContext, draft: Draft) -> list[str] | None:
    """Who could decide the key's changes; None if none of them would wait, or if the owner does not exist."""
    owner = Person.objects.filter(username=draft["key"]["owner"]).first()
    if owner is None or draft["level"]["supervisionLevel"] == Level.ACT:
        return None
    return find_deciders_for(owner.pk, excluding=page.call.person.id)


def _permissions_held_by(page: PageContext, owner: str) -> set[str] | None:
    """The owner's permissions; None if the signed-in person may not see them."""
    if owner == page.call.person.username:
        return set(page.call.permissions)
    found = next((item for item in page.list_all("people.search", name=owner) if item["username"] == owner), None)
    if found is None:
        return None
    effective = page.perform("people.read-effective-permissions", id=found["id"])["permissions"]
    return {item["name"] for item in effective}


def _create(page: PageContext, draft: Draft) -> HttpResponseBase:
    """Create the role if it is new, then the key and its link; redirect to the page that shows the key's value once."""
    if _DRAFT not in page.request.session:  # created already: the form was sent twice
        return page.redirect("keys")
    if page.form.get("digest") != version_of(draft):  # another tab has changed the draft: create only what was seen
        return _render_step(page, "check", draft, is_other=True)
    made_role = None
    try:
        if draft["role"]["choice"] == "new":
            made_role = page.perform("roles.create", body=role_body(draft["role"]))
            draft = {**draft, "role": {**draft["role"], "choice": "existing", "role": made_role["id"]}}
            _save_draft(page, draft)
        key = page.perform("api-keys.create", body=_key_body(draft, draft["role"]["role"]))
    except GatewayError as refusal:
        if made_role is not None:  # the draft names it now, so sending again does not create a second one
            return _role_without_key(page, made_role, refusal)
        about = _STEPS_BY_NAME["role"] if draft["role"]["choice"] == "new" else _step_of(refusal)
        return _render_step(page, "check", draft, problem=refusal, about=about)
    page.request.session.pop(_DRAFT)
    shown = {"template": "key_made", "value": key["value"], "role_made": made_role and made_role["name"]}
    if directory := draft["directory"]["directory"]:
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
    return page.redirect("key-new-step", step=(_step_of(refusal) or _STEPS_BY_NAME["check"]).name)


def _step_of(refusal: GatewayError) -> Step | None:
    """The first step with a field that a refusal of the key is about."""
    pointers = [error.pointer or "" for error in refusal.errors]
    return next((item for item in STEPS for pointer in pointers if _is_about(item.name, pointer)), None)
