"""People: their permissions and where these come from, their keys and sessions; permission groups."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from approvals.review.deciders import find_deciders_for
from console.page_context import PageContext, page_at
from console.shared.forms import (
    body_from_form,
    chosen_permissions,
    declare_button,
    keep_known_ids,
    permission_choices,
    permissions_by_group,
    split_lines,
    submit,
)
from console.shared.wording import client_name
from core import shown_once
from keys.models import Person
from keys.permission_catalogue import PRESETS, find_preset

_KEYS_SHOWN = 50


@page_at("people/", "people", get="people.search")
def people(page: PageContext) -> HttpResponseBase:
    found = page.list_page("people.search")
    return page.render("access/people.html", {"found": found})


@page_at("people/<uuid:person_id>", "person", get="people.read")
def person(page: PageContext, person_id: UUID) -> HttpResponseBase:
    found = page.perform("people.read", id=person_id)
    effective = page.perform("people.read-effective-permissions", id=person_id)["permissions"]
    sources = {item["name"]: item for item in effective}
    may_change = _may_change(page, found, sources)
    sessions: list[dict[str, Any]] = []
    if may_change:
        sessions = page.perform("people.list-sessions", id=person_id, query={"pageSize": "20"})["items"]
    return page.render(
        "access/person.html",
        {
            "person": found,
            "is_self": _is_self(page, found),
            "may_change": may_change,
            "permissions": permissions_by_group(sources, sources),
            "permission_count": len(effective),
            "deciders": _deciders_of(page, person_id) if may_change and found["active"] else None,
            "keys": _keys_of(page, found),
            "sessions": [{**item, "client": client_name(item["userAgent"])} for item in sessions],
            "typed": {**found, **page.form},
            "invitation_link": shown_once.take(page.request),
        },
    )


def _deciders_of(page: PageContext, person_id: UUID) -> list[str]:
    """Who could decide what a key of this person asks for, if the reader issued it now."""
    return find_deciders_for(Person.objects.get(public_id=person_id).pk, excluding=page.person.pk)


def _is_self(page: PageContext, person: Mapping[str, Any]) -> bool:
    return bool(person["username"] == page.person.username)


def _may_change(page: PageContext, person: Mapping[str, Any], permissions: Collection[str]) -> bool:
    """Whether the signed-in person may change another: only one whose permissions they all hold, or themselves."""
    if not page.may("people.update"):
        return False
    if _is_self(page, person) or page.is_superuser:
        return True
    return not person["superuser"] and page.call.permissions.issuperset(permissions)


def _keys_of(page: PageContext, person: Mapping[str, Any]) -> list[dict[str, Any]]:
    return page.list_first("api-keys.search", _KEYS_SHOWN, owner=person["username"])


@page_at("people/<uuid:person_id>/scopes", "person-scopes", get="people.read-scopes")
def scopes(page: PageContext, person_id: UUID) -> HttpResponseBase:
    """The person's scopes. It reads their names from the directory, so it loads after the page."""
    return page.render("access/_person_scopes.html", page.perform("people.read-scopes", id=person_id))


def _new_form(page: PageContext) -> HttpResponseBase:
    page.perform("people.search", query={"pageSize": "1"})  # refuses people who may not see others
    context = {
        "typed": page.form,
        "choices": permission_choices(page, chosen_permissions(page)),
        "presets": PRESETS,
    }
    return page.render("access/person_new.html", context)


@page_at("people/new", "person-new", post="people.create", form=_new_form)
def new(page: PageContext) -> HttpResponseBase:
    made = submit(page, "people.create", "username", "displayName", "email", "permissions", "scopes")
    return show_invitation(page, made, "person", person_id=made["id"])


def show_invitation(page: PageContext, answer: Mapping[str, Any], view: str, **arguments: Any) -> HttpResponseBase:
    """Redirect to a page that shows the link of an invitation once, or says that it was mailed."""
    if answer["invitationLink"] is None:
        message = _("They are sent an e-mail with a link, with which they choose how they sign in.")
        return page.redirect(view, message=message, **arguments)
    return page.redirect_showing(page.request.build_absolute_uri(answer["invitationLink"]), view, **arguments)


def _prepare_form(page: PageContext) -> HttpResponseBase:
    page.perform("people.search", query={"pageSize": "1"})  # refuses people who may not see others
    name, found = page.query["q"], []
    if name and page.call.directory:
        found = page.perform("users.search", query={"q": name, "pageSize": "20"})["items"]
    return page.render("access/person_prepare.html", {"name": name, "found": found})


@page_at("people/prepare", "person-prepare", post="people.prepare", form=_prepare_form)
def prepare(page: PageContext) -> HttpResponseBase:
    """Choose somebody of the directory who has not signed in yet, and go on to what they may do."""
    directory = page.call.directory
    body = {"directory": str(directory.id) if directory else "", "account": page.form["account"]}
    made = page.perform("people.prepare", body=body)
    message = _("{name} is prepared. What may they do?").format(name=made["displayName"] or made["username"])
    return page.redirect("person-permissions", message=message, person_id=made["id"])


def _permissions_form(page: PageContext, person_id: UUID) -> HttpResponseBase:
    person = page.perform("people.read", id=person_id)
    typed = person
    if page.is_post:
        scopes, version = split_lines(page.form["scopes"]), page.form["version"]
        typed = {"permissions": chosen_permissions(page), "scopes": scopes, "version": version}
    context = {
        "person": person,
        "typed": typed,
        "choices": permission_choices(page, typed["permissions"]),
        "presets": PRESETS,
        "groups": page.list_all("permission-groups.search") if page.is_superuser else [],
        "keys": _keys_of(page, person),
        "may_confine": _may_confine(page, person),
    }
    return page.render("access/person_permissions.html", context)


def _may_confine(page: PageContext, person: Mapping[str, Any]) -> bool:
    """Superusers could remove their scopes again, and nobody may change their own."""
    return not person["superuser"] and not _is_self(page, person)


@page_at("people/<uuid:person_id>/permissions", "person-permissions", post="people.update", form=_permissions_form)
def permissions(page: PageContext, person_id: UUID) -> HttpResponseBase:
    """Change a person's direct permissions, their groups and scopes."""
    found, form = page.perform("people.read", id=person_id), page.request.POST
    body: dict[str, Any] = {"permissions": form.getlist("permissions")}
    # Unticked boxes are not sent: the `has-…` fields distinguish an empty choice from a form without one.
    if page.is_superuser and "has-groups" in form:
        body["groups"] = form.getlist("groups")
    if _may_confine(page, found) and "has-scopes" in form:
        body["scopes"] = keep_known_ids(split_lines(form.get("scopes", "")), found["scopeObjects"])
    page.perform("people.update", body=body, if_match=form.get("version", ""), id=person_id)
    message = _("Saved. It applies to them and their keys from the next request on.")
    return page.redirect("person", message=message, person_id=person_id)


@page_at("people/<uuid:person_id>/names", "person-names", "POST", form=person)
def change(page: PageContext, person_id: UUID) -> HttpResponseBase:
    """Change a person's user name, display name and e-mail address."""
    body = {name: page.form[name] for name in ("username", "displayName", "email") if name in page.form}
    page.perform("people.update", body=body, if_match=page.form["version"], id=person_id)
    return page.redirect("person", message=_("Saved."), person_id=person_id)


@page_at("people/<uuid:person_id>/invite", "person-invite", "POST", post="people.invite", form=person)
def invite(page: PageContext, person_id: UUID) -> HttpResponseBase:
    return show_invitation(page, page.perform("people.invite", id=person_id), "person", person_id=person_id)


declare_button(
    *("people/<uuid:person_id>/activate", "person-activate", "people.update"),
    "Active again, and with them their keys.",
    person,
    to="person",
    body={"active": True},
)
declare_button(
    *("people/<uuid:person_id>/deactivate", "person-deactivate", "people.update"),
    "Deactivated, and with them all their keys.",
    person,
    to="person",
    body={"active": False},
)
declare_button(
    *("people/<uuid:person_id>/sessions/end", "person-end-sessions", "people.end-sessions"),
    "They are signed out everywhere, and can sign in again.",
    person,
    to="person",
)
declare_button(
    *("people/<uuid:person_id>/second-factor/reset", "person-reset-second-factor", "people.reset-second-factor"),
    "The second factor is off. Their password alone signs them in until they set another one up.",
    person,
    to="person",
)
declare_button(
    *("people/<uuid:person_id>/delete", "person-delete", "people.delete"),
    "Deleted.",
    person,
    to_list="people",
)


# --- permission groups

_EMPTY_GROUP: Mapping[str, Any] = {"scopeObjects": [], "directoryGroups": []}


def _typed_group(page: PageContext) -> dict[str, Any]:
    """The submitted fields; `mapped` are the lines of each directory's text area."""
    return {
        **body_from_form(page.request.POST, "permission-groups.create", "name", "scopes"),
        "permissions": chosen_permissions(page),
        "mapped": {str(item.id): split_lines(page.form[f"groups-of-{item.id}"]) for item in page.directories},
        "version": page.form["version"],
    }


def _group_fields(group: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an existing group."""
    mapped: dict[str, list[str]] = defaultdict(list)
    for item in group["directoryGroups"]:
        mapped[item["directory"]].append(item["distinguishedName"])
    return {**group, "mapped": mapped}


def _group_body(typed: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    """The body of `permission-groups.create` and `.update`; `group` is the present state.

    Untouched names keep the ids of their objects. Mapped groups of directories that the person may not use have no
    field and are kept.
    """
    kept = [item for item in group["directoryGroups"] if item["directory"] not in typed["mapped"]]
    mapped = [{"directory": item["directory"], "group": item["id"]} for item in kept]
    for directory, names in typed["mapped"].items():
        known = [item for item in group["directoryGroups"] if item["directory"] == directory]
        mapped += [{"directory": directory, "group": each} for each in keep_known_ids(names, known)]
    return {
        "name": typed["name"],
        "permissions": typed["permissions"],
        "scopes": keep_known_ids(typed["scopes"], group["scopeObjects"]),
        "directoryGroups": mapped,
    }


@page_at("people/groups", "permission-groups", get="permission-groups.search")
def groups(page: PageContext) -> HttpResponseBase:
    found = page.perform("permission-groups.search", query={"pageSize": "100", **page.query})
    return page.render("access/permission_groups.html", {"found": found})


def _group_form(page: PageContext, group_id: UUID | None = None) -> HttpResponseBase:
    if group_id is None:
        page.perform("permission-groups.search", query={"pageSize": "1"})  # refuses people who may not see groups
        group = None
    else:
        group = page.perform("permission-groups.read", id=group_id)
    typed = _typed_group(page) if "version" in page.form or not group else _group_fields(group)
    if preset := find_preset(page.form["preset"]):
        typed["name"] = typed["name"] or _(preset.title)
    context = {
        "group": group,
        "typed": typed,
        "directories": [(item, typed["mapped"].get(str(item.id), ())) for item in page.directories],
        "choices": permission_choices(page, typed["permissions"]),
        "presets": PRESETS,
    }
    return page.render("access/permission_group.html", context)


@page_at("people/groups/new", "permission-group-new", post="permission-groups.create", form=_group_form)
def new_group(page: PageContext) -> HttpResponseBase:
    made = page.perform("permission-groups.create", body=_group_body(_typed_group(page), _EMPTY_GROUP))
    message = _("{name} was created. People are added to it on their own pages.").format(name=made["name"])
    return page.redirect("permission-groups", message=message)


@page_at("people/groups/<uuid:group_id>", "permission-group", post="permission-groups.update", form=_group_form)
def group(page: PageContext, group_id: UUID) -> HttpResponseBase:
    body = _group_body(_typed_group(page), page.perform("permission-groups.read", id=group_id))
    page.perform("permission-groups.update", body=body, if_match=page.form["version"], id=group_id)
    return page.redirect("permission-groups", message=_("Saved. It applies to all members from their next request on."))


declare_button(
    *("people/groups/<uuid:group_id>/delete", "permission-group-delete", "permission-groups.delete"),
    "The group is deleted. Its members keep what they were given otherwise.",
    _group_form,
    to_list="permission-groups",
)
