"""Setting up an integration, step by step: role, key, directory, addresses, supervision; then all is made at once.

What was said at each step is kept in the session, so that going back loses nothing. Nothing is made before the last
step; there each thing is made by its own operation, and one that is refused says what was made before it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from django.http import HttpResponseBase
from django.urls import path

from approvals.deciders import find_deciders_for
from directory.errors import Unavailable
from gateway.console.access.keys import all_of, directories, value_shown
from gateway.console.access.permission_choices import by_group, choices, explained, preset_of
from gateway.console.access.roles import RoleForm
from gateway.console.page_context import Visit, page
from gateway.console.shared.fields import lines_of, midnight_of
from gateway.core.errors import GatewayError, NotFound
from gateway.core.operation import find_operation
from gateway.core.shapes import load_body, parse_guid
from gateway.core.versions import version_of
from keys.models import Level, Person
from keys.permissions.presets import FOR_ROLES

_DRAFT = "console-new-key"
"""Where the session keeps what was said so far."""
_NO_ROLE = "00000000-0000-0000-0000-000000000000"

Draft = dict[str, dict[str, Any]]
"""What was typed at each step, by the step's name and the field's."""


@dataclass(frozen=True, slots=True)
class Step:
    """`members` are those of a key's body that the step is about, as pointers."""

    name: str
    title: str
    members: tuple[str, ...] = ()


STEPS = (
    Step("role", "Role", ("#/role",)),
    Step("key", "Key and owner", ("#/name", "#/owner", "#/expiresAt")),
    Step("directory", "Directory", ("#/directory",)),
    Step("addresses", "Addresses", ("#/allowedAddresses",)),
    Step("level", "Supervision", ("#/supervisionLevel",)),
    Step("check", "Check and make"),
)
_BY_NAME = {step.name: step for step in STEPS}


@page()
def begin(visit: Visit) -> HttpResponseBase:
    """The first step, where a visit before was left off; `role` chooses one beforehand."""
    role = parse_guid(visit.query.get("role", ""))
    if role is not None:
        _keep(visit, {**_draft(visit), "role": {"choice": "existing", "role": str(role)}})
    return visit.redirect("key-new-step", step="role")


@page("POST")
def begin_anew(visit: Visit) -> HttpResponseBase:
    visit.request.session.pop(_DRAFT, None)
    return visit.redirect("key-new-step", step="role")


@page("GET", "POST")
def step(visit: Visit, step: str) -> HttpResponseBase:
    """Show a step, or keep what was typed at it and go on, or back."""
    if step not in _BY_NAME:
        raise NotFound
    visit.perform("api-keys.search", query={"pageSize": "1"})  # or refuse it to whom keys are not shown
    if not visit.may("api-keys.create"):
        return visit.redirect("keys")
    draft = _draft(visit)
    if visit.request.method != "POST":
        return _show(visit, step, draft)
    if step == "check" and visit.form.get("go") != "back":
        return _make(visit, draft)
    if step != "check":
        draft = {**draft, step: _READ[step](visit)}
        _keep(visit, draft)
    number = STEPS.index(_BY_NAME[step])
    if visit.form.get("go") == "back" or "preset" in visit.form:  # a preset's button is on the first step
        return visit.redirect("key-new-step", step=STEPS[max(number - 1, 0)].name)
    try:
        _require_plausible(visit, step, draft)
    except GatewayError as refusal:
        return _show(visit, step, draft, problem=refusal)
    return visit.redirect("key-new-step", step=STEPS[number + 1].name)


def _draft(visit: Visit) -> Draft:
    kept: Draft = visit.request.session.get(_DRAFT, {})
    return {
        "role": {"choice": "existing", "role": "", **asdict(RoleForm())},
        "key": {"name": "", "owner": visit.call.person.username, "expiresOn": ""},
        "directory": {"directory": next((item["id"] for item in directories(visit)), "")},
        "addresses": {"addresses": ""},
        "level": {"level": Level.ASK_DESTRUCTIVE_SECURITY.value, "passwordsToRequester": ""},
    } | kept


def _keep(visit: Visit, draft: Draft) -> None:
    visit.request.session[_DRAFT] = draft


def _typed(*names: str) -> Callable[[Visit], dict[str, Any]]:
    return lambda visit: {name: visit.form.get(name, "") for name in names}


def _typed_role(visit: Visit) -> dict[str, Any]:
    typed = {**_typed("choice", "role")(visit), **asdict(RoleForm.sent(visit.request.POST))}
    preset = preset_of(visit)
    return typed if preset is None else {**typed, "choice": "new", "permissions": sorted(preset.for_role)}


_READ: dict[str, Callable[[Visit], dict[str, Any]]] = {
    "role": _typed_role,
    "key": _typed("name", "owner", "expiresOn"),
    "directory": _typed("directory"),
    "addresses": _typed("addresses"),
    "level": _typed("level", "passwordsToRequester"),
}


def _role_form(draft: Draft) -> RoleForm:
    chosen = draft["role"]
    return RoleForm(*(chosen.get(name, default) for name, default in asdict(RoleForm()).items()))


def _key_body(draft: Draft, role: str) -> dict[str, Any]:
    return {
        "name": draft["key"]["name"],
        "owner": draft["key"]["owner"],
        "role": role,
        "expiresAt": midnight_of(draft["key"]["expiresOn"]),
        "allowedAddresses": lines_of(draft["addresses"]["addresses"]),
        "supervisionLevel": draft["level"]["level"],
        "passwordsToRequester": bool(draft["level"].get("passwordsToRequester")),
    }


def _require_plausible(visit: Visit, step: str, draft: Draft) -> None:
    """Refuse at its own step what the operation would refuse at the last: for its shape, and for scopes not there."""
    is_new = draft["role"]["choice"] == "new"
    if step == "role" and is_new:
        body = _role_form(draft).body([])
        _load("roles.create", body)
        if body["scopes"]:
            with suppress(Unavailable):  # then they are looked for when the role is made
                visit.perform("roles.find-scopes", body={"scopes": body["scopes"]})
        return
    role = _NO_ROLE if is_new else draft["role"]["role"]
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
    return any(pointer == member or pointer.startswith(f"{member}/") for member in _BY_NAME[step].members)


def _show(visit: Visit, step: str, draft: Draft, **context: Any) -> HttpResponseBase:
    problem = context.get("problem")
    number = STEPS.index(_BY_NAME[step])
    shown = {
        "step": _BY_NAME[step],
        "steps": [(item, STEPS.index(item) < number) for item in STEPS],
        "is_first": number == 0,
        "typed": draft.get(step, {}),
        "is_begun": _DRAFT in visit.request.session,
        **_context(visit, step, draft),
        **context,
    }
    return visit.render(f"access/key_new_{step}.html", shown, status=problem.status if problem else 200)


def _context(visit: Visit, step: str, draft: Draft) -> dict[str, Any]:
    """What a step offers to choose from."""
    match step:
        case "role":
            form = _role_form(draft)
            return {
                "chosen": draft["role"],
                "typed": form,
                "roles": all_of(visit, "roles.search"),
                "choices": choices(visit, form.permissions, for_role=True),
                "presets": FOR_ROLES,
            }
        case "key":
            people = all_of(visit, "people.search", active="true") if visit.is_superuser else []
            return {"people": [person for person in people if person["username"] != visit.call.person.username]}
        case "directory":
            return {"directories": directories(visit)}
        case "addresses":
            return {"own_address": visit.call.client_address}
        case "level":
            return {"levels": Level}
        case _:
            return _said(visit, draft)


def _said(visit: Visit, draft: Draft) -> dict[str, Any]:
    """Everything that was said, in words, and what to know before it is made."""
    roles = {role["id"]: role for role in all_of(visit, "roles.search")}
    is_new = draft["role"]["choice"] == "new"
    form = _role_form(draft)
    chosen = roles.get(draft["role"]["role"])
    given = form.permissions if is_new else (chosen or {}).get("permissions", [])
    held = _held_by(visit, draft["key"]["owner"])
    meanings = explained(visit)
    return {
        "draft": draft,
        "digest": version_of(draft),
        "is_new_role": is_new,
        "role_name": form.name if is_new else (chosen or {}).get("name"),
        "scopes": lines_of(form.scopes) if is_new else (chosen or {}).get("scopes", []),
        "permissions": by_group(visit, given),
        "owner_lacks": [] if held is None else [meanings[name] for name in given if name not in held],
        "directory": next((item for item in directories(visit) if item["id"] == draft["directory"]["directory"]), None),
        "addresses": lines_of(draft["addresses"]["addresses"]),
        "level": Level(draft["level"]["level"]) if draft["level"]["level"] in Level.values else None,
        "deciders": _deciders(visit, draft),
        "is_bold": draft["level"]["level"] == Level.ACT and not lines_of(draft["addresses"]["addresses"]),
    }


def _deciders(visit: Visit, draft: Draft) -> list[str] | None:
    """Who could decide what waits; None where nothing does, or the owner is nobody."""
    owner = Person.objects.filter(username=draft["key"]["owner"]).first()
    if owner is None or draft["level"]["level"] == Level.ACT:
        return None
    return find_deciders_for(owner.pk, besides=visit.call.person.id)


def _held_by(visit: Visit, owner: str) -> set[str] | None:
    """What the owner may do now; None when the person may not see it."""
    if owner == visit.call.person.username:
        return set(visit.call.permissions)
    found = next((item for item in all_of(visit, "people.search", name=owner) if item["username"] == owner), None)
    if found is None:
        return None
    told = visit.perform("people.read-effective-permissions", id=found["id"])["permissions"]
    return {item["name"] for item in told}


def _make(visit: Visit, draft: Draft) -> HttpResponseBase:
    """Make the role if it is a new one, then the key, then its link. The value is shown in this answer alone."""
    if _DRAFT not in visit.request.session:  # made already: the page was sent again
        return visit.redirect("keys")
    if visit.form.get("digest") != version_of(draft):
        return _show(visit, "check", draft, is_other=True)
    made_role = None
    try:
        if draft["role"]["choice"] == "new":
            made_role = visit.perform("roles.create", body=_role_form(draft).body([]))
            draft = {**draft, "role": {**draft["role"], "choice": "existing", "role": made_role["id"]}}
            _keep(visit, draft)
        key = visit.perform("api-keys.create", body=_key_body(draft, draft["role"]["role"]))
    except GatewayError as refusal:
        about = _step_of(refusal) if made_role or draft["role"]["choice"] != "new" else _BY_NAME["role"]
        return _show(visit, "check", draft, problem=refusal, made_role=made_role, about=about)
    visit.request.session.pop(_DRAFT)
    problem = _link(visit, key["id"], draft["directory"]["directory"])
    found = visit.perform("api-keys.read", id=key["id"])
    shown = {**value_shown(visit, found, key["value"]), "made_role": made_role, "link_problem": problem}
    return visit.render("access/key_made.html", shown)


def _link(visit: Visit, key_id: str, directory: str) -> GatewayError | None:
    """Link the new key to the directory chosen, if one was; the refusal, if it was refused."""
    try:
        if directory:
            visit.perform("api-keys.create-link", body={"directory": directory}, id=key_id)
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
