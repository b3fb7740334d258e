"""Sign-in and sign-out: user name and password, then the second factor if the person has one; or a passkey alone.

Nobody is signed in yet on these pages, so they have no `PageContext`.
"""

import json
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from console.page_context import PageContext, page_at, page_url, same_site_path
from core.errors import Forbidden, GatewayError
from core.text.vocabulary import declare_texts, texts_by_name
from directory.models import DirectoryConnection
from gateway.monitoring.readiness import broken_directories, readiness
from keys import first_administrator
from keys.models import Person
from keys.sign_in import passkeys, second_factor, sessions
from keys.sign_in.credentials import Reason, SignInRefused, log_refusal, verify
from keys.sign_in.oidc.logout import end_session_url
from keys.sign_in.oidc.provider_sessions import provider_session_of
from keys.sign_in.oidc.providers import label_of
from keys.sign_in.second_factor import WRONG_CODES
from keys.sign_in.sessions import digest_of_session

_LAST_CHOICE = "sign-in-with"
"""The cookie with the name of the last sign-in's directory; empty for a local account."""
_LAST_CHOICE_SECONDS = 365 * 86_400

# One text for every refusal without the right password: it must not reveal whether the account exists.
_WRONG_CREDENTIALS = (
    "The user name or the password is wrong. After several failures nobody gets in under a name for a while, "
    "not even with the right password."
)
_REFUSALS = texts_by_name(
    {
        Reason.DEACTIVATED: "Your access to this gateway is switched off. Its administrators can switch it on again.",
        Reason.PASSWORD_EXPIRED: (
            "Your password has expired. Change it at a computer of your domain or ask your help desk, then come back."
        ),
        Reason.MUST_CHANGE_PASSWORD: (
            "You have to change your password before you can sign in here. Change it at a computer of your domain or "
            "ask your help desk, then come back."
        ),
        Reason.ACCOUNT_DISABLED: "Your account is disabled in the directory. Your help desk can enable it.",
        Reason.ACCOUNT_EXPIRED: "Your account has expired in the directory. Your help desk can extend it.",
        Reason.NOT_NOW: "Your account may not sign in at this time or from here.",
    }
)
# One text for an unknown passkey, a forged answer, and somebody whom their passkey may not sign in.
_WRONG_PASSKEY = "This passkey does not sign anybody in here. Try again, or use your password."
declare_texts([_WRONG_CREDENTIALS, _WRONG_PASSKEY])


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Ask for user name and password, of a local account or of one in a connected directory."""
    next_url = next_page(request)
    if request.method == "GET" and request.user.is_authenticated:
        return HttpResponseRedirect(next_url)
    context = _context(request)
    if request.method == "GET":
        context["lacks_administrator"] = first_administrator.is_open()
        ways = context["directories"] or context["broken"] or context["providers"]
        if context["lacks_administrator"] and not ways:
            return HttpResponseRedirect(page_url("set-up"))
        return render(request, "console/account/sign_in.html", context)
    try:
        person = verify(
            request,
            username=context["username"],
            password=request.POST.get("password", ""),
            directory=context["chosen"] or None,
        )
    except SignInRefused as refusal:
        context["refusal"] = _(_REFUSALS.get(refusal.reason, _WRONG_CREDENTIALS))
        return render(request, "console/account/sign_in.html", context, status=Forbidden.status)
    except GatewayError as problem:
        context["refusal"] = _(problem.detail)
        return render(request, "console/account/sign_in.html", context, status=problem.status)
    if second_factor.is_on(person):
        sessions.await_code(request, person)  # nobody is signed in before the code is right
        response = HttpResponseRedirect(f"{page_url('sign-in-code')}?{urlencode({'next': next_url})}")
    else:
        sessions.start(request, person)
        response = HttpResponseRedirect(next_url)
    response.set_cookie(
        _LAST_CHOICE,
        context["chosen"],
        max_age=_LAST_CHOICE_SECONDS,
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
    )
    return response


def _context(request: HttpRequest) -> dict[str, Any]:
    """What the page shows: the directories to sign in with, and what was typed."""
    configured, next_url = settings.CONFIGURATION.SignIn, next_page(request)
    enabled = DirectoryConnection.objects.filter(enabled=True).values_list("name", flat=True).order_by("name")
    # With passwords off, nobody but the break-glass account has one here, which is local.
    directories = list(enabled) if configured.PasswordForm else []
    username = request.POST.get("username", "").strip()
    # Cached checks: this page must not wait for a directory that is down.
    broken = [name for name in directories if name in broken_directories(readiness.latest_checks())]
    return {
        "next": next_url,
        "next_query": urlencode({"next": next_url}),
        "providers": [(each.Name, label_of(each)) for each in configured.Oidc],
        "takes_passwords": configured.PasswordForm or "break-glass" in request.GET or bool(username),
        "directories": [name for name in directories if name not in broken],
        "broken": broken,
        "chosen": request.POST.get("directory", request.COOKIES.get(_LAST_CHOICE, "")),
        "username": username,
        "takes_passkeys": passkeys.find_relying_party() is not None,
    }


@never_cache
@require_http_methods(["POST"])
def sign_in_by_passkey(request: HttpRequest) -> HttpResponseBase:
    """Sign in the local account whose passkey was used. A directory has to confirm its people by their password."""
    try:
        answer = request.POST.get("passkey", "")
        passkey = passkeys.verify(request, answer, purpose=passkeys.SIGN_IN, session=browser_id(request))
        person = passkey.second_factor.person
        if not person.is_local:
            refusal = SignInRefused(Reason.PASSKEY, person=person.username, problem="person of a directory")
            log_refusal(request, refusal)
            raise refusal
        sessions.start(request, person, passkey=passkey)
    except SignInRefused as refusal:
        context = {**_context(request), "refusal": _(_REFUSALS.get(refusal.reason, _WRONG_PASSKEY))}
        return render(request, "console/account/sign_in.html", context, status=Forbidden.status)
    return HttpResponseRedirect(next_page(request))


@never_cache
@require_http_methods(["POST"])
def passkey_options(request: HttpRequest, *, is_second_step: bool) -> HttpResponse:
    """What the browser needs to ask for a passkey: anybody's, or that of the person whose password was right."""
    person = sessions.find_person_awaiting_code(request) if is_second_step else None
    if passkeys.find_relying_party() is None or (is_second_step and person is None):
        raise Http404
    if person is None:
        options = passkeys.options(passkeys.SIGN_IN, browser_id(request))
    else:
        options = passkeys.options(passkeys.SECOND_STEP, digest_of_session(request.session.session_key), person)
    return JsonResponse({"publicKey": json.loads(options)})


def browser_id(request: HttpRequest) -> str:
    """What tells this browser apart before there is a session: the secret of its CSRF cookie."""
    get_token(request)
    return str(request.META["CSRF_COOKIE"])


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponseBase:
    """Ask for the authenticator's code after the right password."""
    next_url = next_page(request)
    person = sessions.find_person_awaiting_code(request)
    if person is None:
        messages.warning(request, _("That took too long. Sign in again."))
        return HttpResponseRedirect(f"{page_url('sign-in')}?{urlencode({'next': next_url})}")
    context = {
        "next": next_url,
        "person": person,
        "has_authenticator": second_factor.has_authenticator(person),
        "may_use_passkey": passkeys.can_be_used(person),
    }
    if request.method == "GET":
        return render(request, "console/account/sign_in_code.html", context)
    passkey = None
    try:
        if answer := request.POST.get("passkey"):
            session = digest_of_session(request.session.session_key)
            passkey = passkeys.verify(request, answer, purpose=passkeys.SECOND_STEP, session=session, person=person)
        else:
            second_factor.require_code(request, person, request.POST.get("code", ""))
    except SignInRefused as refusal:
        context["refusal"] = _(WRONG_CODES.get(refusal.reason, _WRONG_PASSKEY))
        return render(request, "console/account/sign_in_code.html", context, status=Forbidden.status)
    sessions.start(request, person, passkey=passkey)
    return HttpResponseRedirect(next_url)


@page_at("sign-out", "sign-out", "POST", may_lack_second_factor=True)
def sign_out(page: PageContext) -> HttpResponseBase:
    began_at = provider_session_of(page.request)
    sessions.sign_out(page.request)
    if began_at is not None:
        return_to = page.request.build_absolute_uri(page_url("sign-in"))
        if (address := end_session_url(began_at, return_to=return_to)) is not None:
            # Browsers let no form's response lead to another site, but a page may send them there.
            response = page.render("account/signed_out.html", {"address": address})
            response["Refresh"] = f"0; url={address}"
            return response
    return page.redirect("sign-in", message=_("You are signed out."))


@never_cache
def sign_in_to_admin(request: HttpRequest) -> HttpResponse:
    """Replace Django admin's sign-in, which knows no second factor. Admin also sends people here who may not enter."""
    if isinstance(request.user, Person) and second_factor.is_missing(request.user):
        return HttpResponseRedirect(page_url("second-factor"))
    if request.user.is_authenticated and not admin.site.has_permission(request):
        raise PermissionDenied
    next_url = same_site_path(request, request.GET.get("next", "")) or reverse("admin:index")
    return HttpResponseRedirect(f"{page_url('sign-in')}?{urlencode({'next': next_url})}")


def next_page(request: HttpRequest) -> str:
    """The page after signing in: always one of this gateway, so that sign-in is no open redirect."""
    next_url = request.POST.get("next") or request.GET.get("next") or ""
    return same_site_path(request, next_url) or page_url("home")
