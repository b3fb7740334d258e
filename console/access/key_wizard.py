"""Setting up an integration, step by step: role, key, directory, addresses, supervision; then all is made at once.

What was said at each step is kept in the session, so that going back loses nothing. Nothing is made before the last
step; there each thing is made by its own operation, and one that is refused says what was made before it.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

from approvals.review.conflict_of_interest import find_deciders_for
from console.access.bodies import body_of, form_of, members_of
from console.access.keys import all_of, directories
from console.access.permission_choices import by_group, choices, explained, preset_of
from console.access.roles import NO_ROLE, role_body, typed_role
from console.page_context import PageContext, console_page
from console.shared.field_messages import field_message
from console.shared.fields import lines_of
from core.errors import GatewayError, NotFound
from core.operation import find_operation
from core.shapes import load_body, parse_guid
from core.versions import version_of
from directory.errors import Unavailable
from keys.models import Level, Person
from keys.permissions.presets import FOR_ROLES

_DRAFT = "console-key-draft"
"""Where the session keeps what was said so far."""
_ROLE_TO_COME = "00000000-0000-0000-0000-000000000000"

Draft = dict[str, dict[str, Any]]
"""What was typed at each step, by the step's name and the field's."""


@dataclass(frozen=True, slots=True)
class Step:
    """`members` are those of a key's body that the step alone is about. Pages translate the title."""

    name: str
    title: str
    members: tuple[str, ...] = ()


STEPS = (
    Step("role", _("Role"), ("role",)),
    Step("key", _("Key and owner"), ("name", "owner", "expiresAt")),
    Step("directory", _("Directory"), ("directory",)),
    Step("addresses", _("Addresses"), ("allowedAddresses",)),
    Step("level", _("Supervision")),  # and what there is to say of a key besides
    Step("check", _("Check and make")),
)
_BY_NAME = {step.name: step for step in STEPS}


def _members(step: str) -> Collection[str]:
    """The members of a key's body that a step is about, which are its fields."""
    if step != "level":
        return _BY_NAME[step].members
    return members_of("api-keys.create").keys() - {member for each in STEPS for member in each.members}


@console_page()
def begin(page: PageContext) -> HttpResponseBase:
    """The first step, where the person left off before; `role` chooses one beforehand."""
    role = parse_guid(page.query.get("role", ""))
    if role is not None:
        _keep(page, {**_draft(page), "role": {**NO_ROLE, "choice": "existing", "role": str(role)}})
    return page.redirect("key-new-step", step="role")


@console_page("POST")
def begin_anew(page: PageContext) -> HttpResponseBase:
    page.request.session.pop(_DRAFT, None)
    return page.redirect("key-new-step", step="role")


@console_page("GET", "POST")
def step(page: PageContext, step: str) -> HttpResponseBase:
    """Show a step, or keep what was typed at it and go on, or back."""
    if step not in _BY_NAME:
        raise NotFound
    page.perform("api-keys.search", query={"pageSize": "1"})  # or refuse it to whom keys are not shown
    if not page.may("api-keys.create"):
        return page.redirect("keys")
    draft = _draft(page)
    if page.request.method != "POST":
        return _show(page, step, draft)
    if step == "check" and page.form.get("go") != "back":
        return _make(page, draft)
    if step != "check":
        draft = {**draft, step: _typed(page, step)}
        _keep(page, draft)
    number = STEPS.index(_BY_NAME[step])
    if page.form.get("go") == "back" or "preset" in page.form:  # a preset's button is on the first step
        return page.redirect("key-new-step", step=STEPS[max(number - 1, 0)].name)
    try:
        _require_plausible(page, step, draft)
    except GatewayError as refusal:
        return _show(page, step, draft, problem=refusal)
    return page.redirect("key-new-step", step=STEPS[number + 1].name)


def _draft(page: PageContext) -> Draft:
    kept: Draft = page.request.session.get(_DRAFT, {})
    return {
        "role": {"choice": "existing", "role": "", **NO_ROLE},
        "key": {"name": "", "owner": page.call.person.username, "expiresAt": ""},
        "directory": {"directory": next((item["id"] for item in directories(page)), "")},
        "addresses": {"allowedAddresses": ""},
        "level": {"supervisionLevel": Level.ASK_DESTRUCTIVE_SECURITY.value, "passwordsToRequester": False},
    } | kept


def _keep(page: PageContext, draft: Draft) -> None:
    page.request.session[_DRAFT] = draft


def _typed(page: PageContext, step: str) -> dict[str, Any]:
    typed: dict[str, Any] = {name: page.form.get(name, False) for name in _members(step)}
    if step != "role":
        return typed
    typed |= {"choice": page.form.get("choice", ""), **typed_role(page)}
    preset = preset_of(page)
    return typed if preset is None else {**typed, "choice": "new", "permissions": sorted(preset.for_role)}


def _key_body(draft: Draft, role: str) -> dict[str, Any]:
    fields = {**draft["key"], **draft["addresses"], **draft["level"], "role": role}
    return body_of(form_of(fields), "api-keys.create")


def _require_plausible(page: PageContext, step: str, draft: Draft) -> None:
    """Refuse at its own step what the operation would refuse at the last: for its shape, and for scopes not there."""
    is_new = draft["role"]["choice"] == "new"
    if step == "role" and is_new:
        body = role_body(draft["role"])
        _load("roles.create", body)
        if body["scopes"]:
            with suppress(Unavailable):  # then they are looked for when the role is made
                page.perform("roles.find-scopes", body={"scopes": body["scopes"]})
        return
    role = _ROLE_TO_COME if is_new else draft["role"]["role"]
    try:
        _load("api-keys.create", _key_body(draft, role))
    except GatewayError as refusal:
        # Steps that are still to come have nothing to say yet.
        refusal.errors = tuple(error for error in refusal.errors if _is_about(step, error.pointer or ""))
        if refusal.errors:
            raise


def _load(operation: str, document: dict[str, Any]) -> None:
    shape = find_operation(operation).body
    assert shape is not None
    load_body(shape, document)


def _is_about(step: str, pointer: str) -> bool:
    return pointer.removeprefix("#/").partition("/")[0] in _members(step)


def _show(page: PageContext, step: str, draft: Draft, **context: Any) -> HttpResponseBase:
    number = STEPS.index(_BY_NAME[step])
    shown = {
        "step": _BY_NAME[step],
        "steps": [(item, STEPS.index(item) < number) for item in STEPS],
        "is_first": number == 0,
        "typed": draft.get(step, {}),
        "is_begun": _DRAFT in page.request.session,
        **_context(page, step, draft),
        **context,
    }
    return page.render(f"access/key_new_{step}.html", shown)


def _context(page: PageContext, step: str, draft: Draft) -> dict[str, Any]:
    """What a step offers to choose from."""
    match step:
        case "role":
            return {
                "chosen": draft["role"],
                "roles": all_of(page, "roles.search"),
                "choices": choices(page, draft["role"]["permissions"], for_role=True),
                "presets": FOR_ROLES,
            }
        case "key":
            people = all_of(page, "people.search", active="true") if page.is_superuser else []
            return {"people": [person for person in people if person["username"] != page.call.person.username]}
        case "directory":
            return {"directories": directories(page)}
        case "addresses":
            return {"own_address": page.call.client_address}
        case "level":
            return {"levels": Level}
        case _:
            return _said(page, draft)


def _said(page: PageContext, draft: Draft) -> dict[str, Any]:
    """Everything that was said, in words, and what to know before it is made."""
    roles = {role["id"]: role for role in all_of(page, "roles.search")}
    typed = draft["role"]
    is_new = typed["choice"] == "new"
    role = {**typed, "scopes": lines_of(typed["scopes"])} if is_new else roles.get(typed["role"], {})
    given = role.get("permissions", [])
    held = _held_by(page, draft["key"]["owner"])
    meanings = explained(page)
    addresses, level = lines_of(draft["addresses"]["allowedAddresses"]), draft["level"]["supervisionLevel"]
    return {
        "draft": draft,
        "digest": version_of(draft),
        "is_new_role": is_new,
        "role_name": role.get("name"),
        "scopes": role.get("scopes", []),
        "permissions": by_group(page, given),
        "owner_lacks": [] if held is None else [meanings[name] for name in given if name not in held],
        "directory": next((item for item in directories(page) if item["id"] == draft["directory"]["directory"]), None),
        "addresses": addresses,
        "level": Level(level) if level in Level.values else None,
        "deciders": _deciders(page, draft),
        "is_bold": level == Level.ACT and not addresses,
    }


def _deciders(page: PageContext, draft: Draft) -> list[str] | None:
    """Who could decide what waits; None where nothing does, or the owner is nobody."""
    owner = Person.objects.filter(username=draft["key"]["owner"]).first()
    if owner is None or draft["level"]["supervisionLevel"] == Level.ACT:
        return None
    return find_deciders_for(owner.pk, besides=page.call.person.id)


def _held_by(page: PageContext, owner: str) -> set[str] | None:
    """What the owner may do now; None when the person may not see it."""
    if owner == page.call.person.username:
        return set(page.call.permissions)
    found = next((item for item in all_of(page, "people.search", name=owner) if item["username"] == owner), None)
    if found is None:
        return None
    effective = page.perform("people.read-effective-permissions", id=found["id"])["permissions"]
    return {item["name"] for item in effective}


def _make(page: PageContext, draft: Draft) -> HttpResponseBase:
    """Make the role if it is a new one, then the key, then its link, and go on to where its value is shown once."""
    if _DRAFT not in page.request.session:  # made already: the page was sent again
        return page.redirect("keys")
    if page.form.get("digest") != version_of(draft):
        return _show(page, "check", draft, is_other=True)
    made_role = None
    try:
        if draft["role"]["choice"] == "new":
            made_role = page.perform("roles.create", body=role_body(draft["role"]))
            draft = {**draft, "role": {**draft["role"], "choice": "existing", "role": made_role["id"]}}
            _keep(page, draft)
        key = page.perform("api-keys.create", body=_key_body(draft, draft["role"]["role"]))
    except GatewayError as refusal:
        if made_role is not None:  # which the page sent again would not make once more
            return _role_alone(page, made_role, refusal)
        about = _BY_NAME["role"] if draft["role"]["choice"] == "new" else _step_of(refusal)
        return _show(page, "check", draft, problem=refusal, about=about)
    page.request.session.pop(_DRAFT)
    problem = _link(page, key["id"], draft["directory"]["directory"])
    shown = {
        "template": "key_made",
        "value": key["value"],
        "role_made": made_role and made_role["name"],
        "link_problem": problem and problem.detail,
    }
    return page.redirect_showing(shown, "key-value", key_id=key["id"])


def _role_alone(page: PageContext, role: Mapping[str, Any], refusal: GatewayError) -> HttpResponseBase:
    """Go back to the step that the refusal of the key is about, saying that its role is made."""
    made = gettext("The role {name} is made and chosen now. The key is not made yet.")
    messages.info(page.request, made.format(name=role["name"]))
    said = [field_message(error.detail) for error in refusal.errors] or [gettext(refusal.detail)]
    messages.error(page.request, " ".join(said))
    return page.redirect("key-new-step", step=(_step_of(refusal) or _BY_NAME["check"]).name)


def _link(page: PageContext, key_id: str, directory: str) -> GatewayError | None:
    """Link the new key to the directory chosen, if one was; the refusal, if it was refused."""
    try:
        if directory:
            page.perform("api-keys.create-link", body={"directory": directory}, id=key_id)
    except GatewayError as refusal:
        return refusal
    return None


def _step_of(refusal: GatewayError) -> Step | None:
    """Where the fields are that a refusal of the key is about."""
    pointers = [error.pointer or "" for error in refusal.errors]
    return next((item for item in STEPS for pointer in pointers if _is_about(item.name, pointer)), None)


urls = [
    path("keys/new", begin, name="key-new"),
    path("keys/new/anew", begin_anew, name="key-new-anew"),
    path("keys/new/<slug:step>", step, name="key-new-step"),
]
