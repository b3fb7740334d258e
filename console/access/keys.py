"""API keys: the list, a key with all there is to know about it, and what is done to it. New ones are `key_wizard`'s."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.access.permission_choices import explained
from console.page_context import PageContext, console_page
from console.shared.charts import chart_of_days
from console.shared.fields import lines_of, midnight_of
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
    problem = context.get("problem")
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
        status=problem.status if problem else 200,
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
    shown = {
        "name": found["name"],
        "role": found["role"],
        "expiresOn": (found["expiresAt"] or "")[:10],
        "addresses": "\n".join(found["allowedAddresses"]),
        "level": found["supervisionLevel"],
        "passwordsToRequester": found["passwordsToRequester"],
        "version": found["version"],
    }
    if page.request.method != "POST":
        return _edit_page(page, found, shown)
    typed = page.form
    body: dict[str, Any] = {
        "name": typed.get("name", ""),
        "role": typed.get("role") or found["role"],
        "allowedAddresses": lines_of(typed.get("addresses", "")),
        "supervisionLevel": typed.get("level", ""),
        "passwordsToRequester": "passwordsToRequester" in typed,
    }
    if typed.get("expiresOn", "") != shown["expiresOn"]:  # a day is less than the moment that is kept
        body["expiresAt"] = midnight_of(typed.get("expiresOn", ""))
    try:
        page.answer("api-keys.update", body=body, if_match=typed.get("version"), id=key_id)
    except GatewayError as refusal:
        return _edit_page(page, found, typed, problem=refusal)
    messages.success(page.request, _("Saved. It holds from the key's next request on."))
    return page.redirect("key", key_id=key_id)


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
    return page.render("access/key_edit.html", context, status=problem.status if problem else 200)


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


@console_page("POST")
def revoke(page: PageContext, key_id: UUID) -> HttpResponseBase:
    return _done(page, key_id, "api-keys.revoke", _("Revoked. Every request with it is refused from now on."))


@console_page("POST")
def delete(page: PageContext, key_id: UUID) -> HttpResponseBase:
    try:
        page.perform("api-keys.delete", id=key_id)
    except GatewayError as refusal:
        return _page(page, key_id, problem=refusal)
    messages.success(page.request, _("Deleted. What it did is still in the operations log."))
    return page.redirect("keys")


@console_page("POST")
def link(page: PageContext, key_id: UUID) -> HttpResponseBase:
    body = {"directory": page.form.get("directory", "")}
    return _done(page, key_id, "api-keys.create-link", _("Linked. The integration sends the Client ID."), body=body)


@console_page("POST")
def unlink(page: PageContext, key_id: UUID, client_id: UUID) -> HttpResponseBase:
    message = _("The link is removed. The key can no longer reach that directory.")
    return _done(page, key_id, "api-keys.delete-link", message, clientId=client_id)


def _done(page: PageContext, key_id: UUID, operation: str, message: str, **inputs: Any) -> HttpResponseBase:
    """Change the key and go back to its page, saying so."""
    try:
        page.perform(operation, id=key_id, **inputs)
    except GatewayError as refusal:
        return _page(page, key_id, problem=refusal)
    messages.success(page.request, message)
    return page.redirect("key", key_id=key_id)


urls = [
    path("keys/", keys, name="keys"),
    path("keys/<uuid:key_id>", key, name="key"),
    path("keys/<uuid:key_id>/permissions", permissions, name="key-permissions"),
    path("keys/<uuid:key_id>/use", use, name="key-use"),
    path("keys/<uuid:key_id>/edit", edit, name="key-edit"),
    path("keys/<uuid:key_id>/rotate", rotate, name="key-rotate"),
    path("keys/<uuid:key_id>/value", value, name="key-value"),
    path("keys/<uuid:key_id>/revoke", revoke, name="key-revoke"),
    path("keys/<uuid:key_id>/delete", delete, name="key-delete"),
    path("keys/<uuid:key_id>/links", link, name="key-link"),
    path("keys/<uuid:key_id>/links/<uuid:client_id>/remove", unlink, name="key-unlink"),
]
