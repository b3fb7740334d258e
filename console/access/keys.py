"""API keys: the list, a key with all there is to know about it, and what is done to it. New ones are `key_wizard`'s."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.access.bodies import changed_body, fields_of
from console.access.buttons import button
from console.access.permission_choices import explained
from console.page_context import PageContext, console_page
from console.shared.charts import chart_of_days
from core import shown_once
from core.errors import GatewayError
from keys.models import Level

GRACES = (
    (0, gettext_lazy("no time: it ends now")),
    (3600, gettext_lazy("an hour")),
    (86400, gettext_lazy("a day")),
    (604800, gettext_lazy("a week")),
    (2592000, gettext_lazy("30 days")),
)
"""For how long the value before a rotation may stay valid, in seconds."""
_RECORDS_SHOWN = 8


@console_page(get="api-keys.search")
def keys(page: PageContext) -> HttpResponseBase:
    found = page.perform("api-keys.search", query={"pageSize": "50", **page.query})
    return page.render(
        "access/keys.html",
        {
            "found": found,
            "due": page.perform("api-keys.list-due"),
            "roles": all_of(page, "roles.search"),
            "states": (("active", _("Active")), ("expired", _("Expired")), ("revoked", _("Revoked"))),
        },
    )


def all_of(page: PageContext, operation: str, **query: str) -> list[dict[str, Any]]:
    """Everything that there is to choose from, as far as the person may see it."""
    if not page.may(operation):
        return []
    found: list[dict[str, Any]] = []
    query = {"pageSize": "1000", **query}
    while True:
        part = page.perform(operation, query=query)
        found += part["items"]
        if part["nextCursor"] is None:
            return found
        query["cursor"] = part["nextCursor"]


@console_page(get="api-keys.read")
def key(page: PageContext, key_id: UUID) -> HttpResponseBase:
    return _page(page, key_id)


def _page(page: PageContext, key_id: UUID, **context: Any) -> HttpResponseBase:
    found = page.perform("api-keys.read", id=key_id)
    linked = {link["directory"] for link in found["links"]}
    return page.render(
        "access/key.html",
        {
            "key": found,
            "level": Level(found["supervisionLevel"]),
            "may_change": may_change(page, found),
            "graces": GRACES,
            "linkable": [item for item in directories(page) if item["id"] not in linked],
            **context,
        },
    )


def may_change(page: PageContext, key: Mapping[str, Any]) -> bool:
    """Whether the person may make the key say something new: one of their own, or any as a superuser."""
    own = key["owner"] == page.call.person.username
    return key["state"] != "revoked" and page.may("api-keys.update") and (own or page.is_superuser)


def directories(page: PageContext) -> list[dict[str, Any]]:
    """The enabled directories that a key can be linked to: all for whoever sees all, else those the person works on."""
    if page.may("directories.list"):
        return [item for item in all_of(page, "directories.list") if item["enabled"]]
    return [{"id": str(item.id), "name": item.name} for item in page.directories]


@console_page(get="api-keys.read-effective-permissions")
def permissions(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """What the key may do now. Its scopes' names are asked of the directory, so it comes after the page."""
    effective = page.perform("api-keys.read-effective-permissions", id=key_id)
    meanings = explained(page)
    rows = [{**meanings[item["name"]], **item} for item in effective["permissions"]]
    rows.sort(key=lambda row: list(meanings).index(row["name"]))
    return page.render(
        "access/_key_permissions.html",
        {
            "key": page.perform("api-keys.read", id=key_id),
            "allowed": [row for row in rows if row["missing"] is None],
            "owner_lacks": [row for row in rows if row["missing"] == "owner"],
            "role_lacks": [row for row in rows if row["missing"] == "role"],
            "scopes": effective["scopes"],
            "owner_scopes": effective["ownerScopes"],
        },
    )


@console_page(get="api-keys.read-usage")
def use(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """How much the key is used, and its newest records for whoever may read the log."""
    found = page.perform("api-keys.read", id=key_id)
    usage = page.perform("api-keys.read-usage", id=key_id)
    records = []
    if page.may("operations.search"):
        query = {"keyName": found["name"], "owner": found["owner"], "pageSize": str(_RECORDS_SHOWN)}
        records = page.perform("operations.search", query=query)["items"]
    return page.render("access/_key_use.html", {"key": found, "days": chart_of_days(usage["days"]), "records": records})


@console_page(post="api-keys.update")
def edit(page: PageContext, key_id: UUID) -> HttpResponseBase:
    found = page.perform("api-keys.read", id=key_id)
    if page.request.method != "POST":
        return _edit_page(page, found, {**fields_of(found, "api-keys.update"), "version": found["version"]})
    body = changed_body(page.request.POST, "api-keys.update", found)
    try:
        page.answer("api-keys.update", body=body, if_match=page.form.get("version"), id=key_id)
    except GatewayError as refusal:
        return _edit_page(page, found, page.form, problem=refusal)
    return page.redirect("key", said=_("Saved. It holds from the key's next request on."), key_id=key_id)


def _edit_page(
    page: PageContext, found: Mapping[str, Any], typed: Mapping[str, str], problem: GatewayError | None = None
) -> HttpResponseBase:
    context = {
        "key": found,
        "typed": typed,
        "roles": all_of(page, "roles.search"),
        "levels": Level,
        "own_address": page.call.client_address,
        "problem": problem,
    }
    return page.render("access/key_edit.html", context)


@console_page(post="api-keys.rotate")
def rotate(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """Make a new value, and go on to the page that shows it once."""
    if page.request.method != "POST":
        return page.redirect("key", key_id=key_id)
    grace = page.form.get("grace", "")
    try:
        body = {"graceSeconds": int(grace) if grace.isdecimal() else grace}
        rotated = page.perform("api-keys.rotate", body=body, id=key_id)
    except GatewayError as refusal:
        return _page(page, key_id, problem=refusal)
    shown = {"template": "key_rotated", "value": rotated["value"], "until": rotated["previousValidUntil"]}
    return page.redirect_showing(shown, "key-value", key_id=key_id)


@console_page(get="api-keys.read")
def value(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """The value of a key that was just made or rotated, once."""
    key = page.perform("api-keys.read", id=key_id)
    client_id = key["links"][0]["clientId"] if key["links"] else None
    place = "/api/ad/users?pageSize=1" if client_id else "/api/me"
    context = {
        "key": key,
        "client_id": client_id,
        "example_address": page.request.build_absolute_uri(place),
        "own_address": page.call.client_address,
    }
    shown = shown_once.take(page.request) or {"template": "key_value_gone"}
    return page.render(f"access/{shown['template']}.html", {**context, **shown})


urls = [
    path("keys/", keys, name="keys"),
    path("keys/<uuid:key_id>", key, name="key"),
    path("keys/<uuid:key_id>/permissions", permissions, name="key-permissions"),
    path("keys/<uuid:key_id>/use", use, name="key-use"),
    path("keys/<uuid:key_id>/edit", edit, name="key-edit"),
    path("keys/<uuid:key_id>/rotate", rotate, name="key-rotate"),
    path("keys/<uuid:key_id>/value", value, name="key-value"),
    button(
        "keys/<uuid:key_id>/revoke",
        "key-revoke",
        "api-keys.revoke",
        gettext_lazy("Revoked. Every request with it is refused from now on."),
        _page,
        to="key",
    ),
    button(
        "keys/<uuid:key_id>/delete",
        "key-delete",
        "api-keys.delete",
        gettext_lazy("Deleted. What it did is still in the operations log."),
        _page,
        to_list="keys",
    ),
    button(
        "keys/<uuid:key_id>/links",
        "key-link",
        "api-keys.create-link",
        gettext_lazy("Linked. The integration sends the Client ID."),
        _page,
        to="key",
        body=lambda page: {"directory": page.form.get("directory", "")},
    ),
    button(
        "keys/<uuid:key_id>/links/<uuid:client_id>/remove",
        "key-unlink",
        "api-keys.delete-link",
        gettext_lazy("The link is removed. The key can no longer reach that directory."),
        _page,
        to="key",
    ),
]
