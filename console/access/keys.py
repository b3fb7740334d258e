"""API keys: the list, the page of a key and its actions. `key_wizard` creates keys."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.page_context import PageContext, page_at
from console.shared.charts import daily_chart
from console.shared.forms import changed_body, declare_button, form_values, permissions_by_name
from core import shown_once
from core.text.vocabulary import texts_by_name
from keys.models import Level

_GRACES = texts_by_name(
    {0: "no time: it ends now", 3600: "an hour", 86400: "a day", 604800: "a week", 2592000: "30 days"}
)
"""Seconds for which the old value stays valid after a rotation."""
_STATES = texts_by_name({"active": "Active", "expired": "Expired", "revoked": "Revoked"})
_RECORDS_SHOWN = 8


@page_at("keys/", "keys", get="api-keys.search")
def keys(page: PageContext) -> HttpResponseBase:
    found = page.list_page("api-keys.search")
    return page.render(
        "access/keys.html",
        {
            "found": found,
            "due": page.perform("api-keys.list-due"),
            "roles": page.list_all("roles.search"),
            "states": _STATES,
        },
    )


@page_at("keys/<uuid:key_id>", "key", get="api-keys.read")
def key(page: PageContext, /, key_id: UUID, **_link: UUID) -> HttpResponseBase:
    found = page.perform("api-keys.read", id=key_id)
    linked = {link["directory"] for link in found["links"]}
    return page.render(
        "access/key.html",
        {
            "key": found,
            "level": Level(found["supervisionLevel"]),
            "may_change": may_change(page, found),
            "graces": _GRACES,
            "linkable": [item for item in directories(page) if item["id"] not in linked],
        },
    )


def may_change(page: PageContext, key: Mapping[str, Any]) -> bool:
    """Whether the person may change the key: people change their own keys, superusers all."""
    own = key["owner"] == page.person.username
    return key["state"] != "revoked" and page.may("api-keys.update") and (own or page.is_superuser)


def directories(page: PageContext) -> list[dict[str, Any]]:
    """The enabled directories to link a key to: all if the person may see them, else those the person may use."""
    if page.may("directories.list"):
        return [item for item in page.list_all("directories.list") if item["enabled"]]
    return [{"id": str(item.id), "name": item.name} for item in page.directories]


@page_at("keys/<uuid:key_id>/permissions", "key-permissions", get="api-keys.read-effective-permissions")
def permissions(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """What the key may do now. It reads the scopes' names from the directory, so it loads after the page."""
    effective = page.perform("api-keys.read-effective-permissions", id=key_id)
    found = {item["name"]: item for item in effective["permissions"]}
    rows = [{**meaning, **found[name]} for name, meaning in permissions_by_name().items() if name in found]
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


@page_at("keys/<uuid:key_id>/use", "key-use", get="api-keys.read-usage")
def use(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """How much the key is used, with its newest log records if the person may read the log."""
    found = page.perform("api-keys.read", id=key_id)
    usage = page.perform("api-keys.read-usage", id=key_id)
    records = page.list_first("operations.search", _RECORDS_SHOWN, keyName=found["name"], owner=found["owner"])
    context = {"key": found, "days": daily_chart(usage["days"]), "records": records, "budgets": usage["budgets"]}
    return page.render("access/_key_use.html", context)


def _edit_form(page: PageContext, key_id: UUID) -> HttpResponseBase:
    found = page.perform("api-keys.read", id=key_id)
    shown = {**form_values(found, "api-keys.update"), "version": found["version"]}
    context = {
        "key": found,
        "typed": page.form if page.is_post else shown,
        "roles": page.list_all("roles.search"),
        "levels": Level,
        "own_address": page.call.client_address,
    }
    return page.render("access/key_edit.html", context)


@page_at("keys/<uuid:key_id>/edit", "key-edit", post="api-keys.update", form=_edit_form)
def edit(page: PageContext, key_id: UUID) -> HttpResponseBase:
    body = changed_body(page.request.POST, "api-keys.update", page.perform("api-keys.read", id=key_id))
    page.perform("api-keys.update", body=body, if_match=page.form["version"], id=key_id)
    return page.redirect("key", message=_("Saved. It applies from the key's next request on."), key_id=key_id)


def _refused_rotation(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """The key's page. A person who had to sign in first arrives here by GET, and is redirected."""
    return key(page, key_id) if page.problem else page.redirect("key", key_id=key_id)


@page_at("keys/<uuid:key_id>/rotate", "key-rotate", post="api-keys.rotate", form=_refused_rotation)
def rotate(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """Generate a new value and redirect to the page that shows it once."""
    grace = page.form["grace"]
    body = {"graceSeconds": int(grace) if grace.isdecimal() else grace}
    rotated = page.perform("api-keys.rotate", body=body, id=key_id)
    shown = {"template": "key_rotated", "value": rotated["value"], "until": rotated["previousValidUntil"]}
    return page.redirect_showing(shown, "key-value", key_id=key_id)


@page_at("keys/<uuid:key_id>/value", "key-value", get="api-keys.read")
def value(page: PageContext, key_id: UUID) -> HttpResponseBase:
    """The value of a key that was just created or rotated, shown once."""
    key = page.perform("api-keys.read", id=key_id)
    client_id = key["links"][0]["clientId"] if key["links"] else None
    example_path = "/api/ad/users?pageSize=1" if client_id else "/api/me"
    context = {
        "key": key,
        "client_id": client_id,
        "example_address": page.request.build_absolute_uri(example_path),
        "own_address": page.call.client_address,
    }
    shown = shown_once.take(page.request) or {"template": "key_value_gone"}
    return page.render(f"access/{shown['template']}.html", {**context, **shown})


declare_button(
    *("keys/<uuid:key_id>/revoke", "key-revoke", "api-keys.revoke"),
    "Revoked. Every request with it is refused from now on.",
    key,
    to="key",
)
declare_button(
    *("keys/<uuid:key_id>/delete", "key-delete", "api-keys.delete"),
    "Deleted. What it did is still in the operations log.",
    key,
    to_list="keys",
)
declare_button(
    *("keys/<uuid:key_id>/links", "key-link", "api-keys.create-link"),
    "Linked. The integration sends the Client ID.",
    key,
    to="key",
    sends="directory",
)
declare_button(
    *("keys/<uuid:key_id>/links/<uuid:client_id>/remove", "key-unlink", "api-keys.delete-link"),
    "The link is removed. The key can no longer reach that directory.",
    key,
    to="key",
)
