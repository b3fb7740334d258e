"""The sign-in of an agent by hand: what its program sends, and what its person does."""

import base64
import hashlib
import json
import re
import secrets
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from django.test import Client

from tests.support.cast import Answer, Console, send

AUDIENCE = "http://testserver/mcp"
LOOPBACK = "http://127.0.0.1:53682/callback"
CHANGE = "read change"


@dataclass
class Program:
    """An agent's program. It has a browser of its own for nothing: only its person has one."""

    client_id: str = ""
    redirect_uri: str = LOOPBACK
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    state: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    http: Client = field(default_factory=Client, repr=False)

    def register(self, **metadata: Any) -> Answer:
        """Registration (RFC 7591); keeps the id that it is given."""
        given = {
            "client_name": "Claude",
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none",
            **metadata,
        }
        answer = send(self.http, "POST", "/oauth/register", given)
        if answer.status == 201:
            self.client_id = answer.body["client_id"]
        return answer

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def address(self, **changed: Any) -> str:
        """Where the program sends its person; None leaves a parameter out, a list repeats it."""
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": CHANGE,
            "state": self.state,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "resource": AUDIENCE,
            **changed,
        }
        known = {name: value for name, value in parameters.items() if value is not None}
        return f"/console/connect-agent?{urlencode(known, doseq=True)}"

    def exchange(self, code: str, **changed: Any) -> Answer:
        """The code for tokens."""
        parameters = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            "resource": AUDIENCE,
        }
        return self.ask("/oauth/token", **{**parameters, **changed})

    def refresh(self, token: str, **changed: Any) -> Answer:
        """A refresh token for others."""
        return self.ask(
            "/oauth/token",
            **{"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id, **changed},
        )

    def revoke(self, token: str, **changed: Any) -> Answer:
        return self.ask("/oauth/revoke", **{"token": token, "client_id": self.client_id, **changed})

    def ask(self, path: str, **parameters: Any) -> Answer:
        """A form to one of the endpoints, with the host that `HTTP_HOST` names."""
        host = parameters.pop("HTTP_HOST", "testserver")
        known = {name: value for name, value in parameters.items() if value is not None}
        response = self.http.post(
            path, urlencode(known, doseq=True), content_type="application/x-www-form-urlencoded", HTTP_HOST=host
        )
        is_json = "json" in response.headers.get("Content-Type", "") and response.content
        return Answer(response.status_code, json.loads(response.content) if is_json else None, response.headers)


def fields_of(page: bytes) -> dict[str, str]:
    """The hidden fields of the consent form."""
    found = re.findall(rb'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
    return {name.decode(): unescape(value.decode()) for name, value in found if name != b"csrfmiddlewaretoken"}


def decide(console: Console, address: str, *, decision: str = "allow", **fields: Any) -> Answer:
    """Open the consent page and send its form with all that was asked for, or with these fields in their place."""
    page = console.client.get(address)
    assert page.status_code == 200, (page.status_code, page.content[-3000:])
    asked = dict(parse_qsl(urlsplit(address).query)).get("scope", "read").split()
    return console.submit(address, **{**fields_of(page.content), "scope": asked, "decision": decision, **fields})


def answer_in(answer: Answer) -> dict[str, str]:
    """The parameters that the person's browser brings to the agent."""
    assert answer.status == 302, answer
    found = parse_qs(urlsplit(answer.headers["Location"]).query)
    assert all(len(values) == 1 for values in found.values()), found
    return {name: values[0] for name, values in found.items()}


def sign_in(console: Console, **changed: Any) -> tuple[Program, dict[str, Any]]:
    """A program that a person has let do what it asked for, with its tokens."""
    program = Program()
    assert program.register().status == 201
    told = answer_in(decide(console, program.address(**changed)))
    answer = program.exchange(told["code"])
    assert answer.status == 200, answer
    return program, answer.body
