"""The page of an invitation: whoever has the link sets a password or a passkey of their own, and is signed in.

The link's code stands behind the # of the address, which no server is sent; a script puts it into the form's field.
Opening the page uses nothing up, so scanners of mail may.
"""

from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.account.sign_in import browser_id
from console.page_context import page_url
from core import shown_once
from core.errors import Forbidden, GatewayError, invalid_member
from core.text.vocabulary import declare_texts
from keys.models import Person
from keys.sign_in import invitations, passkeys, second_factor, sessions
from keys.sign_in.credentials import SignInRefused, may_use_password
from keys.sign_in.sessions import digest_of_session

# One sentence for a code that is wrong, used, ended or too old, and for too many attempts.
_NOT_GOOD = "This link is not valid, or no longer. Ask whoever invited you for a new one."
declare_texts([_NOT_GOOD])


@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "POST"])
def accept(request: HttpRequest) -> HttpResponseBase:
    """Ask for the code; then, as whom it invites, for a password or a passkey; then sign them in."""
    if request.method == "GET":
        return _render(request)
    try:
        person = invitations.find_invited(request, request.POST.get("code", "").strip())
        try:
            if "password" in request.POST:
                return _accept_password(request, person)
            if "passkey" in request.POST:
                return _accept_passkey(request, person)
        except GatewayError as refusal:
            if isinstance(refusal, SignInRefused):
                raise
            return _render(request, person, problem=refusal)
    except SignInRefused:
        return _render(request, refusal=_(_NOT_GOOD))
    return _render(request, person)


def _accept_password(request: HttpRequest, person: Person) -> HttpResponseBase:
    password = request.POST["password"]
    if password != request.POST.get("again", ""):
        raise invalid_member("again", _("This is not the same as the password."))
    invitations.accept_password(request, person, password, browser=_browser(request))
    if second_factor.is_on(person):
        sessions.await_code(request, person)
        return HttpResponseRedirect(page_url("sign-in-code"))
    sessions.start(request, person)
    return HttpResponseRedirect(page_url("home"))


def _accept_passkey(request: HttpRequest, person: Person) -> HttpResponseBase:
    answer, name = request.POST["passkey"], request.POST.get("name", "")
    passkey, codes = invitations.accept_passkey(request, person, answer, name, browser=_browser(request))
    sessions.start(request, person, passkey=passkey)
    return HttpResponseRedirect(shown_once.keep(request, page_url("recovery-codes"), codes))


def _browser(request: HttpRequest) -> str:
    return digest_of_session(browser_id(request))


def _render(
    request: HttpRequest,
    person: Person | None = None,
    *,
    problem: GatewayError | None = None,
    refusal: str = "",
) -> HttpResponse:
    context: dict[str, Any] = {"problem": problem, "refusal": refusal}
    if person is not None:
        # A second factor that is there is not replaced by a link: a further passkey takes it.
        may_add_passkey = passkeys.find_relying_party() is not None and not second_factor.is_on(person)
        context |= {
            "person": person,
            "code": request.POST["code"].strip(),
            "name": request.POST.get("name", ""),
            "takes_password": may_use_password(person.username, None),
            "options": passkeys.begin(person, _browser(request)) if may_add_passkey else "",
        }
    status = Forbidden.status if refusal else problem.status if problem else 200
    return render(request, "console/account/invitation.html", context, status=status)
