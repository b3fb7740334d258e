"""Signing in and out: name and password, and the code of a second factor where there is one.

These are the only pages for people whom nobody knows yet, so they have no `PageContext`.
"""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from console.page_context import PageContext, console_page, page_address
from console.shared.safe_redirect import own_path
from core.errors import Forbidden, GatewayError
from directory.models import DirectoryConnection
from gateway.monitoring.readiness import broken_directories, readiness
from keys import first_administrator
from keys.models import Person
from keys.sign_in import second_factor, sessions
from keys.sign_in.confirmation import WRONG_CODES
from keys.sign_in.credentials import Reason, SignInRefused, verify

_LAST_CHOICE = "sign-in-with"
"""The cookie that keeps with what the person signed in the last time: a directory's name, or nothing."""
_LAST_CHOICE_SECONDS = 365 * 86_400

# Whatever does not prove that the password was right gets one and the same text.
_WRONG = _(
    "The user name or the password is wrong. After several failures nobody gets in under a name for a while, "
    "not even with the right password."
)
_REFUSALS = {
    Reason.DEACTIVATED: _("Your access to this gateway is switched off. Its administrators can switch it on again."),
    Reason.PASSWORD_EXPIRED: _(
        "Your password has expired. Change it at a computer of your domain or ask your help desk, then come back."
    ),
    Reason.MUST_CHANGE_PASSWORD: _(
        "You have to change your password before you can sign in here. Change it at a computer of your domain or ask "
        "your help desk, then come back."
    ),
    Reason.ACCOUNT_DISABLED: _("Your account is disabled in the directory. Your help desk can enable it."),
    Reason.ACCOUNT_EXPIRED: _("Your account has expired in the directory. Your help desk can extend it."),
    Reason.NOT_NOW: _("Your account may not sign in at this time or from here."),
}


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Name and password, of a local account or of a person of a connected directory."""
    there = _way_on(request)
    if request.method == "GET" and request.user.is_authenticated:
        return HttpResponseRedirect(there)
    chosen = request.POST.get("directory", request.COOKIES.get(_LAST_CHOICE, ""))
    username = request.POST.get("username", "").strip()
    directories = list(DirectoryConnection.objects.filter(enabled=True).values_list("name", flat=True).order_by("name"))
    broken = [name for name in directories if name in broken_directories(readiness.glance())]
    directories = [name for name in directories if name not in broken]
    context: dict[str, Any] = {
        "next": there,
        "directories": directories,
        "broken": broken,
        "chosen": chosen,
        "username": username,
    }
    if request.method == "GET":
        context["lacks_administrator"] = first_administrator.is_open()
        if context["lacks_administrator"] and not directories and not broken:
            return HttpResponseRedirect(page_address("set-up"))
        return render(request, "console/account/sign_in.html", context)
    try:
        person = verify(
            request,
            username=username,
            password=request.POST.get("password", ""),
            directory=chosen or None,
        )
    except SignInRefused as refusal:
        context["refusal"] = _REFUSALS.get(refusal.reason, _WRONG)
        return render(request, "console/account/sign_in.html", context, status=Forbidden.status)
    except GatewayError as problem:
        context["refusal"] = gettext(problem.detail)
        return render(request, "console/account/sign_in.html", context, status=problem.status)
    if second_factor.is_on(person):
        sessions.await_code(request, person)
        response = HttpResponseRedirect(f"{page_address('sign-in-code')}?{urlencode({'next': there})}")
    else:
        sessions.start(request, person)
        response = HttpResponseRedirect(there)
    response.set_cookie(
        _LAST_CHOICE, chosen, max_age=_LAST_CHOICE_SECONDS, secure=request.is_secure(), httponly=True, samesite="Lax"
    )
    return response


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponseBase:
    """The code of the authenticator, after the right password."""
    there = _way_on(request)
    person = sessions.find_awaited(request)
    if person is None:
        messages.warning(request, gettext("That took too long. Sign in again."))
        return HttpResponseRedirect(f"{page_address('sign-in')}?{urlencode({'next': there})}")
    context = {"next": there, "person": person}
    if request.method == "GET":
        return render(request, "console/account/sign_in_code.html", context)
    try:
        second_factor.require_code(request, person, request.POST.get("code", ""))
    except SignInRefused as refusal:
        context["refusal"] = gettext(WRONG_CODES[refusal.reason])
        return render(request, "console/account/sign_in_code.html", context, status=Forbidden.status)
    sessions.start(request, person)
    return HttpResponseRedirect(there)


@console_page("POST", may_lack_second_factor=True)
def sign_out(page: PageContext) -> HttpResponseBase:
    sessions.sign_out(page.request)
    return page.redirect("sign-in", said=gettext("You are signed out."))


@never_cache
def sign_in_to_admin(request: HttpRequest) -> HttpResponse:
    """In the place of Django admin's own page, which knows no second factor. It sends those here whom it refuses."""
    if isinstance(request.user, Person) and second_factor.is_missing(request.user):
        return HttpResponseRedirect(page_address("second-factor"))
    if request.user.is_authenticated and not admin.site.has_permission(request):
        raise PermissionDenied
    there = own_path(request, request.GET.get("next", "")) or reverse("admin:index")
    return HttpResponseRedirect(f"{page_address('sign-in')}?{urlencode({'next': there})}")


def _way_on(request: HttpRequest) -> str:
    """Where to after signing in: a page of this gateway and of no other."""
    there = request.POST.get("next") or request.GET.get("next") or ""
    return own_path(request, there) or page_address("home")


urls = [
    path("sign-in", sign_in, name="sign-in"),
    path("sign-in/code", sign_in_code, name="sign-in-code"),
    path("sign-out", sign_out, name="sign-out"),
]
