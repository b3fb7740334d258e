"""The authorization request of an agent: what it asks a person for, and what it is answered.

What it asks is read from the address alone, at the consent page and again when the person has decided: a form that was
sent along cannot change it. Whoever it is, an answer goes to a registered address or nowhere.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.http import HttpRequest
from django.utils.translation import gettext
from oauthlib.oauth2 import FatalClientError, OAuth2Error

from keys.agents import redirects
from keys.agents import scopes as table
from keys.agents.grants import Consent
from keys.agents.issuer_urls import issuer_of
from keys.agents.metadata_documents import learn
from keys.agents.server import oauth, require_audience
from keys.models.agents import AgentClient, AgentGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that may be put to a person: by whom, for which scopes, and where the answer goes."""

    client: AgentClient
    redirect_uri: str
    state: str | None
    scopes: list[str]


class NotAsked(Exception):
    """The request is good for nothing, and nobody can be told but whoever is looking at the page."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class SentBack(Exception):
    """The request is wrong; its agent is told so at `location`.

    `is_trusted` when that is on the person's own machine, or was given by an administrator.
    """

    def __init__(self, location: str, why: str, *, is_trusted: bool) -> None:
        super().__init__(location)
        self.location, self.why, self.is_trusted = location, why, is_trusted


def read_request(request: HttpRequest) -> Asked:
    """What an agent asks for; raises NotAsked or SentBack."""
    learn(request.GET.get("client_id", ""))
    try:
        scopes, facts = oauth().read_authorization_request(request)
    except FatalClientError as error:
        raise NotAsked(error.description or error.error) from None
    except ValueError:  # a query that cannot be read in one way
        raise NotAsked(gettext("The address cannot be read.")) from None
    except OAuth2Error as error:
        if not error.redirect_uri:
            raise NotAsked(error.description or error.error or "") from None
        raise _sent_back(request, error.redirect_uri, error.state, error) from None
    asked = Asked(
        client=facts["request"].client,
        redirect_uri=facts["redirect_uri"],
        state=facts["state"],
        scopes=table.known(scopes),
    )
    try:
        require_audience(request, request.GET.getlist("resource"))
    except OAuth2Error as error:
        raise _sent_back(request, asked.redirect_uri, asked.state, error) from None
    return asked


def answer_with_code(request: HttpRequest, asked: Asked, consent: Consent) -> tuple[str, AgentGrant]:
    """Where the person goes with the code of what they have consented to, and the grant that it is for.

    Joins the caller's transaction. Raises SentBack when the request has become wrong meanwhile.
    """
    location, grant = oauth().issue_code(request, asked.redirect_uri, asked.state, consent)
    location = _with(request, location, {})
    if grant is None:
        raise SentBack(
            location, gettext("The request of the agent is wrong."), is_trusted=redirects.is_loopback(location)
        )
    return location, grant


def answer_no(request: HttpRequest, asked: Asked) -> str:
    """Where the person goes who has refused."""
    state = {"state": asked.state} if asked.state else {}
    return _with(request, asked.redirect_uri, {"error": "access_denied", **state})


def _sent_back(request: HttpRequest, redirect_uri: str, state: str | None, error: OAuth2Error) -> SentBack:
    told = {"error": error.error or "invalid_request", "error_description": error.description or ""}
    location = _with(request, redirect_uri, {**told, **({"state": state} if state else {})})
    by_hand = AgentClient.objects.filter(
        client_id=request.GET.get("client_id", ""), registration_source=AgentClient.RegistrationSource.MANUAL
    )
    is_trusted = redirects.is_loopback(redirect_uri) or by_hand.exists()
    return SentBack(location, error.description or error.error or "", is_trusted=is_trusted)


def _with(request: HttpRequest, address: str, parameters: dict[str, str]) -> str:
    """An address with parameters, and with who answers (RFC 9207), which nothing in it may contradict."""
    parts = urlsplit(address)
    known = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "iss"]
    told = [(name, value) for name, value in parameters.items() if value]
    query = urlencode([*known, *told, ("iss", issuer_of(request))])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
