"""The consent page: an agent asks to act for the person, who sees what that means and takes away what they like.

It is never left out. What the agent asks is in the address; what was shown is sealed into the form, so that yes is said
to what was read. Where the answer goes was registered, and is shown.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpResponseBase, HttpResponseRedirect
from django.urls import path
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from audit.model_changes.recording import recorded
from console.page_context import PageContext, console_page
from core.text.unseen import with_unseen_marked
from directory.models import DirectoryConnection
from keys.agents import authorization, redirects
from keys.agents.extra import require_agents
from keys.agents.grants import Consent
from keys.agents.issuer_urls import audience_of
from keys.agents.scopes import SCOPES, Scope, usable
from keys.models import Person
from keys.models.agents import AgentClient

_READ_WITHIN = 15 * 60
"""Seconds from showing the page to the answer."""
_SEAL = TimestampSigner(salt="gateway.console.connect_agent")


@dataclass(frozen=True, slots=True)
class _ScopeChoice:
    """A scope that was asked for, as the page shows it. One that the person cannot lend is shown, not offered."""

    name: str
    scope: Scope
    is_usable: bool
    is_chosen: bool


@console_page("GET", "POST")
def connect_agent(page: PageContext) -> HttpResponseBase:
    require_agents()
    try:
        asked = authorization.read_request(page.request)
    except authorization.NotAsked as refusal:
        return page.render("account/agent_not_asked.html", {"why": refusal.why}, status=400)
    except authorization.SentBack as back:
        return _send_back(page, back)
    if page.request.method == "POST" and "decision" in page.form:
        return _decide(page, asked)
    return _page(page, asked)


def _decide(page: PageContext, asked: authorization.Asked) -> HttpResponseBase:
    if page.form["decision"] != "allow":
        return _leave(authorization.answer_no(page.request, asked))
    if not _was_shown(page, asked):
        return _page(
            page, asked, refusal=_("This page was open for too long, or the agent has changed. Read it again.")
        )
    wanted = set(page.request.POST.getlist("scope"))
    chosen = tuple(choice.name for choice in _choices(page, asked) if choice.is_usable and choice.name in wanted)
    directory = _chosen_directory(page)
    if not chosen or directory is None:
        missing = (
            _("Choose the directory.") if directory is None else _("Leave the agent at least one thing, or refuse.")
        )
        return _page(page, asked, refusal=missing, chosen=chosen)
    person = page.request.user
    assert isinstance(person, Person)  # pages are for signed-in people
    consent = Consent(person=person, connection=directory, scopes=chosen, audience=audience_of(page.request))
    try:
        with recorded(page.call, operation="agents.create") as administration:
            location, grant = authorization.answer_with_code(page.request, asked, consent)
            administration.note_new_row(grant)
    except authorization.SentBack as back:
        return _send_back(page, back)
    return _leave(location)


def _page(
    page: PageContext, asked: authorization.Asked, *, refusal: str = "", chosen: tuple[str, ...] | None = None
) -> HttpResponseBase:
    choices = _choices(page, asked, chosen)
    response = page.render(
        "account/agent_connect.html",
        {
            "agent": with_unseen_marked(asked.client.name),
            "registered_by_itself": asked.client.registration_source != AgentClient.RegistrationSource.MANUAL,
            "target": asked.redirect_uri,
            "is_loopback": redirects.is_loopback(asked.redirect_uri),
            "choices": choices,
            "may_anything": any(choice.is_usable for choice in choices),
            "directories": page.directories,
            "directory": page.form.get("directory", page.directories[0].client_id if page.directories else ""),
            "seal": _SEAL.sign(_what_is_shown(page, asked)),
            "refusal": refusal,
        },
        status=400 if refusal else 200,
    )
    # Browsers hold a form to its page's policy also where its answer leads on to.
    response.form_target = redirects.origin_of(asked.redirect_uri)  # type: ignore[attr-defined]
    response["X-Frame-Options"] = "DENY"  # beside the policy's frame-ancestors, for browsers that do not know these
    return response


def _choices(
    page: PageContext, asked: authorization.Asked, chosen: tuple[str, ...] | None = None
) -> list[_ScopeChoice]:
    lendable = usable(page.call.permissions)
    return [
        _ScopeChoice(name, SCOPES[name], name in lendable, name in lendable and (chosen is None or name in chosen))
        for name in asked.scopes
    ]


def _chosen_directory(page: PageContext) -> DirectoryConnection | None:
    """The directory that was chosen, of those that the person works on; the only one need not be."""
    given = page.form.get("directory")
    if given is None and len(page.directories) == 1:
        return page.directories[0]
    return next((item for item in page.directories if item.client_id == given), None)


def _what_is_shown(page: PageContext, asked: authorization.Asked) -> str:
    """A digest of all that a yes on this page means: whose, on which request, by whom, and where it goes."""
    facts: list[Any] = [
        page.call.credential.id,
        page.request.META.get("QUERY_STRING", ""),
        str(asked.client.pk),
        asked.client.name,
        asked.redirect_uri,
        asked.scopes,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _was_shown(page: PageContext, asked: authorization.Asked) -> bool:
    try:
        sealed = _SEAL.unsign(page.form.get("seal", ""), max_age=_READ_WITHIN)
    except BadSignature:
        return False
    return constant_time_compare(sealed, _what_is_shown(page, asked))


def _send_back(page: PageContext, back: authorization.SentBack) -> HttpResponseBase:
    """To the agent, with what is wrong with its request.

    At once where that is the person's own machine, or an address that an administrator has given. Anywhere else only
    the person goes there: or anybody could make an address of the gateway lead to theirs (RFC 9700 section 4.11.2).
    """
    if back.is_trusted:
        return _leave(back.location)
    context = {"why": back.why, "target": back.location}
    return page.render("account/agent_not_asked.html", context, status=400)


def _leave(location: str) -> HttpResponseBase:
    response = HttpResponseRedirect(location)
    response["Cache-Control"] = "no-store"
    return response


urls = [path("connect-agent", connect_agent, name="connect-agent")]
