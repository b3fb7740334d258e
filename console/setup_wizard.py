"""The first day of a gateway: create the first administrator, then the steps to the first integration."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from approvals.review.deciders import find_other_deciders
from audit.model_changes.recording import call_of_set_up
from console.access.connections import create_if_tested, needed_rights, typed_connection
from console.access.people import show_invitation
from console.page_context import PageContext, page_at, page_url
from console.shared.forms import body_from_form
from core import shown_once
from core.errors import Forbidden, GatewayError, InvalidRequest, invalid_member
from keys import first_administrator
from keys.callers import client_address
from keys.first_administrator import SetUpClosed, WrongCode
from keys.models import Person
from keys.permission_catalogue import find_preset
from keys.sign_in import sessions

_WRONG_CODE = gettext_lazy(
    "This is not the code. It is in the log of the gateway's web server, in the line that begins “Nobody …”."
)
_TOO_OFTEN = gettext_lazy("There were too many wrong codes. Try again in a quarter of an hour.")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def set_up(request: HttpRequest) -> HttpResponseBase:
    """Create the first administrator with the code from the server's log, and sign them in."""
    if not first_administrator.is_open():
        return HttpResponseRedirect(page_url("first-day"))
    first_administrator.announce()
    if request.method != "POST" or _lacks_tls(request):  # without TLS not even the code is looked at
        return _render_set_up(request)
    try:
        person = _create_administrator(request)
    except WrongCode as refusal:
        message = _TOO_OFTEN if refusal.too_often else _WRONG_CODE
        return _render_set_up(request, invalid_member("code", str(message)), Forbidden.status)
    except SetUpClosed:  # another browser was faster
        return HttpResponseRedirect(page_url("first-day"))
    except GatewayError as refusal:
        return _render_set_up(request, refusal, refusal.status)
    sessions.start(request, person)
    return HttpResponseRedirect(page_url("first-day"))


def _typed_fields(request: HttpRequest) -> dict[str, str]:
    return {name: request.POST.get(name, "").strip() for name in ("username", "displayName", "email")}


def _create_administrator(request: HttpRequest) -> Person:
    """Create the administrator from the form. Without the right code nothing else in the form is looked at."""
    by = {"client_address": client_address(request), "request_id": getattr(request, "request_id", "")}
    first_administrator.require_set_up_code(request.POST.get("code", ""), **by)
    password = request.POST.get("password", "")
    if password != request.POST.get("again", ""):
        raise invalid_member("again", _("This is not the same as the password."))
    typed = _typed_fields(request)
    return first_administrator.make_first_administrator(
        call_of_set_up(**by),
        username=typed["username"],
        display_name=typed["displayName"],
        email=typed["email"],
        password=password,
    )


def _render_set_up(request: HttpRequest, problem: GatewayError | None = None, status: int = 200) -> HttpResponse:
    context = {
        "typed": _typed_fields(request),
        "code": request.POST.get("code", ""),
        "problem": problem,
        "lacks_tls": _lacks_tls(request),
    }
    return render(request, "console/setup_wizard/administrator.html", context, status=status)


def _lacks_tls(request: HttpRequest) -> bool:
    """Whether the password would travel in clear text; browsers would not return the secure session cookie either."""
    return not settings.DEVELOPMENT and not request.is_secure()


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """One step of the first day. `view` names its page; `text` says what is set up, or why the step is needed."""

    name: str
    title: str
    view: str
    is_done: bool
    text: str


def checklist(page: PageContext) -> list[ChecklistItem]:
    """The steps of the first day in order, each checked against what is configured now."""
    in_use = [directory.name for directory in page.directories]
    directories = in_use or [item["name"] for item in page.list_first("directories.list", 1)]
    keys = page.list_first("api-keys.search", 1, state="active")
    steps = (
        (
            *("address", _("Address"), settings.CONFIGURATION.Approvals.BaseUrl),
            _("E-mails can link to what waits only if the gateway knows its own address."),
        ),
        (
            *("directory", _("Directory"), directories and directories[0]),
            _("The domain that the gateway is to manage, tested first."),
        ),
        (
            *("approver", _("Approver"), ", ".join(find_other_deciders(excluding=page.person.pk))),
            _("Nobody decides on their own changes: somebody besides you has to."),
        ),
        (
            *("key", _("First key"), keys and keys[0]["name"]),
            _("What the first integration signs in with, with a role that gives it little."),
        ),
    )
    return [
        ChecklistItem(name, title, f"first-day-{name}", bool(present), present or why)
        for name, title, present, why in steps
    ]


def remaining_checklist(page: PageContext) -> list[ChecklistItem]:
    """The checklist for the home page while a step is left; empty for people who are no superusers."""
    if not page.is_superuser:
        return []
    items = checklist(page)
    return [] if all(item.is_done for item in items) else items


def _render_step(page: PageContext, name: str, *, status: int | None = None, **context: Any) -> HttpResponseBase:
    """Render a step beside the list of all. Raises Forbidden for all but superusers, who alone can take every step."""
    if not page.is_superuser:
        raise Forbidden
    items = checklist(page)
    following = [item for item in items[[item.name for item in items].index(name) + 1 :] if not item.is_done]
    shown = {"items": items, "step": name, "following": next(iter(following), None), **context}
    return page.render(f"setup_wizard/{name}.html", shown, status=status)


@page_at("first-day", "first-day")
def first_day(page: PageContext) -> HttpResponseBase:
    """Redirect to the first step that is left, or home if all are done."""
    if not page.is_superuser:
        return page.redirect("home")
    left = next((item for item in checklist(page) if not item.is_done), None)
    return page.redirect(left.view if left else "home")


@page_at("first-day/address", "first-day-address")
def address(page: PageContext) -> HttpResponseBase:
    """Compare the URL that this browser uses with the configured one."""
    request = page.request
    here = f"{request.scheme}://{request.get_host()}"
    return _render_step(
        page,
        "address",
        here=here,
        configured=settings.CONFIGURATION.Approvals.BaseUrl,
        is_secure=request.is_secure(),
        client_address=page.call.client_address,
        has_proxies=bool(settings.CONFIGURATION.ForwardedHeaders.KnownProxies),
        is_forwarded="X-Forwarded-For" in request.headers,
    )


def _directory_form(page: PageContext, **context: Any) -> HttpResponseBase:
    found = [] if page.is_post else page.list_first("directories.list", 1)
    if found:
        context |= {"connection": found[0], "needed": needed_rights(found[0]["bindDn"], found[0]["baseDn"])}
    return _render_step(page, "directory", typed=typed_connection(page), **context)


@page_at("first-day/directory", "first-day-directory", post="directories.create", form=_directory_form)
def directory(page: PageContext) -> HttpResponseBase:
    """Connect the domain. The connection is saved only if its test succeeds; the report says which part failed."""
    made, report = create_if_tested(page)
    if made is None:
        return _directory_form(page, status=InvalidRequest.status, **report)
    return page.redirect("first-day-directory", message=_("{name} is connected.").format(name=made["name"]))


def _approver_form(page: PageContext) -> HttpResponseBase:
    return _render_step(page, "approver", typed=page.form)


@page_at("first-day/approver", "first-day-approver", post="people.create", form=_approver_form)
def approver(page: PageContext) -> HttpResponseBase:
    """Create an account for somebody who decides on changes."""
    preset = find_preset("approver")
    assert preset is not None
    body = body_from_form(page.request.POST, "people.create", "username", "displayName", "email")
    made = page.perform("people.create", body={**body, "permissions": sorted(preset.permissions)})
    return show_invitation(page, made, "first-day-key")


@page_at("first-day/key", "first-day-key")
def key(page: PageContext) -> HttpResponseBase:
    """Explain who should own the first key, and link to the wizard that creates it."""
    return _render_step(
        page,
        "key",
        bar_days=settings.CONFIGURATION.Approvals.IssuerBarDays,
        invitation_link=shown_once.take(page.request),
    )
