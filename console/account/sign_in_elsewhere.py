"""Signing in at a provider of OpenID Connect: to it, back from it, and its message that somebody has signed out there.

The way to the provider is a link: it changes nothing, and a form's response may not lead to another site.
"""

from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from console.account.sign_in import next_page
from console.page_context import page_url
from core import shown_once
from core.errors import GatewayError
from core.text.vocabulary import declare_texts
from keys.models import Person
from keys.sign_in import second_factor, sessions
from keys.sign_in.credentials import Reason, SignInRefused, find_or_create_person, log_refusal
from keys.sign_in.oidc import flow, logout, matching
from keys.sign_in.oidc.provider_sessions import session_from
from keys.sign_in.oidc.providers import ProviderSilent, find_provider
from keys.sign_in.oidc.tokens import NotVerified

_REFUSED = (
    "The provider's answer does not let you in here. Try again; if that does not help, an administrator finds the "
    "reason in the gateway's security log."
)
_DEACTIVATED = "Your access to this gateway is switched off. Its administrators can switch it on again."
declare_texts([_REFUSED])


@never_cache
@require_GET
def begin(request: HttpRequest, name: str) -> HttpResponseBase:
    """Send the browser to the provider."""
    try:
        return HttpResponseRedirect(start_flow(request, name, next_url=next_page(request)))
    except GatewayError as problem:
        return _back(request, problem)


def start_flow(request: HttpRequest, name: str, *, next_url: str, trial_of: int | None = None) -> str:
    """The provider's address; raises NotFound or ProviderSilent."""
    redirect_uri = request.build_absolute_uri(page_url("sign-in-elsewhere-return", name=name))
    return flow.begin(request, find_provider(name), redirect_uri=redirect_uri, next_url=next_url, trial_of=trial_of)


@never_cache
@require_GET
def finish(request: HttpRequest, name: str) -> HttpResponseBase:
    """Sign in the person whom the provider's answer names; after a trial, only show what it says."""
    try:
        return _finish(request, name)
    except NotVerified as why:
        refusal: GatewayError = SignInRefused(Reason.PROVIDER, provider=name, problem=str(why)[:500])
    except GatewayError as problem:
        refusal = problem
    logged = refusal
    if isinstance(refusal, ProviderSilent):
        logged = SignInRefused(Reason.PROVIDER, provider=name, problem=refusal.why[:500])
    if isinstance(logged, SignInRefused):
        log_refusal(request, logged)
    return _back(request, refusal)


def _finish(request: HttpRequest, name: str) -> HttpResponseBase:
    provider = find_provider(name)
    finished = flow.finish(request, provider)
    if finished.trial_of is not None:
        return _show_trial(request, name, finished)
    person = find_or_create_person(matching.find_account(provider, finished.claims))
    if not person.is_active and person.left_directory_at is None:
        raise SignInRefused(Reason.DEACTIVATED, person=person.username)
    began_at = session_from(name, finished.claims, finished.id_token)
    if second_factor.is_on(person):
        sessions.await_code(request, person, began_at=began_at)
        return HttpResponseRedirect(f"{page_url('sign-in-code')}?{urlencode({'next': finished.next_url})}")
    sessions.start(request, person, began_at=began_at)
    return HttpResponseRedirect(finished.next_url)


def _show_trial(request: HttpRequest, name: str, finished: flow.Finished) -> HttpResponseBase:
    """Keep what a trial has shown for the provider's page, if whoever began it is still signed in."""
    person = request.user
    if not isinstance(person, Person) or person.pk != finished.trial_of:
        raise NotVerified("whoever began the trial is not signed in")
    shown = {"claims": finished.claims, "matched": "", "problem": ""}
    try:
        account = matching.find_account(find_provider(name), finished.claims)
        assert account.entry is not None
        known = account.person
        shown |= {
            "matched": str(account.entry.dn),
            "directory": account.connection.name,
            "username": known.username if known else "",
        }
    except NotVerified as why:
        shown["problem"] = str(why)
    return HttpResponseRedirect(shown_once.keep(request, page_url("sign-in-provider", name=name), shown))


def _back(request: HttpRequest, problem: GatewayError) -> HttpResponseBase:
    """The sign-in page with the reason, or a general one: it must not say which accounts exist."""
    text = _(problem.detail or _REFUSED)
    if isinstance(problem, SignInRefused):
        text = _(_DEACTIVATED if problem.reason is Reason.DEACTIVATED else _REFUSED)
    messages.error(request, text)
    return HttpResponseRedirect(page_url("sign-in"))


@csrf_exempt  # the provider sends it, with a signed token
@require_POST
def end_by_provider(request: HttpRequest, name: str) -> HttpResponse:
    """The back-channel logout: end the sessions that the provider's signed token names."""
    try:
        logout.end_by_token(find_provider(name), request.POST.get("logout_token"))
    except NotVerified as why:
        refusal = SignInRefused(Reason.PROVIDER, provider=name, problem=f"logout token: {why}"[:500])
        log_refusal(request, refusal)
        answer: HttpResponse = JsonResponse({"error": "invalid_request"}, status=400)
    except GatewayError as problem:
        answer = JsonResponse({"error": "server_error"}, status=problem.status)
    else:
        answer = HttpResponse()
    answer["Cache-Control"] = "no-store"
    return answer
