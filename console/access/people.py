"""People: who signs in here, what they may do and by what, the keys that act as them, and the end of an account."""

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.access.bodies import body_of, known_objects
from console.access.buttons import button
from console.access.keys import all_of
from console.access.permission_choices import choices, explained, preset_of
from console.page_context import PageContext, console_page
from console.shared.fields import lines_of
from console.shared.names import client_name
from core.errors import GatewayError
from keys.permissions.presets import PRESETS

_KEYS_SHOWN = 50


@console_page(get="people.search")
def people(page: PageContext) -> HttpResponseBase:
    found = page.perform("people.search", query={"pageSize": "50", **page.query})
    return page.render("access/people.html", {"found": found})


@console_page(get="people.read")
def person(page: PageContext, person_id: UUID) -> HttpResponseBase:
    return _page(page, person_id)


def _page(page: PageContext, person_id: UUID, **context: Any) -> HttpResponseBase:
    found = page.perform("people.read", id=person_id)
    effective = page.perform("people.read-effective-permissions", id=person_id)["permissions"]
    may_change = _may_change(page, found, effective)
    return page.render(
        "access/person.html",
        {
            "person": found,
            "is_self": _is_self(page, found),
            "may_change": may_change,
            "permissions": _by_group(page, effective),
            "permission_count": len(effective),
            "keys": _keys_of(page, found),
            "sessions": _sessions_of(page, found) if may_change else [],
            "typed": found,
            **context,
        },
    )


def _is_self(page: PageContext, person: Mapping[str, Any]) -> bool:
    return bool(person["username"] == page.call.person.username)


def _may_change(page: PageContext, person: Mapping[str, Any], permissions: list[dict[str, Any]]) -> bool:
    """Whether the person on the page is above the other one, or is them: nobody else can change them."""
    if not page.may("people.update"):
        return False
    if _is_self(page, person) or page.is_superuser:
        return True
    return not person["superuser"] and {item["name"] for item in permissions} <= page.call.permissions


def _by_group(page: PageContext, effective: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """What somebody may do, by group of permissions, with where it comes from."""
    sources = {item["name"]: item for item in effective}
    grouped: dict[str, list[dict[str, Any]]] = {}
    for name, meaning in explained(page).items():
        if name in sources:
            grouped.setdefault(meaning["group"], []).append({**meaning, **sources[name]})
    return list(grouped.items())


def _keys_of(page: PageContext, person: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not page.may("api-keys.search"):
        return []
    query = {"owner": person["username"], "pageSize": str(_KEYS_SHOWN)}
    found: list[dict[str, Any]] = page.perform("api-keys.search", query=query)["items"]
    return found


def _sessions_of(page: PageContext, person: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.perform("people.list-sessions", id=person["id"], query={"pageSize": "20"})[
        "items"
    ]
    return [{**item, "client": client_name(item["userAgent"])} for item in found]


@console_page(get="people.read-scopes")
def scopes(page: PageContext, person_id: UUID) -> HttpResponseBase:
    """What the person is confined to. The names are asked of the directory, so this comes after the page."""
    return page.render("access/_person_scopes.html", page.perform("people.read-scopes", id=person_id))


@console_page(post="people.create")
def new(page: PageContext) -> HttpResponseBase:
    if page.request.method != "POST":
        page.perform("people.search", query={"pageSize": "1"})  # or refuse it to whom people are not shown
        return _new_page(page, {})
    if (preset := preset_of(page)) is not None:
        return _new_page(page, page.form, chosen=preset.permissions)
    members = ("username", "displayName", "email", "password", "permissions", "scopes")
    try:
        made = page.perform("people.create", body=body_of(page.request.POST, "people.create", *members))
    except GatewayError as refusal:
        return _new_page(page, page.form, problem=refusal)
    said = _("The account is made. Tell its owner the password in another way than its name.")
    return page.redirect("person", said=said, person_id=made["id"])


def _new_page(
    page: PageContext,
    typed: Mapping[str, str],
    problem: GatewayError | None = None,
    chosen: Collection[str] | None = None,
) -> HttpResponseBase:
    if chosen is None:
        chosen = page.request.POST.getlist("permissions")
    context = {
        "typed": typed,
        "choices": choices(page, chosen, for_role=False),
        "presets": PRESETS,
        "problem": problem,
    }
    return page.render("access/person_new.html", context)


@console_page(post="people.update")
def permissions(page: PageContext, person_id: UUID) -> HttpResponseBase:
    """The permissions given to a person directly, and the groups they are in."""
    found = page.perform("people.read", id=person_id)
    if page.request.method != "POST":
        return _permissions_page(page, found, found["permissions"], version=found["version"])
    scopes_typed = page.form.get("scopes", "")
    chosen, version = page.request.POST.getlist("permissions"), page.form.get("version", "")
    if (preset := preset_of(page)) is not None:
        return _permissions_page(page, found, sorted(preset.permissions), version=version, typed=scopes_typed)
    body: dict[str, Any] = {"permissions": chosen}
    if page.is_superuser and "has-groups" in page.form:
        body["groups"] = page.request.POST.getlist("groups")
    if _may_confine(page, found) and "has-scopes" in page.form:
        body["scopes"] = known_objects(lines_of(scopes_typed), found["scopeObjects"])
    try:
        page.answer("people.update", body=body, if_match=version, id=person_id)
    except GatewayError as refusal:
        return _permissions_page(page, found, chosen, version=version, typed=scopes_typed, problem=refusal)
    said = _("Saved. It holds for them and their keys from the next request on.")
    return page.redirect("person", said=said, person_id=person_id)


def _may_confine(page: PageContext, person: Mapping[str, Any]) -> bool:
    return not person["superuser"] and not _is_self(page, person)


def _permissions_page(
    page: PageContext,
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
        "choices": choices(page, chosen, for_role=False),
        "presets": PRESETS,
        "groups": all_of(page, "permission-groups.search") if page.is_superuser else [],
        "keys": _keys_of(page, person),
        "may_confine": _may_confine(page, person),
        "scopes": "\n".join(person["scopes"]) if typed is None else typed,
        "problem": problem,
    }
    return page.render("access/person_permissions.html", context)


@console_page("POST")
def change(page: PageContext, person_id: UUID) -> HttpResponseBase:
    """The names of a person, and where notices to them go."""
    typed = page.form
    body = {name: typed[name] for name in ("username", "displayName", "email") if name in typed}
    try:
        page.answer("people.update", body=body, if_match=typed.get("version"), id=person_id)
    except GatewayError as refusal:
        shown = {**page.perform("people.read", id=person_id), **typed}
        return _page(page, person_id, problem=refusal, typed=shown, opened="names")
    return page.redirect("person", said=_("Saved."), person_id=person_id)


def _show_password(page: PageContext, person_id: UUID, problem: GatewayError) -> HttpResponseBase:
    return _page(page, person_id, problem=problem, opened="password")


urls = [
    path("people/", people, name="people"),
    path("people/new", new, name="person-new"),
    path("people/<uuid:person_id>", person, name="person"),
    path("people/<uuid:person_id>/scopes", scopes, name="person-scopes"),
    path("people/<uuid:person_id>/permissions", permissions, name="person-permissions"),
    path("people/<uuid:person_id>/names", change, name="person-names"),
    button(
        "people/<uuid:person_id>/password",
        "person-password",
        "people.update",
        gettext_lazy("The password is set. They are signed out everywhere."),
        _show_password,
        to="person",
        body=lambda page: {"password": page.form.get("password", "")},
    ),
    button(
        "people/<uuid:person_id>/activate",
        "person-activate",
        "people.update",
        gettext_lazy("Active again, and with them their keys."),
        _page,
        to="person",
        body=lambda _page: {"active": True},
    ),
    button(
        "people/<uuid:person_id>/deactivate",
        "person-deactivate",
        "people.update",
        gettext_lazy("Deactivated, and with them all their keys."),
        _page,
        to="person",
        body=lambda _page: {"active": False},
    ),
    button(
        "people/<uuid:person_id>/sessions/end",
        "person-end-sessions",
        "people.end-sessions",
        gettext_lazy("They are signed out everywhere, and can sign in again."),
        _page,
        to="person",
    ),
    button(
        "people/<uuid:person_id>/second-factor/reset",
        "person-reset-second-factor",
        "people.reset-second-factor",
        gettext_lazy("The second factor is off. Their password alone signs them in until they set another one up."),
        _page,
        to="person",
    ),
    button(
        "people/<uuid:person_id>/delete",
        "person-delete",
        "people.delete",
        gettext_lazy("Deleted."),
        _page,
        to_list="people",
    ),
]
