"""The consent page (OAuth 2.1 authorization endpoint): an agent asks to act for a person, who grants what they choose.

Consent is never skipped. The agent's request is in the URL; a seal in the form binds the answer to what the page
showed. The redirect URI was registered, and the page shows it.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpResponseBase, HttpResponseRedirect
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from audit.model_changes.recording import recorded
from console.page_context import PageContext, page_at
from core.text.invisible import mark_invisible
from directory.models import DirectoryConnection
from keys.agents import clients, server
from keys.agents.availability import require_agents
from keys.agents.grants import Consent, note_refusal, refused_before
from keys.agents.metadata import audience_of
from keys.agents.scopes import SCOPES, Scope, usable_scopes
from keys.models.agents import AgentClient

_SEAL_MAX_AGE = 15 * 60
"""Seconds within which the page has to be answered."""
_SEAL = TimestampSigner(salt="gateway.console.connect_agent")


@dataclass(frozen=True, slots=True)
class ScopeChoice:
    """A requested scope. A scope that the person cannot grant is shown, but cannot be chosen."""

    name: str
    scope: Scope
    is_usable: bool
    is_chosen: bool


@page_at("connect-agent", "connect-agent", "GET", "POST")
def connect_agent(page: PageContext) -> HttpResponseBase:
    require_agents()
    try:
        consent_request = server.read_consent_request(page.request)
    except server.UnanswerableRequest as refusal:
        return page.render("account/agent_request_refused.html", {"why": refusal.why}, status=400)
    except server.RefusedByRedirect as back:
        return _send_back(page, back)
    if page.request.method == "POST" and "decision" in page.form:
        return _decide(page, consent_request)
    return _consent_page(page, consent_request)


def _decide(page: PageContext, consent_request: server.ConsentRequest) -> HttpResponseBase:
    if page.form["decision"] != "allow":
        note_refusal(page.call, consent_request.client, page.person, consent_request.scopes)
        return _redirect_uncached(server.answer_with_denial(page.request, consent_request))
    if not _is_seal_valid(page, consent_request):
        return _consent_page(
            page,
            consent_request,
            refusal=_("This page was open for too long, or the agent has changed. Read it again."),
        )
    wanted = set(page.request.POST.getlist("scope"))
    offered = scope_choices(page, consent_request.scopes)
    chosen = tuple(choice.name for choice in offered if choice.is_usable and choice.name in wanted)
    directory = chosen_directory(page)
    if not chosen or directory is None:
        missing = (
            _("Choose the directory.") if directory is None else _("Allow the agent at least one thing, or refuse.")
        )
        return _consent_page(page, consent_request, refusal=missing, chosen=chosen)
    refused = frozenset(choice.name for choice in offered if choice.is_usable and choice.name not in wanted)
    audience = audience_of(page.request)
    consent = Consent(
        person=page.person, connection=directory, scopes=chosen, audience=audience, refused_scopes=refused
    )
    try:
        with recorded(page.call, operation="agents.create") as administration:
            location, grant = server.answer_with_code(page.request, consent_request, consent)
            administration.note_new_row(grant)
    except server.RefusedByRedirect as back:
        return _send_back(page, back)
    return _redirect_uncached(location)


def _consent_page(
    page: PageContext,
    consent_request: server.ConsentRequest,
    *,
    refusal: str = "",
    chosen: tuple[str, ...] | None = None,
) -> HttpResponseBase:
    if chosen is None:
        refused = refused_before(consent_request.client, page.person)
        chosen = tuple(name for name in consent_request.scopes if name not in refused)
    choices = scope_choices(page, consent_request.scopes, chosen)
    response = page.render(
        "account/agent_connect.html",
        {
            "agent": mark_invisible(consent_request.client.name),
            "registered_by_itself": consent_request.client.registration_source != AgentClient.RegistrationSource.MANUAL,
            "target": consent_request.redirect_uri,
            "is_own_machine": clients.is_loopback(consent_request.redirect_uri)
            or clients.is_private(consent_request.redirect_uri),
            "choices": choices,
            "may_anything": any(choice.is_usable for choice in choices),
            "directories": page.directories,
            "directory": page.form.get("directory", page.directories[0].client_id if page.directories else ""),
            "seal": _SEAL.sign(_consent_digest(page, consent_request)),
            "refusal": refusal,
        },
        status=400 if refusal else 200,
    )
    # Browsers apply the form-action policy to the redirect after the form as well.
    response.form_target = clients.csp_source_of(consent_request.redirect_uri)  # type: ignore[attr-defined]
    response["X-Frame-Options"] = "DENY"  # clickjacking: for browsers without frame-ancestors
    return response


def scope_choices(page: PageContext, names: list[str], chosen: tuple[str, ...] | None = None) -> list[ScopeChoice]:
    """These scopes, ticked if the person can grant them and has chosen them."""
    grantable = usable_scopes(page.call.permissions)
    return [
        ScopeChoice(name, SCOPES[name], name in grantable, name in grantable and (chosen is None or name in chosen))
        for name in names
    ]


def chosen_directory(page: PageContext) -> DirectoryConnection | None:
    """The chosen directory, among those that the person may use; the only one by default."""
    given = page.form.get("directory")
    if given is None and len(page.directories) == 1:
        return page.directories[0]
    return next((item for item in page.directories if item.client_id == given), None)


def _consent_digest(page: PageContext, consent_request: server.ConsentRequest) -> str:
    """A digest of everything that the consent covers: person, request, client, redirect URI and scopes."""
    facts: list[Any] = [
        page.call.credential.id,
        page.request.META.get("QUERY_STRING", ""),
        str(consent_request.client.pk),
        consent_request.client.name,
        consent_request.redirect_uri,
        consent_request.scopes,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _is_seal_valid(page: PageContext, consent_request: server.ConsentRequest) -> bool:
    try:
        sealed = _SEAL.unsign(page.form["seal"], max_age=_SEAL_MAX_AGE)
    except BadSignature:
        return False
    return constant_time_compare(sealed, _consent_digest(page, consent_request))


def _send_back(page: PageContext, back: server.RefusedByRedirect) -> HttpResponseBase:
    """Tell the agent what is wrong with its request.

    Redirect only to the person's own machine or to a URI that an administrator has registered. For any other URI the
    person has to follow a link: otherwise anybody could register a client and use the gateway as an open redirector
    (RFC 9700 section 4.11.2).
    """
    if back.is_trusted:
        return _redirect_uncached(back.location)
    context = {"why": back.why, "target": back.location}
    return page.render("account/agent_request_refused.html", context, status=400)


class _RedirectToAgent(HttpResponseRedirect):
    """A redirect to a registered redirect URI, whatever its scheme."""

    @property
    def allowed_schemes(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("https", "http", *settings.CONFIGURATION.Agents.RedirectSchemes)


def _redirect_uncached(location: str) -> HttpResponseBase:
    response = _RedirectToAgent(location)
    response["Cache-Control"] = "no-store"
    return response
