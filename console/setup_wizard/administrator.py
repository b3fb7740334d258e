"""The page on which the first administrator is made, for whoever reads the server's log.

It is there for nobody else: without the code from the log nothing is made, and once there is an administrator it only
leads on.
"""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from audit.model_changes.unattended import call_of_set_up
from console.page_context import page_address
from core.errors import Forbidden, GatewayError, invalid_member
from keys import first_administrator
from keys.first_administrator import SetUpClosed, WrongCode
from keys.models import Person
from keys.sign_in import sessions
from keys.sign_in.credentials import client_address

_FIELDS = ("username", "displayName", "email")
_WRONG_CODE = _(
    "This is not the code. It is in the log of the gateway's web server, in the line that begins “Nobody …”."
)
_TOO_OFTEN = _("There were too many wrong codes. Try again in a quarter of an hour.")


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def set_up(request: HttpRequest) -> HttpResponseBase:
    """Ask for the code and for who the first administrator is, make them and sign them in."""
    if not first_administrator.is_open():
        return HttpResponseRedirect(page_address("first-day"))
    first_administrator.announce()
    if request.method != "POST" or _lacks_tls(request):
        return _page(request, {})
    typed = {name: request.POST.get(name, "").strip() for name in _FIELDS}
    try:
        person = _make(request, typed)
    except WrongCode as refusal:
        message = _TOO_OFTEN if refusal.too_often else _WRONG_CODE
        return _page(request, typed, problem=invalid_member("code", str(message)), status=Forbidden.status)
    except SetUpClosed:  # another browser was faster
        return HttpResponseRedirect(page_address("first-day"))
    except GatewayError as refusal:
        return _page(request, typed, problem=refusal, status=refusal.status)
    sessions.start(request, person)
    return HttpResponseRedirect(page_address("first-day"))


def _make(request: HttpRequest, typed: dict[str, str]) -> Person:
    """The administrator whom the form describes; the code is looked at first, and what else was typed only then."""
    by = {"client_address": client_address(request), "request_id": getattr(request, "request_id", "")}
    first_administrator.require_code(request.POST.get("code", ""), **by)
    password = request.POST.get("password", "")
    if password != request.POST.get("again", ""):
        raise invalid_member("again", gettext("This is not the same as the password."))
    return first_administrator.make_first_administrator(
        call_of_set_up(**by),
        username=typed["username"],
        display_name=typed["displayName"],
        email=typed["email"],
        password=password,
    )


def _page(
    request: HttpRequest, typed: dict[str, str], *, problem: GatewayError | None = None, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {
        "typed": typed,
        "code": request.POST.get("code", ""),
        "problem": problem,
        "lacks_tls": _lacks_tls(request),
    }
    return render(request, "console/setup_wizard/administrator.html", context, status=status)


def _lacks_tls(request: HttpRequest) -> bool:
    """Whether a password would travel in clear; the session's cookie would not come back, either."""
    return not settings.DEVELOPMENT and not request.is_secure()


urls = [path("setup", set_up, name="set-up")]
