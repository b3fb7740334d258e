"""Sends requests with the key, again where that is safe. The gateway carries out one idempotency key once."""

import http.client
import json
import os
import ssl
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from dirgate.failures import Exit, Failure, Refused

_ATTEMPTS: Final = 5
_LONGEST_WAIT: Final = 60.0
_SECONDS: Final = 90.0
_PASSING: Final = frozenset({429, 503})
"""A limit is reached, or a part of the gateway is away: nothing was changed."""
_AT_ONCE: Final = 65536


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the gateway is, and who calls."""

    url: str
    key: str
    client_id: str | None = None
    ca_file: str | None = None


def settings_file() -> Path:
    """Where `dirgate login` keeps the address and the key."""
    base = os.environ.get("APPDATA") if os.name == "nt" else os.environ.get("XDG_CONFIG_HOME")
    return Path(base or Path.home() / ".config") / "dirgate" / "settings.json"


def load_settings(*, url: str | None = None, client_id: str | None = None) -> Settings:
    """The settings of the environment, else those that `dirgate login` kept. Raises Failure if something is missing.

    A kept key is sent to the address that it was kept with, and to no other one.
    """
    environment = os.environ
    kept = _kept()
    address = url or environment.get("GATEWAY_URL") or kept.get("url")
    if not address:
        raise Failure("The gateway's address is missing: run `dirgate login`, or set GATEWAY_URL.")
    key = environment.get("GATEWAY_KEY")
    if not key and (file := environment.get("GATEWAY_KEY_FILE")):
        key = _private_text(Path(file)).strip()
    if not key and address.rstrip("/") == kept.get("url"):
        key = kept.get("key")
    if not key:
        raise Failure("The API key is missing: run `dirgate login`, or set GATEWAY_KEY_FILE or GATEWAY_KEY.")
    return Settings(
        url=check_address(address),
        key=key,
        client_id=client_id or environment.get("GATEWAY_CLIENT_ID") or kept.get("clientId"),
        ca_file=environment.get("GATEWAY_CA_FILE") or kept.get("caFile"),
    )


def keep_settings(settings: Settings) -> Path:
    """Keep settings for the commands to come, in a file that only its owner reads."""
    file = settings_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = {
        "url": settings.url, "key": settings.key, "clientId": settings.client_id, "caFile": settings.ca_file
    }  # fmt: skip
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        json.dump(content, stream)
    new.replace(file)
    return file


def check_address(address: str) -> str:
    """The address without its slash. Raises Failure for one that is none, or would send the key unencrypted."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise Failure(f"{address} is no address of a gateway, such as https://gateway.corp.example.")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise Failure(f"{address} would send the API key unencrypted: use https.")
    return address.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _kept() -> dict[str, Any]:
    file = settings_file()
    if not file.exists():
        return {}
    try:
        found = json.loads(_private_text(file))
    except ValueError:
        raise Failure(f"{file} is damaged: run `dirgate login` again.") from None
    return found if isinstance(found, dict) else {}


def _private_text(file: Path) -> str:
    """The text of a file with a secret. Raises Failure if others may read it."""
    try:
        with file.open(encoding="utf-8") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if os.name != "nt" and stat.S_IMODE(mode) & 0o077:
                raise Failure(f"Others may read {file}, which holds a key: run `chmod 600 {file}`.")
            return stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{file} cannot be read: {error}.") from None


class Answer(NamedTuple):
    """An answer that is no refusal; its `document` is None where it is empty. `end` will undo the change."""

    status: int
    document: Any
    end: str | None = None


class Gateway:
    """A connection that is kept open between requests."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        parts = urlsplit(settings.url)
        self._prefix = parts.path
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            try:
                context = ssl.create_default_context(cafile=settings.ca_file)
            except OSError as error:
                raise Failure(f"The certificates in {settings.ca_file} cannot be used: {error}.") from None
            self._connection = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=_SECONDS, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_SECONDS)

    def get(self, path: str, **query: Any) -> Any:
        """What a read answers. Raises Failure."""
        return self.send("GET", path, query=query).document

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> Answer:
        """Send a request until it is answered. Raises Refused and, if the gateway cannot be reached, Failure."""
        response = self._answered(method, path, query or {}, headers or {}, body)
        content = self._read(response)
        end = response.getheader("Gateway-Scheduled-End")
        return Answer(response.status, _document(content) if content else None, end)

    def stream(self, path: str, query: Mapping[str, Any], media_type: str) -> Iterator[bytes]:
        """The parts of an answer that may be long. Raises as `send`."""
        response = self._answered("GET", path, query, {"Accept": media_type}, None)
        while part := self._read(response, _AT_ONCE):
            yield part

    def _read(self, response: http.client.HTTPResponse, at_most: int | None = None) -> bytes:
        try:
            return response.read(at_most)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Failure(f"The answer broke off: {_reason(error)}.", Exit.UNREACHABLE) from None

    def _answered(
        self, method: str, path: str, query: Mapping[str, Any], headers: Mapping[str, str], body: Any
    ) -> http.client.HTTPResponse:
        target = f"{self._prefix}{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        content = None if body is None else json.dumps(body).encode()
        sent = {"Accept": "application/json", "User-Agent": "dirgate", **headers, "X-API-Key": self._settings.key}
        if content is not None:
            sent["Content-Type"] = "application/json"
        if self._settings.client_id:
            sent["X-Client-Id"] = self._settings.client_id
        failure = ""
        for attempt in range(_ATTEMPTS):
            wait = min(2.0**attempt / 2, _LONGEST_WAIT)
            try:
                self._connection.request(method, target, body=content, headers=sent)
                response = self._connection.getresponse()
            except ssl.SSLCertVerificationError as error:
                raise Failure(
                    f"The certificate of {self._settings.url} is not trusted: {error.verify_message}. "
                    "GATEWAY_CA_FILE names a file with the certificate authority.",
                    Exit.UNREACHABLE,
                ) from None
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                failure = _reason(error)
            else:
                if response.status < 300:
                    return response
                problem = _document(self._read(response))
                problem = problem if isinstance(problem, dict) else {}
                wait = _seconds(response.getheader("Retry-After"), default=wait)
                if not _is_passing(response.status, problem) or wait > _LONGEST_WAIT or attempt + 1 == _ATTEMPTS:
                    raise Refused(response.status, problem)
            if attempt + 1 < _ATTEMPTS:
                time.sleep(wait)
        raise Failure(f"{self._settings.url} does not answer: {failure}.", Exit.UNREACHABLE)


def _is_passing(status: int, problem: Mapping[str, Any]) -> bool:
    """Whether to send it again: a limit, a part that is away, or an earlier attempt that is still being carried out."""
    return status in _PASSING or (status == 409 and problem.get("code") == "Idempotency.InProgress")


def _seconds(value: str | None, *, default: float) -> float:
    return float(value) if value and value.isdigit() else default


def _document(content: bytes) -> Any:
    """The JSON of an answer; a proxy may have answered in words of its own."""
    try:
        return json.loads(content)
    except ValueError:
        return {"detail": "The answer is not the gateway's"}


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def header_text(text: str) -> str:
    """Text of any language as a header takes it."""
    return quote(text, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")
