"""People: who signs in here, what they may do and by what, the keys that act as them, and the end of an account."""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path

from gateway.console.access.keys import all_of
from gateway.console.access.permission_choices import choices, explained, preset_of
from gateway.console.page_context import Visit, page
from gateway.console.shared.fields import lines_of, scopes_of
from gateway.console.shared.names import client_name
from gateway.core.errors import GatewayError
from keys.permissions.presets import PRESETS

_KEYS_SHOWN = 50


@page(get="people.search")
def people(visit: Visit) -> HttpResponseBase:
    found = visit.perform("people.search", query={"pageSize": "50", **visit.query})
    return visit.render("access/people.html", {"found": found})


@page(get="people.read")
def person(visit: Visit, person_id: UUID) -> HttpResponseBase:
    return _page(visit, person_id)


def _page(visit: Visit, person_id: UUID, **context: Any) -> HttpResponseBase:
    found = visit.perform("people.read", id=person_id)
    told = visit.perform("people.read-effective-permissions", id=person_id)["permissions"]
    problem = context.get("problem")
    return visit.render(
        "access/person.html",
        {
            "person": found,
            "is_self": _is_self(visit, found),
            "may_change": _may_change(visit, found, told),
            "permissions": _by_group(visit, told),
            "permission_count": len(told),
            "keys": _keys_of(visit, found),
            "sessions": _sessions_of(visit, found) if _may_change(visit, found, told) else [],
            "typed": found,
            **context,
        },
        status=problem.status if problem else 200,
    )


def _is_self(visit: Visit, person: Mapping[str, Any]) -> bool:
    return bool(person["username"] == visit.call.person.username)


def _may_change(visit: Visit, person: Mapping[str, Any], permissions: list[dict[str, Any]]) -> bool:
    """Whether the person on the visit is above the other one, or is them: nobody else can change them."""
    if not visit.may("people.update"):
        return False
    if _is_self(visit, person) or visit.is_superuser:
        return True
    return not person["superuser"] and {item["name"] for item in permissions} <= visit.call.permissions


def _by_group(visit: Visit, told: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """What somebody may do, by group of permissions, with where it comes from."""
    sources = {item["name"]: item for item in told}
    grouped: dict[str, list[dict[str, Any]]] = {}
    for name, meaning in explained(visit).items():
        if name in sources:
            grouped.setdefault(meaning["group"], []).append({**meaning, **sources[name]})
    return list(grouped.items())


def _keys_of(visit: Visit, person: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not visit.may("api-keys.search"):
        return []
    query = {"owner": person["username"], "pageSize": str(_KEYS_SHOWN)}
    found: list[dict[str, Any]] = visit.perform("api-keys.search", query=query)["items"]
    return found


def _sessions_of(visit: Visit, person: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = visit.perform("people.list-sessions", id=person["id"], query={"pageSize": "20"})[
        "items"
    ]
    return [{**item, "client": client_name(item["userAgent"])} for item in found]


@page(get="people.read-scopes")
def scopes(visit: Visit, person_id: UUID) -> HttpResponseBase:
    """What the person is confined to. The names are asked of the directory, so this comes after the page."""
    return visit.render("access/_person_scopes.html", visit.perform("people.read-scopes", id=person_id))


@page(post="people.create")
def new(visit: Visit) -> HttpResponseBase:
    if visit.request.method != "POST":
        visit.perform("people.search", query={"pageSize": "1"})  # or refuse it to whom people are not shown
        return _new_page(visit, {})
    typed = visit.form
    body = {
        "username": typed.get("username", ""),
        "displayName": typed.get("displayName", ""),
        "email": typed.get("email", ""),
        "password": typed.get("password", ""),
        "permissions": visit.request.POST.getlist("permissions"),
        "scopes": lines_of(typed.get("scopes", "")),
    }
    if (preset := preset_of(visit)) is not None:
        return _new_page(visit, typed, chosen=preset.permissions)
    try:
        made = visit.perform("people.create", body=body)
    except GatewayError as refusal:
        return _new_page(visit, typed, problem=refusal)
    messages.success(visit.request, "The account is made. Tell its owner the password in another way than its name.")
    return visit.redirect("person", person_id=made["id"])


def _new_page(
    visit: Visit,
    typed: Mapping[str, str],
    problem: GatewayError | None = None,
    chosen: Collection[str] | None = None,
) -> HttpResponseBase:
    if chosen is None:
        chosen = visit.request.POST.getlist("permissions")
    context = {
        "typed": typed,
        "choices": choices(visit, chosen, for_role=False),
        "presets": PRESETS,
        "problem": problem,
    }
    return visit.render("access/person_new.html", context, status=problem.status if problem else 200)


@page(post="people.update")
def permissions(visit: Visit, person_id: UUID) -> HttpResponseBase:
    """The permissions given to a person directly, and the groups they are in."""
    found = visit.perform("people.read", id=person_id)
    if visit.request.method != "POST":
        return _permissions_page(visit, found, found["permissions"], version=found["version"])
    scopes_typed = visit.form.get("scopes", "")
    chosen, version = visit.request.POST.getlist("permissions"), visit.form.get("version", "")
    if (preset := preset_of(visit)) is not None:
        return _permissions_page(visit, found, sorted(preset.permissions), version=version, typed=scopes_typed)
    body: dict[str, Any] = {"permissions": chosen}
    if visit.is_superuser and "has-groups" in visit.form:
        body["groups"] = visit.request.POST.getlist("groups")
    if _may_confine(visit, found) and "has-scopes" in visit.form:
        body["scopes"] = scopes_of(scopes_typed, found["scopeObjects"])
    try:
        visit.answer("people.update", body=body, if_match=version, id=person_id)
    except GatewayError as refusal:
        return _permissions_page(visit, found, chosen, version=version, typed=scopes_typed, problem=refusal)
    messages.success(visit.request, "Saved. It holds for them and their keys from the next request on.")
    return visit.redirect("person", person_id=person_id)


def _may_confine(visit: Visit, person: Mapping[str, Any]) -> bool:
    return not person["superuser"] and not _is_self(visit, person)


def _permissions_page(
    visit: Visit,
    person: Mapping[str, Any],
    chosen: list[str],
    *,
    version: str,
    typed: str | None = None,
    problem: GatewayError | None = None,
) -> HttpResponseBase:
    context = {
        "person": person,
        "version": version,
        "choices": choices(visit, chosen, for_role=False),
        "presets": PRESETS,
        "groups": all_of(visit, "permission-groups.search") if visit.is_superuser else [],
        "keys": _keys_of(visit, person),
        "may_confine": _may_confine(visit, person),
        "scopes": "\n".join(person["scopes"]) if typed is None else typed,
        "problem": problem,
    }
    return visit.render("access/person_permissions.html", context, status=problem.status if problem else 200)


@page("POST")
def change(visit: Visit, person_id: UUID) -> HttpResponseBase:
    """The names of a person, and where notices to them go."""
    typed = visit.form
    body = {name: typed[name] for name in ("username", "displayName", "email") if name in typed}
    try:
        visit.answer("people.update", body=body, if_match=typed.get("version"), id=person_id)
    except GatewayError as refusal:
        shown = {**visit.perform("people.read", id=person_id), **typed}
        return _page(visit, person_id, problem=refusal, typed=shown, opened="names")
    return _saved(visit, person_id, "Saved.")


@page("POST")
def password(visit: Visit, person_id: UUID) -> HttpResponseBase:
    try:
        visit.perform("people.update", body={"password": visit.form.get("password", "")}, id=person_id)
    except GatewayError as refusal:
        return _page(visit, person_id, problem=refusal, opened="password")
    return _saved(visit, person_id, "The password is set. They are signed out everywhere.")


@page("POST")
def activation(visit: Visit, person_id: UUID, active: bool) -> HttpResponseBase:
    told = "Active again, and with them their keys." if active else "Deactivated, and with them all their keys."
    return _done(visit, person_id, "people.update", told, body={"active": active})


@page("POST")
def end_sessions(visit: Visit, person_id: UUID) -> HttpResponseBase:
    return _done(visit, person_id, "people.end-sessions", "They are signed out everywhere, and can sign in again.")


@page("POST")
def reset_second_factor(visit: Visit, person_id: UUID) -> HttpResponseBase:
    told = "The second factor is off. Their password alone signs them in until they set another one up."
    return _done(visit, person_id, "people.reset-second-factor", told)


@page("POST")
def delete(visit: Visit, person_id: UUID) -> HttpResponseBase:
    try:
        visit.perform("people.delete", id=person_id)
    except GatewayError as refusal:
        return _page(visit, person_id, problem=refusal)
    messages.success(visit.request, "Deleted.")
    return visit.redirect("people")


def _done(visit: Visit, person_id: UUID, operation: str, told: str, **inputs: Any) -> HttpResponseBase:
    try:
        visit.perform(operation, id=person_id, **inputs)
    except GatewayError as refusal:
        return _page(visit, person_id, problem=refusal)
    return _saved(visit, person_id, told)


def _saved(visit: Visit, person_id: UUID, told: str) -> HttpResponseBase:
    messages.success(visit.request, told)
    return visit.redirect("person", person_id=person_id)


urls = [
    path("people/", people, name="people"),
    path("people/new", new, name="person-new"),
    path("people/<uuid:person_id>", person, name="person"),
    path("people/<uuid:person_id>/scopes", scopes, name="person-scopes"),
    path("people/<uuid:person_id>/permissions", permissions, name="person-permissions"),
    path("people/<uuid:person_id>/names", change, name="person-names"),
    path("people/<uuid:person_id>/password", password, name="person-password"),
    path("people/<uuid:person_id>/activate", activation, {"active": True}, name="person-activate"),
    path("people/<uuid:person_id>/deactivate", activation, {"active": False}, name="person-deactivate"),
    path("people/<uuid:person_id>/sessions/end", end_sessions, name="person-end-sessions"),
    path("people/<uuid:person_id>/second-factor/reset", reset_second_factor, name="person-reset-second-factor"),
    path("people/<uuid:person_id>/delete", delete, name="person-delete"),
]
