"""The consent page: an agent asks to act for the person, who sees what that means and takes away what they like.

It is never left out. What the agent asks is in the address; what was shown is sealed into the form, so that yes is said
to what was read. Where the answer goes was registered, and is shown.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpResponseBase, HttpResponseRedirect
from django.urls import path
from django.utils.crypto import constant_time_compare

from audit.administration.recording import recorded
from directory.models import DirectoryConnection
from gateway.console.page_context import Visit, page
from gateway.core.errors import NotFound
from keys.agents import authorization, redirects
from keys.agents.addresses import audience_of
from keys.agents.grants import Consent
from keys.agents.models import AgentClient
from keys.agents.scopes import SCOPES, Scope, usable
from keys.models import Person
from keys.people.names import shown

_READ_WITHIN = 15 * 60
"""Seconds from showing the page to the answer."""
_SEAL = TimestampSigner(salt="gateway.console.connect_agent")


@dataclass(frozen=True, slots=True)
class _Offer:
    """A scope that was asked for, as the page shows it. One that the person cannot lend is shown, not offered."""

    name: str
    scope: Scope
    is_usable: bool
    is_chosen: bool


@page("GET", "POST")
def connect_agent(visit: Visit) -> HttpResponseBase:
    if not settings.CONFIGURATION.Agents.Enabled:
        raise NotFound
    try:
        asked = authorization.read_request(visit.request)
    except authorization.NotAsked as refusal:
        return visit.render("account/agent_not_asked.html", {"why": refusal.why}, status=400)
    except authorization.SentBack as back:
        return _send_back(visit, back)
    if visit.request.method == "POST" and "decision" in visit.form:
        return _decide(visit, asked)
    return _page(visit, asked)


def _decide(visit: Visit, asked: authorization.Asked) -> HttpResponseBase:
    if visit.form["decision"] != "allow":
        return _leave(authorization.answer_no(visit.request, asked))
    if not _was_shown(visit, asked):
        return _page(visit, asked, refusal="This page was open for too long, or the agent has changed. Read it again.")
    wanted = set(visit.request.POST.getlist("scope"))
    chosen = tuple(offer.name for offer in _offers(visit, asked) if offer.is_usable and offer.name in wanted)
    directory = _chosen_directory(visit)
    if not chosen or directory is None:
        missing = "Choose the directory." if directory is None else "Leave the agent at least one thing, or refuse."
        return _page(visit, asked, refusal=missing, chosen=chosen)
    person = visit.request.user
    assert isinstance(person, Person)  # a visit is a signed-in person's
    consent = Consent(person=person, connection=directory, scopes=chosen, audience=audience_of(visit.request))
    try:
        with recorded(visit.call, operation="agents.create") as administration:
            location, grant = authorization.answer_with_code(visit.request, asked, consent)
            administration.note_new_row(grant)
    except authorization.SentBack as back:
        return _send_back(visit, back)
    return _leave(location)


def _page(
    visit: Visit, asked: authorization.Asked, *, refusal: str = "", chosen: tuple[str, ...] | None = None
) -> HttpResponseBase:
    offers = _offers(visit, asked, chosen)
    response = visit.render(
        "account/agent_connect.html",
        {
            "agent": shown(asked.client.name),
            "registered_by_itself": asked.client.registration_source != AgentClient.RegistrationSource.MANUAL,
            "target": asked.redirect_uri,
            "is_loopback": redirects.is_loopback(asked.redirect_uri),
            "offers": offers,
            "may_anything": any(offer.is_usable for offer in offers),
            "directories": visit.directories,
            "directory": visit.form.get("directory", visit.directories[0].client_id if visit.directories else ""),
            "seal": _SEAL.sign(_what_is_shown(visit, asked)),
            "refusal": refusal,
        },
        status=400 if refusal else 200,
    )
    # Browsers hold a form to its page's policy also where its answer leads on to.
    response.form_target = redirects.origin_of(asked.redirect_uri)  # type: ignore[attr-defined]
    response["X-Frame-Options"] = "DENY"  # beside the policy's frame-ancestors, for browsers that do not know these
    return response


def _offers(visit: Visit, asked: authorization.Asked, chosen: tuple[str, ...] | None = None) -> list[_Offer]:
    lendable = usable(visit.call.permissions)
    return [
        _Offer(name, SCOPES[name], name in lendable, name in lendable and (chosen is None or name in chosen))
        for name in asked.scopes
    ]


def _chosen_directory(visit: Visit) -> DirectoryConnection | None:
    """The directory that was chosen, of those that the person works on; the only one need not be."""
    given = visit.form.get("directory")
    if given is None and len(visit.directories) == 1:
        return visit.directories[0]
    return next((item for item in visit.directories if item.client_id == given), None)


def _what_is_shown(visit: Visit, asked: authorization.Asked) -> str:
    """A digest of all that a yes on this page means: whose, on which request, by whom, and where it goes."""
    facts: list[Any] = [
        visit.call.credential.id,
        visit.request.META.get("QUERY_STRING", ""),
        str(asked.client.pk),
        asked.client.name,
        asked.redirect_uri,
        asked.scopes,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _was_shown(visit: Visit, asked: authorization.Asked) -> bool:
    try:
        sealed = _SEAL.unsign(visit.form.get("seal", ""), max_age=_READ_WITHIN)
    except BadSignature:
        return False
    return constant_time_compare(sealed, _what_is_shown(visit, asked))


def _send_back(visit: Visit, back: authorization.SentBack) -> HttpResponseBase:
    """To the agent, with what is wrong with its request.

    At once where that is the person's own machine, or an address that an administrator has given. Anywhere else only
    the person goes there: or anybody could make an address of the gateway lead to theirs (RFC 9700 section 4.11.2).
    """
    if back.is_trusted:
        return _leave(back.location)
    context = {"why": back.why, "target": back.location}
    return visit.render("account/agent_not_asked.html", context, status=400)


def _leave(location: str) -> HttpResponseBase:
    response = HttpResponseRedirect(location)
    response["Cache-Control"] = "no-store"
    return response


urls = [path("connect-agent", connect_agent, name="connect-agent")]
