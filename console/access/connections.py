"""Directory connections: how the gateway reaches each directory, tests, the bind account's rights, linked keys."""

from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.page_context import PageContext, page_at
from console.shared.forms import body_from_form, declare_button, form_values
from core.errors import GatewayError, InvalidRequest
from directory.errors import ObjectNotFound
from directory.queries.connection_test import functional_level_name
from directory.security.grants import account_name, dsacls_lines
from directory.security.needed_rights import NEEDED_RIGHTS, NeededRights

_KEYS_SHOWN = 50


@page_at("connections/", "connections", get="directories.list")
def connections(page: PageContext) -> HttpResponseBase:
    found = page.list_page("directories.list")
    return page.render("access/connections.html", {"found": found})


@page_at("connections/states", "connection-states", get="directories.list")
def states(page: PageContext) -> HttpResponseBase:
    """Which connections work. It loads after the page: an unreachable directory takes seconds to time out."""
    found = page.list_page("directories.list")["items"]
    checks = page.perform("health.read")["checks"]
    broken = {check["name"].removeprefix("directory "): check["detail"] for check in checks if check["detail"]}
    return page.render("access/_connection_states.html", {"rows": [(item, broken.get(item["name"])) for item in found]})


@page_at("connections/<uuid:connection_id>", "connection", get="directories.read")
def connection(page: PageContext, /, connection_id: UUID, **context: Any) -> HttpResponseBase:
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


def needed_rights(bind_name: str, base_dn: str) -> list[tuple[NeededRights, list[str]]]:
    """The rights that the bind account needs for each task, with the `dsacls` commands that grant them."""
    account = account_name(bind_name)
    return [(needed, dsacls_lines(needed.rights, account=account, base_dn=base_dn)) for needed in NEEDED_RIGHTS]


@page_at("connections/<uuid:connection_id>/rights", "connection-rights", "POST")
def rights(page: PageContext, connection_id: UUID) -> HttpResponseBase:
    """Compare the bind account's effective rights at a base with those it needs."""
    base = page.form["base"].strip()
    try:
        found = page.perform("directories.rights", query={"base": base} if base else {}, id=connection_id)
    except ObjectNotFound as refusal:
        if page.is_partial:
            raise
        return connection(page, connection_id, base=base, problem=refusal)
    context = {
        "rights": found,
        "rights_used": [item for item in found["permissions"] if item["usedBy"]],
        "rights_unused": [item for item in found["permissions"] if not item["usedBy"]],
    }
    if page.is_partial:
        return page.render("access/_rights.html", context)
    return connection(page, connection_id, base=base, **context)


def _connection_form(
    page: PageContext, connection_id: UUID | None = None, *, status: int | None = None, **context: Any
) -> HttpResponseBase:
    typed: dict[str, Any] = {"enabled": True}
    if connection_id is None:
        page.perform("directories.list", query={"pageSize": "1"})  # refuses people who may not see connections
        found = None
    else:
        found = page.perform("directories.read", id=connection_id)
        typed = {**form_values(found, "directories.update"), "version": found["version"]}
    shown = {"connection": found, "typed": typed_connection(page) if page.is_post else typed, **context}
    return page.render("access/connection_edit.html", shown, status=status)


def typed_connection(page: PageContext) -> dict[str, str]:
    """The submitted fields to show again, without the password."""
    return {name: value for name, value in page.form.items() if name != "bindPassword"}


@page_at("connections/new", "connection-new", post="directories.create", form=_connection_form)
def new(page: PageContext) -> HttpResponseBase:
    made, report = create_if_tested(page)
    if made is None:
        return _connection_form(page, status=InvalidRequest.status, **report)
    return page.redirect("connection", message=_("The connection was created."), connection_id=made["id"])


def create_if_tested(page: PageContext) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Test the connection in the form, and create it if it works or if the form says `anyway`.

    Returns the connection, or None if the test failed, and the context of the test's report. Raises GatewayError.
    """
    body, report = _connection_body(page), {}
    if "anyway" not in page.form:
        report = {**_run_test(page, "directories.test-new", body=body), "is_new": True}
        if not report["report"]["ok"]:
            return None, report
    made: dict[str, Any] = page.perform("directories.create", body=body)
    return made, report


def _connection_body(page: PageContext) -> dict[str, Any]:
    """The body of `directories.create` and `.update`. An empty password is left out, which keeps the stored one."""
    body = body_from_form(page.request.POST, "directories.create")
    return body if body["bindPassword"] else {name: body[name] for name in body if name != "bindPassword"}


def _run_test(page: PageContext, operation: str, **given: Any) -> dict[str, Any]:
    """Run a test and return the template context of its report."""
    report = page.perform(operation, **given)
    return {"report": report, "functional_level": functional_level_name(report["functionalLevel"])}


@page_at("connections/new/test", "connection-new-test", "POST")
def test_new(page: PageContext) -> HttpResponseBase:
    """Test the fields without saving. htmx swaps in only the report, so the form keeps the typed password."""
    try:
        report = _run_test(page, "directories.test-new", body=_connection_body(page))
    except GatewayError as refusal:
        if page.is_partial:
            raise
        return _connection_form(page, problem=refusal)
    return page.render("access/_connection_test.html", report) if page.is_partial else _connection_form(page, **report)


@page_at("connections/<uuid:connection_id>/test", "connection-test", "POST")
def test(page: PageContext, connection_id: UUID) -> HttpResponseBase:
    """Test the saved connection."""
    report = _run_test(page, "directories.test", id=connection_id)
    if page.is_partial:
        return page.render("access/_connection_test.html", report)
    return connection(page, connection_id, **report)


@page_at("connections/<uuid:connection_id>/edit", "connection-edit", post="directories.update", form=_connection_form)
def edit(page: PageContext, connection_id: UUID) -> HttpResponseBase:
    page.perform("directories.update", body=_connection_body(page), if_match=page.form["version"], id=connection_id)
    message = _("Saved. Every process uses the new settings from its next request on. Test them.")
    return page.redirect("connection", message=message, connection_id=connection_id)


declare_button(
    *("connections/<uuid:connection_id>/enable", "connection-enable", "directories.update"),
    "Enabled.",
    connection,
    to="connection",
    body={"enabled": True},
)
declare_button(
    *("connections/<uuid:connection_id>/disable", "connection-disable", "directories.update"),
    "Disabled. Nobody reaches the directory through it now.",
    connection,
    to="connection",
    body={"enabled": False},
)
declare_button(
    *("connections/<uuid:connection_id>/rotate-password", "connection-rotate-password", "directories.rotate-password"),
    "The account has a new password, which nobody knows. Test the connection.",
    connection,
    to="connection",
)
declare_button(
    *("connections/<uuid:connection_id>/delete", "connection-delete", "directories.delete"),
    "The connection is deleted.",
    connection,
    to_list="connections",
)
