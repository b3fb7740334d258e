"""Directory connections: how the gateway reaches each directory, a test of it, and which keys use it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.access.bodies import body_of, fields_of
from console.access.buttons import button
from console.page_context import PageContext, console_page
from core.errors import GatewayError, InvalidRequest
from directory.errors import ObjectNotFound
from directory.queries.connection_test import functional_level_name
from directory.security.needed_rights import NEEDED_RIGHTS, NeededRights, account_name

_KEYS_SHOWN = 50


@console_page(get="directories.list")
def connections(page: PageContext) -> HttpResponseBase:
    found = page.perform("directories.list", query={"pageSize": "50", **page.query})
    return page.render("access/connections.html", {"found": found})


@console_page(get="directories.list")
def states(page: PageContext) -> HttpResponseBase:
    """Which connections work, after the page: one that does not answer is waited for some seconds."""
    found = page.perform("directories.list", query={"pageSize": "50", **page.query})["items"]
    broken = _broken(page)
    rows = [(item, broken.get(item["name"])) for item in found]
    return page.render("access/_connection_states.html", {"rows": rows})


def _broken(page: PageContext) -> dict[str, str]:
    """What is wrong with connections that are enabled, by name."""
    checks = page.perform("health.read")["checks"]
    return {check["name"].removeprefix("directory "): check["detail"] for check in checks if check["detail"]}


@console_page(get="directories.read")
def connection(page: PageContext, connection_id: UUID) -> HttpResponseBase:
    return _page(page, connection_id)


def _page(page: PageContext, connection_id: UUID, **context: Any) -> HttpResponseBase:
    found = page.perform("directories.read", id=connection_id)
    linked: dict[str, Any] = {"items": [], "total": 0}
    if page.may("api-keys.search"):
        query = {"directory": found["id"], "state": "active", "pageSize": str(_KEYS_SHOWN)}
        linked = page.perform("api-keys.search", query=query)
    shown = {
        "connection": found,
        "keys": linked["items"],
        "key_count": linked["total"],
        "needed": needed_rights(found["bindDn"], found["baseDn"]),
        **context,
    }
    return page.render("access/connection.html", shown)


@console_page("POST")
def rights(page: PageContext, connection_id: UUID) -> HttpResponseBase:
    """What the account may do at a base beside what it needs there."""
    base = page.form.get("base", "").strip()
    try:
        found = page.perform("directories.rights", query={"base": base} if base else {}, id=connection_id)
    except ObjectNotFound as refusal:
        if page.is_partial:
            raise
        return _page(page, connection_id, base=base, problem=refusal)
    context = {
        "rights": found,
        "rights_used": [item for item in found["permissions"] if item["usedBy"]],
        "rights_unused": [item for item in found["permissions"] if not item["usedBy"]],
    }
    if page.is_partial:
        return page.render("access/_rights.html", context)
    return _page(page, connection_id, base=base, **context)


def needed_rights(bind_name: str, base_dn: str) -> list[tuple[NeededRights, list[str]]]:
    """What the account needs for each task, with the commands that give it."""
    account = account_name(bind_name)
    return [(needed, needed.commands(account=account, base_dn=base_dn)) for needed in NEEDED_RIGHTS]


@console_page(post="directories.create")
def new(page: PageContext) -> HttpResponseBase:
    if page.request.method != "POST":
        page.perform("directories.list", query={"pageSize": "1"})  # or refuse it to whom they are not shown
        return _form(page, None, {"enabled": True})
    try:
        made, report = make_tested(page)
    except GatewayError as refusal:
        return _form(page, None, sent(page), problem=refusal)
    if made is None:
        shown = {"connection": None, "typed": sent(page), "is_new": True, **context_of_report(report)}
        return page.render("access/connection_edit.html", shown, status=InvalidRequest.status)
    return page.redirect("connection", said=_("The connection is made."), connection_id=made["id"])


def make_tested(page: PageContext) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Try the connection that the form describes, and make it if it works, or if it is wanted `anyway`.

    What was made, None when the test failed, and the test's report, empty when there was none. Raises GatewayError.
    """
    body, report = _body(page), {}
    if "anyway" not in page.form:
        report = page.perform("directories.test-new", body=body)
        if not report["ok"]:
            return None, report
    made: dict[str, Any] = page.perform("directories.create", body=body)
    return made, report


def context_of_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """What templates say of the report of a test."""
    return {"report": report, "functional_level": functional_level_name(report["functionalLevel"])}


@console_page("POST")
def test_new(page: PageContext) -> HttpResponseBase:
    """What a test of the fields reaches; the form stays as it is, the password in it too."""
    try:
        report = page.perform("directories.test-new", body=_body(page))
    except GatewayError as refusal:
        if page.is_partial:
            raise
        return _form(page, None, sent(page), problem=refusal)
    if page.is_partial:
        return page.render("access/_connection_test.html", context_of_report(report))
    return _form(page, None, sent(page), **context_of_report(report))


@console_page(post="directories.update")
def edit(page: PageContext, connection_id: UUID) -> HttpResponseBase:
    found = page.perform("directories.read", id=connection_id)
    if page.request.method != "POST":
        return _form(page, found, {**fields_of(found, "directories.update"), "version": found["version"]})
    try:
        page.answer("directories.update", body=_body(page), if_match=page.form.get("version"), id=connection_id)
    except GatewayError as refusal:
        return _form(page, found, sent(page), problem=refusal)
    said = _("Saved. Every process uses the new settings from its next request on. Test them.")
    return page.redirect("connection", said=said, connection_id=connection_id)


def _body(page: PageContext) -> dict[str, Any]:
    """The body of `directories.create` and `directories.update`. A password that is left empty stays as it is."""
    body = body_of(page.request.POST, "directories.create")
    return body if body["bindPassword"] else {name: body[name] for name in body if name != "bindPassword"}


def sent(page: PageContext) -> dict[str, Any]:
    """The fields as they were sent, to be shown again; never the password."""
    return {name: value for name, value in page.form.items() if name != "bindPassword"}


def _form(
    page: PageContext,
    connection: Mapping[str, Any] | None,
    typed: Mapping[str, Any],
    **context: Any,
) -> HttpResponseBase:
    return page.render("access/connection_edit.html", {"connection": connection, "typed": typed, **context})


@console_page("POST")
def test(page: PageContext, connection_id: UUID) -> HttpResponseBase:
    """What a test of the connection reaches."""
    report = page.perform("directories.test", id=connection_id)
    if page.is_partial:
        return page.render("access/_connection_test.html", context_of_report(report))
    return _page(page, connection_id, **context_of_report(report))


urls = [
    path("connections/", connections, name="connections"),
    path("connections/states", states, name="connection-states"),
    path("connections/new", new, name="connection-new"),
    path("connections/new/test", test_new, name="connection-new-test"),
    path("connections/<uuid:connection_id>", connection, name="connection"),
    path("connections/<uuid:connection_id>/edit", edit, name="connection-edit"),
    path("connections/<uuid:connection_id>/test", test, name="connection-test"),
    path("connections/<uuid:connection_id>/rights", rights, name="connection-rights"),
    button(
        "connections/<uuid:connection_id>/enable",
        "connection-enable",
        "directories.update",
        gettext_lazy("Enabled."),
        _page,
        to="connection",
        body=lambda _page: {"enabled": True},
    ),
    button(
        "connections/<uuid:connection_id>/disable",
        "connection-disable",
        "directories.update",
        gettext_lazy("Disabled. Nobody reaches the directory through it now."),
        _page,
        to="connection",
        body=lambda _page: {"enabled": False},
    ),
    button(
        "connections/<uuid:connection_id>/rotate-password",
        "connection-rotate-password",
        "directories.rotate-password",
        gettext_lazy("The account has a new password, which nobody knows. Test the connection."),
        _page,
        to="connection",
    ),
    button(
        "connections/<uuid:connection_id>/delete",
        "connection-delete",
        "directories.delete",
        gettext_lazy("The connection is deleted."),
        _page,
        to_list="connections",
    ),
]
