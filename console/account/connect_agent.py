"""The consent page (OAuth 2.1 authorization endpoint): an agent asks to act for a person, who grants what they choose.

Consent is never skipped. The agent's request is in the URL; a seal in the form binds the answer to what the page
showed. The redirect URI was registered, and the page shows it. For an agent without a browser, a person issues a token
on a page that says the same.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpResponseBase, HttpResponseRedirect
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from audit.model_changes.recording import recorded
from console.page_context import PageContext, page_at
from core import shown_once
from core.errors import Forbidden, InvalidRequest
from core.text.invisible import mark_invisible
from core.text.names import require_label
from directory.models import DirectoryConnection
from keys.agents import clients, issued_tokens, server
from keys.agents.availability import require_agents
from keys.agents.grants import Consent, note_refusal, refused_before
from keys.agents.metadata import audience_of
from keys.agents.scopes import DEFAULT_SCOPE, SCOPES, Scope, usable_scopes
from keys.models.agents import NAME_LENGTH, AgentClient

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
    chosen, directory = _chosen_scopes(page, consent_request.scopes), _chosen_directory(page)
    if not chosen or directory is None:
        missing = (
            _("Choose the directory.") if directory is None else _("Allow the agent at least one thing, or refuse.")
        )
        return _consent_page(page, consent_request, refusal=missing, chosen=chosen)
    grantable = usable_scopes(page.call.permissions)
    refused = frozenset(name for name in consent_request.scopes if name in grantable and name not in chosen)
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
    choices = _choices_context(page, consent_request.scopes, chosen)
    response = page.render(
        "account/agent_connect.html",
        {
            "agent": mark_invisible(consent_request.client.name),
            "registered_by_itself": consent_request.client.registration_source != AgentClient.RegistrationSource.MANUAL,
            "target": consent_request.redirect_uri,
            "is_own_machine": clients.is_loopback(consent_request.redirect_uri)
            or clients.is_private(consent_request.redirect_uri),
            **choices,
            "may_anything": any(choice.is_usable for choice in choices["choices"]),
            "seal": _SEAL.sign(_consent_digest(page, consent_request)),
            "refusal": refusal,
        },
        status=400 if refusal else 200,
    )
    # Browsers apply the form-action policy to the redirect after the form as well.
    response.form_target = clients.csp_source_of(consent_request.redirect_uri)  # type: ignore[attr-defined]
    response["X-Frame-Options"] = "DENY"  # clickjacking: for browsers without frame-ancestors
    return response


def _choices_context(page: PageContext, names: Iterable[str], chosen: tuple[str, ...]) -> dict[str, Any]:
    """The context of `account/_agent_choices.html`: scopes, ticked if grantable and chosen, and directories."""
    grantable = usable_scopes(page.call.permissions)
    return {
        "choices": [
            ScopeChoice(name, SCOPES[name], name in grantable, name in grantable and name in chosen) for name in names
        ],
        "directories": page.directories,
        "directory": page.form.get("directory", page.directories[0].client_id if page.directories else ""),
    }


def _chosen_scopes(page: PageContext, names: Iterable[str]) -> tuple[str, ...]:
    """Those of these scopes that are ticked in the form and that the person can grant."""
    grantable, ticked = usable_scopes(page.call.permissions), page.request.POST.getlist("scope")
    return tuple(name for name in names if name in ticked and name in grantable)


def _chosen_directory(page: PageContext) -> DirectoryConnection | None:
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


# --- tokens for agents without a browser


@page_at("account/agents/new", "agent-token")
def agent_token(page: PageContext) -> HttpResponseBase:
    """The form, and after it the token, once."""
    _require_allowed()
    chosen = tuple(page.request.POST.getlist("scope")) if page.is_post else (DEFAULT_SCOPE,)
    return page.render(
        "account/agent_token.html",
        {
            **_choices_context(page, SCOPES, chosen),
            "typed": page.form,
            "was_shown": not page.is_post and shown_once.is_expected(page.request),
            "token": shown_once.take(page.request),
        },
    )


@page_at("account/agents/issue", "agent-token-issue", "POST", form=agent_token)
def issue_agent_token(page: PageContext) -> HttpResponseBase:
    _require_allowed()
    name = _name_in(page.form)
    scopes, directory = _chosen_scopes(page, SCOPES), _chosen_directory(page)
    if not scopes:
        raise InvalidRequest.naming(_("Allow the agent at least one thing."), pointer="#/scope")
    if directory is None:
        raise InvalidRequest.naming(_("Choose the directory."), pointer="#/directory")
    audience = audience_of(page.request)
    consent = Consent(person=page.person, connection=directory, scopes=scopes, audience=audience)
    with recorded(page.call, operation="agents.create") as administration:
        grant, value = issued_tokens.issue(name, consent)
        administration.note_new_row(grant.client)
        administration.note_new_row(grant)
    shown = {"value": value, "until": grant.expires_at.isoformat(), "name": name, "endpoint": audience}
    return page.redirect_showing(shown, "agent-token")


def _require_allowed() -> None:
    require_agents()
    if not issued_tokens.may_be_issued():
        raise Forbidden


def _name_in(form: Any) -> str:
    name = " ".join(form.get("name", "").split())
    if not 0 < len(name) <= NAME_LENGTH:
        raise InvalidRequest.naming(_("Give the agent a name that you will know it by."), pointer="#/name")
    try:
        return require_label(name)
    except ValueError as error:
        raise InvalidRequest.naming(str(error), pointer="#/name") from None
