"""Whose turn a request takes at the threads: that of its credential, or else of its address. Authenticates nobody."""

from collections import OrderedDict

from django.conf import settings
from django.http.cookie import parse_cookie

from core.network.ip_addresses import KnownAddresses
from core.rate_limits import address_subject
from gateway.middleware.client_address import forwarded_address, peer_address
from gateway.server.environ import Environ
from keys.callers import IS_IDENTIFIED

MOST_SESSIONS = 10_000
_TAKE_KEYS = ("/api/", "/ad/", "/mcp/")
"""Below these a key or token is the credential, below all others a session."""


class Claimants:
    """Tells claimants apart before anybody has looked at a credential.

    Keys and tokens are taken at their word: a wrong one is refused within a millisecond, whoever's turn it takes. A
    request with a session cookie may be a sign-in, which takes longer: only a session that was let in before counts.
    """

    def __init__(self) -> None:
        self._proxies = KnownAddresses(settings.CONFIGURATION.ForwardedHeaders.KnownProxies)
        self._sessions: OrderedDict[str, None] = OrderedDict()

    def find(self, environ: Environ) -> str:
        """The claimant of a request: the same for every way in which its credential may be written."""
        if f"{environ['PATH_INFO']}/".startswith(_TAKE_KEYS):
            presented = environ.get("HTTP_X_API_KEY") or environ.get("HTTP_AUTHORIZATION")
            if presented and (words := presented.split()):
                last: str = words[-1]
                return last
        elif (session := _session(environ)) in self._sessions:
            self._sessions.move_to_end(session)
            return session
        address = peer_address(environ.get("REMOTE_ADDR", ""))
        return address_subject(str(forwarded_address(address, environ.get("HTTP_X_FORWARDED_FOR", ""), self._proxies)))

    def learn(self, environ: Environ) -> None:
        """Remember the session of a request that was answered, if it is one."""
        if IS_IDENTIFIED not in environ or not (session := _session(environ)):
            return
        self._sessions[session] = None
        self._sessions.move_to_end(session)
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)


def _session(environ: Environ) -> str:
    cookies = environ.get("HTTP_COOKIE")
    session: str = parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, "") if cookies else ""
    return session
