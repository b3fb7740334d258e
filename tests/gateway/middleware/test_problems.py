"""Every error below the machine paths is a problem, whoever noticed it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from gateway.middleware.body_limit import MAX_URI_LENGTH
from lab.commands import PROJECT


def assert_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"
    problem = response.json()
    assert {"type": "about:blank", "status": status, "code": code}.items() <= problem.items()
    assert problem["title"]
    assert problem["detail"]
    assert problem["requestId"] == response["X-Request-Id"]
    return problem


@pytest.mark.parametrize("path", ["/api/none", "/rest/none", "/ad/none", "/mcp/none", "/mcp", "/api", "/api/echo/"])
def test_unknown_path(client: Client, path: str) -> None:
    assert assert_problem(client.get(path), 404, "Request.NotFound")["instance"] == path


@pytest.mark.parametrize("path", ["/none", "/admins", "/apix"])
def test_elsewhere_people_get_a_page(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")


def test_missing_in_a_view(client: Client) -> None:
    assert_problem(client.get("/api/view/missing"), 404, "Request.NotFound")


def test_the_type_leads_to_the_line_of_the_code(client_with: Callable[..., Client]) -> None:
    documentation = {"BaseUrl": "https://docs.example.test/gateway/"}
    client = client_with(RateLimiting={"Enabled": False}, Documentation=documentation)
    type = client.get("/api/none").json()["type"]
    assert type == "https://docs.example.test/gateway/api.html#request-notfound"
    page = (PROJECT / "docs" / "api.md").read_text()
    assert page.count('<a id="request-notfound"></a>`Request.NotFound`') == 1


def test_field_errors(client: Client) -> None:
    problem = assert_problem(client.get("/api/view/bad"), 400, "Request.Invalid")
    assert problem["errors"] == [{"parameter": "kind", "code": "Request.Invalid", "detail": "no"}]


@pytest.mark.parametrize("path", ["/api/fail", "/api/view/fail"])
def test_failure_shows_no_internals(client: Client, path: str) -> None:
    response = client.get(path)
    assert_problem(response, 500, "Server.Error")
    assert b"internals" not in response.content


@pytest.mark.parametrize("path", ["/api/get-only", "/api/view/x"])
def test_wrong_method_names_the_right_ones(client: Client, path: str) -> None:
    response = client.put(path)
    assert_problem(response, 405, "Request.MethodNotAllowed")
    assert "GET" in response["Allow"].split(", ")


def test_host_is_checked(client_with: Callable[..., Client]) -> None:
    client = client_with(RateLimiting={"Enabled": False}, ALLOWED_HOSTS=["gateway.example.test"])
    assert_problem(client.get("/api/echo", headers={"Host": "evil.example"}), 400, "Request.Invalid")
    assert client.get("/health", headers={"Host": "10.0.0.1"}).status_code == 200
    assert client.get("/api/echo", headers={"Host": "gateway.example.test"}).status_code == 200


def test_csrf_failure(client_with: Callable[..., Client]) -> None:
    client = client_with(RateLimiting={"Enabled": False})
    client.handler.enforce_csrf_checks = True
    assert_problem(client.post("/rest/echo"), 403, "Auth.Forbidden")


def test_a_form_from_an_address_that_the_gateway_does_not_know_says_what_to_set() -> None:
    client = Client(enforce_csrf_checks=True)
    headers = {"Origin": "https://console.example.test"}
    refused = client.post("/console/sign-in", {"username": "ada"}, headers=headers)
    assert refused.status_code == 403
    assert "https://console.example.test" in refused.content.decode()
    assert "GATEWAY_TRUSTED_ORIGINS" in refused.content.decode()
    other = client.post("/console/sign-in", {"username": "ada"}).content.decode()
    assert "Go back and reload it" in other
    assert "GATEWAY_TRUSTED_ORIGINS" not in other


def test_long_address(client: Client) -> None:
    assert_problem(client.get("/api/" + "a" * 17_000), 414, "Request.UriTooLong")
    assert_problem(client.get("/api/echo?" + "a" * 17_000), 414, "Request.UriTooLong")
    whole = "/api/echo?" + "a" * (MAX_URI_LENGTH - len("/api/echo?"))
    assert client.get(whole).status_code != 414
    assert client.get(whole + "a").status_code == 414
    assert client.get("/api/echo?" + "a" * 16_000).status_code == 200


def test_browser_headers(client: Client) -> None:
    response = client.get("/api/none")
    assert response["Cache-Control"] == "no-store"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]
    assert "Strict-Transport-Security" not in response
    assert "Cache-Control" not in client.get("/page")


def test_strict_transport_security_over_tls_only(client_with: Callable[..., Client]) -> None:
    client = client_with(RateLimiting={"Enabled": False}, SECURE_HSTS_SECONDS=60)
    assert "Strict-Transport-Security" not in client.get("/api/echo")
    assert client.get("/api/echo", secure=True)["Strict-Transport-Security"] == "max-age=60"


def test_a_database_that_is_away_before_any_view(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while PostgreSQL's standby is promoted: who is signed in is read by a middleware."""

    def away(_: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr("gateway.middleware.people.note_seen", away)
    client.raise_request_exception = False
    assert_problem(client.get("/rest/me"), 503, "Service.Unavailable")
