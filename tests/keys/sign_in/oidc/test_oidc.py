"""Signing in at a provider, which is a real one, and every way in which its answer must not be believed."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from joserfc.jwk import RSAKey
from structlog.testing import capture_logs

from audit.models import EndpointFormat, WebhookDelivery, WebhookEndpoint
from core.configuration_sections import OidcProvider
from directory.models import DirectoryConnection
from keys.models import Person, PersonSession
from keys.sign_in import break_glass, second_factor
from keys.sign_in.oidc import providers
from keys.sign_in.oidc.tokens import NotVerified, verify_id_token
from lab.directory import Directory, filetime
from lab.domain import Domain
from tests.audit.calls import CALL
from tests.keys.authenticator import code_of
from tests.keys.sign_in.oidc.provider import CLIENT, SECRET, Provider, Twist, running_provider
from tests.support.cast import PASSWORD, Console, make_connection, make_person
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db
EVENT: dict[str, Any] = {"http://schemas.openid.net/event/backchannel-logout": {}}
LOGOUT = {"typ": "logout+jwt"}


@pytest.fixture(scope="module")
def two_providers() -> Iterator[tuple[Provider, Provider]]:
    with running_provider() as one, running_provider() as other:
        yield one, other


@pytest.fixture
def provider(two_providers: tuple[Provider, Provider], configure: Configure, tmp_path: Path) -> Provider:
    """The first of two configured providers, both as they should be."""
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    configured = []
    for name, each in zip(("staff", "other"), two_providers, strict=True):
        each.claims, each.header, each.metadata, each.is_away, each.signs_with = {}, {}, {}, False, None
        each.fetched.clear()
        configured.append(
            OidcProvider(
                Name=name,
                Label=f"The {name} account",
                Issuer=each.issuer,
                ClientId=CLIENT,
                ClientSecretFile=str(tmp_path / "secret"),
                Claim="account",
                ClaimNames="objectGUID",
            )
        )
    configure("SignIn", Oidc=tuple(configured))
    configure("Webhooks", AllowedNetworks=("127.0.0.0/8", "::1/128"), AllowPlainHttp=True)
    providers._fetched.clear()
    return two_providers[0]


@pytest.fixture
def ada(domain: Domain, directory: Directory, organizational_unit: str, provider: Provider) -> UUID:
    """An account of the directory, which the provider's claim names."""
    make_connection(domain, name="corp")
    guid = directory.add_user(
        "Ada Lovelace", parent=organizational_unit, sAMAccountName="ada.l", userPrincipalName="ada@corp.example.test"
    )
    directory.modify(guid, userAccountControl="544")
    provider.claims["account"] = str(guid)
    return guid


def begin(client: Client, name: str = "staff") -> str:
    response = client.get(f"/console/sign-in/at/{name}?next=/console/changes/")
    assert response.status_code == 302
    return str(response["Location"])


def come_back(client: Client, place: str, **changes: str | None) -> Any:
    """Follow the provider's redirect, with changed parameters."""
    parts = urlsplit(place)
    query = {**dict(parse_qsl(parts.query)), **changes}
    return client.get(f"{parts.path}?{urlencode({name: value for name, value in query.items() if value is not None})}")


def sign_in(client: Client, provider: Provider, **changes: str | None) -> Any:
    return come_back(client, provider.authenticate(begin(client)), **changes)


def is_signed_in(client: Client) -> bool:
    return client.get("/rest/session").status_code == 200


def why_refused(client: Client, provider: Provider, **changes: str | None) -> str:
    """Why the log says that nobody was signed in."""
    with capture_logs() as logs:
        response = sign_in(client, provider, **changes)
    assert (response.status_code, response["Location"]) == (302, "/console/sign-in")
    assert not is_signed_in(client)
    (line,) = [line for line in logs if line["event"] == "credential refused"]
    return str(line["problem"])


def test_it_works(client: Client, provider: Provider, ada: UUID, directory: Directory) -> None:
    page = client.get("/console/sign-in").content.decode()
    assert "Sign in with The staff account" in page
    assert 'name="password"' in page
    assert (response := sign_in(client, provider))["Location"] == "/console/changes/", response
    person = Person.objects.get(object_guid=ada)
    session = PersonSession.objects.get(person=person)
    assert (session.provider, session.provider_subject) == ("staff", "ada")
    assert client.get("/rest/session").json()["user"]["username"] == "corp\\ada.l"
    # Whoever has a second factor is asked for its code, too, and the session is still one of the provider's.
    enrolment = second_factor.enrol(person)
    second_factor.confirm(CALL, person, code_of(enrolment.secret, steps=-1))
    browser = Client()
    assert sign_in(browser, provider)["Location"].startswith("/console/sign-in/code")
    assert not is_signed_in(browser)
    browser.post("/console/sign-in/code", {"code": code_of(enrolment.secret)})
    assert is_signed_in(browser)
    # At the sign-out the browser goes on to the provider, which is told which of its sessions that was.
    left = browser.post("/console/sign-out")
    assert not is_signed_in(browser)
    place = urlsplit(left["Refresh"].partition("url=")[2])
    assert f"{place.scheme}://{place.netloc}{place.path}" == f"{provider.issuer}/oauth2/end_session"
    asked = dict(parse_qsl(place.query))
    assert asked["post_logout_redirect_uri"] == "http://testserver/console/sign-in"
    assert asked["id_token_hint"].count(".") == 2


def test_a_prepared_person_is_found(client: Client, provider: Provider, ada: UUID) -> None:
    grace = Console(make_person("grace", superuser=True))
    body = {"directory": str(DirectoryConnection.objects.get().pk), "account": str(ada)}
    made = grace.post("/rest/users/prepare", body).body["id"]
    assert grace.patch(f"/rest/users/{made}", {"permissions": ["directory.read_object"]}).status == 200
    sign_in(client, provider)
    assert client.get("/rest/me").json()["permissions"] == ["directory.read_object"]


def _exchange_keys(provider: Provider) -> None:
    provider.signs_with = RSAKey.generate_key(2048, auto_kid=True)


NOW = int(time.time())
LIES: dict[str, tuple[Twist, str]] = {
    "wrong issuer": (lambda it: it.claims.update(iss="https://evil.example"), "iss"),
    "wrong audience": (lambda it: it.claims.update(aud="another"), "aud"),
    "no audience": (lambda it: it.claims.update(aud=None), "aud"),
    "several audiences without azp": (lambda it: it.claims.update(aud=[CLIENT, "another"]), "azp"),
    "wrong azp": (lambda it: it.claims.update(azp="another"), "azp"),
    "wrong nonce": (lambda it: it.claims.update(nonce="of another"), "nonce"),
    "no nonce": (lambda it: it.claims.update(nonce=None), "nonce"),
    "wrong at_hash": (lambda it: it.claims.update(at_hash="AAAA"), "at_hash"),
    "expired": (lambda it: it.claims.update(exp=NOW - 3600, iat=NOW - 7200), "expired"),
    "no expiry": (lambda it: it.claims.update(exp=None), "exp"),
    "issued in the future": (lambda it: it.claims.update(iat=NOW + 7200, exp=NOW + 9000), "in the future"),
    "no subject": (lambda it: it.claims.update(sub=None), "sub"),
    "algorithm none": (lambda it: it.header.update(alg="none"), "algorithm none"),
    "signed with the public key": (lambda it: it.header.update(alg="HS256"), "algorithm HS256"),
    "algorithm not on the list": (lambda it: it.header.update(alg="RS512"), "algorithm RS512"),
    "signed with another key": (_exchange_keys, "bad_signature"),
    "unknown key": (lambda it: it.header.update(kid="unknown"), "kid"),
    "a claim that names nobody": (lambda it: it.claims.update(account=str(uuid4())), "no account"),
    "a claim that is none": (lambda it: it.claims.update(account=["ada.l"]), "no text"),
    "only an e-mail address": (lambda it: it.claims.update(account=None, email="ada@corp.example.test"), "no account"),
}


def test_what_is_not_believed(client: Client, provider: Provider, ada: UUID) -> None:
    told = {}
    for lie, (twist, _) in LIES.items():
        provider.claims, provider.header, provider.signs_with = {"account": str(ada)}, {}, None
        twist(provider)
        told[lie] = why_refused(client, provider)
    assert [lie for lie, (_, why) in LIES.items() if why not in told[lie]] == [], told
    assert not Person.objects.filter(object_guid=ada).exists()


def test_an_answer_belongs_to_one_browser_one_provider_and_one_sign_in(
    client: Client, provider: Provider, two_providers: tuple[Provider, Provider], ada: UUID
) -> None:
    other = two_providers[1]
    assert "state" in why_refused(client, provider, state="another")
    assert "iss" in why_refused(client, provider, iss=other.issuer)
    assert "access_denied" in why_refused(client, provider, code=None, error="access_denied")
    assert "exchanged" in why_refused(client, provider, code="another")
    provider.metadata = {"authorization_response_iss_parameter_supported": True}
    providers._fetched.clear()
    assert "iss" in why_refused(client, provider)
    assert sign_in(client, provider, iss=provider.issuer)["Location"] == "/console/changes/"
    # The answer comes to another browser, the second time with a state of its own; again; and to another provider.
    place = provider.authenticate(begin(Client()))
    state = dict(parse_qsl(urlsplit(begin(victim := Client())).query))["state"]
    assert not is_signed_in(victim)
    assert come_back(victim, place)["Location"] == "/console/sign-in"
    assert come_back(victim, place, state=state, iss=provider.issuer)["Location"] == "/console/sign-in"  # PKCE
    browser = Client()
    place = provider.authenticate(begin(browser))
    assert come_back(browser, place, iss=provider.issuer)["Location"] == "/console/changes/"
    browser.logout()
    assert come_back(browser, place, iss=provider.issuer)["Location"] == "/console/sign-in"
    # Even a refused answer uses its state up.
    place = provider.authenticate(begin(browser))
    for code in ("another", dict(parse_qsl(urlsplit(place).query))["code"]):
        with capture_logs() as logs:
            come_back(browser, place, code=code, iss=provider.issuer)
    assert [line["problem"] for line in logs if "problem" in line] == ["no sign-in of this browser has this state"]
    mixed = other.authenticate(begin(browser, "other")).replace("/at/other/", "/at/staff/")
    before = provider.fetched.count("/oauth2/token")
    assert come_back(browser, mixed, iss=provider.issuer)["Location"] == "/console/sign-in"
    assert not is_signed_in(browser)
    assert provider.fetched.count("/oauth2/token") == before  # the other one's code never gets there


STATES: dict[str, Callable[[Directory, UUID], Any]] = {
    "disabled": lambda directory, ada: directory.modify(ada, userAccountControl="546"),
    "expired": lambda directory, ada: directory.modify(ada, userAccountControl="544", accountExpires=filetime(-60)),
    "no account": lambda directory, ada: directory.delete(ada),
}


def test_who_is_matched(
    client: Client, provider: Provider, ada: UUID, directory: Directory, configure: Configure, settings: Any
) -> None:
    staff = settings.CONFIGURATION.SignIn.Oidc[0]
    named = {"objectSid": directory.sid(ada), "userPrincipalName": "ADA@corp.example.test"}
    for kind, value in named.items():
        configure("SignIn", Oidc=(staff.model_copy(update={"ClaimNames": kind}),))
        provider.claims["account"] = value
        assert sign_in(Client(), provider)["Location"] == "/console/changes/", kind
    provider.claims["account"] = "*"
    assert "no account" in why_refused(client, provider)
    configure("SignIn", Oidc=(staff.model_copy(update={"Directory": "elsewhere"}),))
    provider.claims["account"] = str(ada)
    assert "no account" in why_refused(client, provider)
    configure("SignIn", Oidc=(staff,))
    person = Person.objects.get(object_guid=ada)
    Person.objects.filter(pk=person.pk).update(is_active=False)
    sign_in(client, provider)
    assert "switched off" in client.get("/console/sign-in").content.decode()
    assert not is_signed_in(client)
    Person.objects.filter(pk=person.pk).update(is_active=True)
    for why, change in STATES.items():
        change(directory, ada)
        assert why in why_refused(client, provider)


def test_keys_are_exchanged_and_the_provider_is_away(
    client: Client, provider: Provider, ada: UUID, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sign_in(client, provider)["Location"] == "/console/changes/"
    provider.key = RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)
    assert "kid" in why_refused(Client(), provider)  # keys were fetched a moment ago
    assert provider.fetched.count("/jwks") == 1
    monkeypatch.setattr(providers, "_PAUSE", 0.0)
    assert sign_in(Client(), provider)["Location"] == "/console/changes/"
    provider.is_away = True
    assert "not exchanged" in why_refused_away(provider)
    providers._fetched.clear()
    browser = Client()
    assert browser.get("/console/sign-in/at/staff")["Location"] == "/console/sign-in"
    assert "does not answer" in browser.get("/console/sign-in").content.decode()
    assert is_signed_in(client)
    asked = len(provider.fetched)
    assert browser.get("/console/sign-in/at/staff")["Location"] == "/console/sign-in"
    assert len(provider.fetched) == asked  # others need not wait for it at once
    providers._fetched.clear()
    provider.is_away, provider.metadata = False, {"issuer": "https://evil.example"}
    assert browser.get("/console/sign-in/at/staff")["Location"] == "/console/sign-in"
    providers._fetched.clear()
    provider.metadata = {}
    assert "the file" in refused_secret(settings, provider)


def why_refused_away(provider: Provider) -> str:
    """Away only once the browser comes back."""
    provider.is_away = False
    browser = Client()
    place = provider.authenticate(begin(browser))
    provider.is_away = True
    with capture_logs() as logs:
        come_back(browser, place)
    return str(logs[-1]["problem"])


def refused_secret(settings: Any, provider: Provider) -> str:
    Path(settings.CONFIGURATION.SignIn.Oidc[0].ClientSecretFile).unlink()
    return why_refused(Client(), provider)


def test_the_provider_ends_sessions(
    client: Client, provider: Provider, ada: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.claims["sid"] = "one"
    sign_in(client, provider)
    other = Client()
    provider.claims["sid"] = "two"
    sign_in(other, provider)
    now = int(time.time())
    good = {"iss": provider.issuer, "aud": CLIENT, "iat": now, "exp": now + 120, "events": EVENT, "sid": "one"}

    def tell(header: dict[str, Any] = LOGOUT, **changes: Any) -> int:
        claims = {"jti": str(uuid4()), **good, **changes}
        claims = {name: value for name, value in claims.items() if value is not None}
        token = provider.sign(claims, header)
        return (
            Client(enforce_csrf_checks=True, raise_request_exception=False)
            .post("/console/sign-in/at/staff/signed-out", {"logout_token": token})
            .status_code
        )

    bad: list[dict[str, Any]] = [
        *({"iss": "https://evil.example"}, {"aud": "another"}, {"exp": now - 600}, {"exp": None}, {"iat": now + 600}),
        *({"events": None}, {"events": {"another": {}}}, {"nonce": "one"}, {"jti": None}, {"sid": None}, {"sub": 7}),
        *({"header": {"typ": "at+jwt"}}, {"header": {"alg": "none"}}, {"header": {"alg": "HS256"}}),
    ]
    assert [tell(**changes) for changes in bad] == [400] * len(bad)
    assert tell(sid="unknown") == 200
    assert tell(sub="somebody else") == 200
    assert is_signed_in(client)
    assert is_signed_in(other)
    with monkeypatch.context() as outage:
        outage.setattr("keys.sign_in.sessions.end_at_provider", mock.Mock(side_effect=OperationalError))
        assert tell(jti="once") >= 500
    assert tell(jti="once") == 200  # sent again, since it ended nothing
    assert not is_signed_in(client)
    assert is_signed_in(other)
    assert tell(jti="once") == 400
    assert tell(sid=None, sub="ada", iat=now - 3600) == 200  # an old token is not for a session that has begun since
    assert is_signed_in(other)
    assert tell(sid=None, sub="ada") == 200
    assert not is_signed_in(other)


def test_a_logout_token_is_no_id_token(provider: Provider, settings: Any) -> None:
    staff, now = settings.CONFIGURATION.SignIn.Oidc[0], int(time.time())
    claims = {"iss": provider.issuer, "aud": CLIENT, "iat": now, "exp": now + 60, "events": EVENT, "sub": "ada"}
    with pytest.raises(NotVerified, match="nonce"):
        verify_id_token(staff, provider.sign(claims, LOGOUT), nonce="n", access_token=None)


def test_deciding_takes_what_the_provider_says(
    provider: Provider, ada: UUID, client: Client, configure: Configure
) -> None:
    def decide() -> str:
        Person.objects.filter(object_guid=ada).update(is_superuser=True)
        token = client.get("/rest/session").json()["csrfToken"]
        answer = client.post(
            f"/rest/change-requests/{uuid4()}/reject",
            {"comment": "No."},
            "application/json",
            headers={"X-CSRFToken": token},
        )
        return str(answer.json()["code"])

    configure("SignIn", ApproversNeedAcr=("phishing-resistant",), ApproversNeedAmr=("mfa",))
    sign_in(client, provider)
    assert decide() == "Auth.SignInTooWeak"
    provider.claims.update(acr="phishing-resistant", amr=["pwd"])
    sign_in(client, provider)
    assert decide() == "Auth.SignInTooWeak"
    provider.claims["amr"] = ["pwd", "mfa"]
    sign_in(client, provider)
    assert decide() == "Request.NotFound"


def test_who_has_just_come_from_there_needs_no_password(client: Client, provider: Provider, ada: UUID) -> None:
    """Their account may have none; a session found later does not suffice to set up a second factor or a passkey."""
    sign_in(client, provider)
    place = "/console/account/second-factor/set-up"
    PersonSession.objects.update(started_at=timezone.now() - timedelta(minutes=11))
    assert 'name="password"' in client.get(place).content.decode()
    assert client.post(place).status_code == 400
    PersonSession.objects.update(started_at=timezone.now())
    assert 'name="password"' not in client.get(place).content.decode()
    assert client.post(place)["Location"] == "/console/account/second-factor"


def test_a_trial_shows_whom_the_claims_name_and_signs_nobody_in(provider: Provider, ada: UUID) -> None:
    console = Console(make_person("grace", superuser=True))
    page = console.get("/console/people/providers/staff").body.decode()
    assert "http://testserver/console/sign-in/at/staff/return" in page
    assert 'class="notice bad"' not in page

    def trial(browser: Client = console.client) -> str:
        place = provider.authenticate(console.client.get("/console/people/providers/staff/try")["Location"])
        return str(browser.get(come_back(browser, place)["Location"]).content.decode())

    shown = trial()
    assert str(ada) in shown
    assert "CN=Ada Lovelace" in shown
    assert "They have not signed in here before" in shown
    provider.claims["account"] = str(uuid4())
    assert "account names no account" in trial()
    assert console.get("/rest/session").body["user"]["username"] == "grace"
    assert not Person.objects.filter(object_guid=ada).exists()
    assert "What the provider says" not in trial(Client())  # of another browser
    assert Console(make_person()).get("/console/people/providers/staff/try").status == 403
    assert console.get("/console/people/providers/another").status == 404
    assert 'class="badge good"' in console.get("/console/people/providers").body.decode()


def test_passwords_can_be_switched_off_except_for_one_account(
    provider: Provider,
    client: Client,
    configure: Configure,
    mailoutbox: list[Any],
    django_capture_on_commit_callbacks: Any,
) -> None:
    make_person("grace", superuser=True)
    Person.objects.filter(pk=make_person("glass", superuser=True).pk).update(email="boss@corp.example.test")
    endpoint = WebhookEndpoint.objects.create(
        name="watch", url="https://x.example", events=["changes"], format=EndpointFormat.STANDARD, enabled=True
    )
    configure("SignIn", PasswordForm=False, BreakGlassAccount="glass")
    assert 'name="password"' not in client.get("/console/sign-in").content.decode()
    assert 'name="password"' in client.get("/console/sign-in?break-glass").content.decode()
    for path in ("/console/sign-in", "/rest/session"):
        refused = Client().post(path, {"username": "grace", "password": PASSWORD}, content_type=_TYPES[path])
        assert refused.status_code in (401, 403)
    assert not WebhookDelivery.objects.exists()
    assert client.post("/console/sign-in", {"username": "glass", "password": PASSWORD}).status_code == 302
    assert is_signed_in(client)
    assert WebhookDelivery.objects.get(endpoint=endpoint).event == "sign-in.break-glass"
    break_glass.mail_superusers("The break-glass account glass has signed in.")
    assert [(mail.to, "break-glass" in mail.subject) for mail in mailoutbox] == [(["boss@corp.example.test"], True)]


_TYPES = {"/console/sign-in": "multipart/form-data; boundary=BoUnDaRyStRiNg", "/rest/session": "application/json"}
