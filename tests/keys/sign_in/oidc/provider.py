"""A real provider of OpenID Connect on loopback, which misbehaves where a test asks it to."""

import hmac
import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import flask
import oidc_provider_mock
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jws, jwt
from joserfc.jwk import OctKey, RSAKey
from werkzeug.serving import make_server

CLIENT = "gateway"
SECRET = "the client's secret: ü"


@dataclass
class Provider:
    """`twist` changes claims, `header` the header of the next ID tokens; `metadata` is added to the metadata."""

    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True))
    signs_with: Any = None
    is_away: bool = False
    fetched: list[str] = field(default_factory=list)
    issuer: str = ""
    challenges: dict[str, str] = field(default_factory=dict)

    def sign(self, claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
        """A token of the provider's, with the claims as they are."""
        return self._sign({"alg": "RS256", "kid": self.key.kid, **(header or {})}, claims)

    def _sign(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        if header["alg"] == "none":
            return jwt.encode(header, claims, OctKey.import_key("x"), algorithms=["none"])
        if header["alg"] == "HS256":  # with what everybody knows
            parts = [urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
            signature = hmac.digest(self.key.as_pem(private=False), b".".join(parts), "sha256")
            return b".".join([*parts, urlsafe_b64encode(signature).rstrip(b"=")]).decode()
        return jwt.encode(header, claims, self.signs_with or self.key, algorithms=[header["alg"]])

    def authenticate(self, address: str, sub: str = "ada") -> str:
        """Where the browser comes out once the person has signed in there."""
        posted = Request(address, data=f"sub={sub}".encode(), method="POST")  # noqa: S310
        with _OPENER.open(posted) as response:
            return str(response.headers["Location"])


class _NoRedirect(HTTPRedirectHandler):
    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        return fp


_OPENER = build_opener(_NoRedirect)


@contextmanager
def running_provider() -> Iterator[Provider]:
    """A provider that anybody signs in at, with any name."""
    provider = Provider()
    app = oidc_provider_mock.app()

    @app.before_request  # type: ignore[untyped-decorator]
    def behave() -> Any:
        path = flask.request.path
        provider.fetched.append(path)
        if provider.is_away:
            return "", 503
        if path == "/jwks":
            return flask.jsonify({"keys": [provider.key.as_dict(private=False)]})
        if path == "/oauth2/token":
            given, code = flask.request.form, flask.request.form["code"]
            if create_s256_code_challenge(given["code_verifier"]) != provider.challenges.get(code):
                return flask.jsonify({"error": "invalid_grant"}), 400
        return None

    @app.after_request  # type: ignore[untyped-decorator]
    def misbehave(response: flask.Response) -> flask.Response:
        path = flask.request.path
        if path == "/oauth2/authorize" and (place := response.headers.get("Location")):
            asked = flask.request.args
            assert asked["code_challenge_method"] == "S256"
            if code := dict(parse_qsl(urlsplit(place).query)).get("code"):
                provider.challenges[code] = asked["code_challenge"]
        elif response.status_code == 200 and path == "/.well-known/openid-configuration":
            response.data = json.dumps({**response.get_json(), **provider.metadata})
        elif response.status_code == 200 and path == "/oauth2/token":
            answer = response.get_json()
            claims = json.loads(jws.extract_compact(answer["id_token"].encode()).payload)
            changed = {**claims, "iss": provider.issuer, **provider.claims}
            changed = {name: value for name, value in changed.items() if value is not None}
            answer["id_token"] = provider.sign(changed, provider.header)
            response.data = json.dumps(answer)
        return response

    server = make_server("localhost", 0, app, threaded=True)
    provider.issuer = f"http://localhost:{server.port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


Twist = Callable[[Provider], Any]
