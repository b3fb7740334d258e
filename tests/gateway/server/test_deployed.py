"""The gateway as it is deployed: whose header names and bytes count."""

import http.client
from contextlib import closing
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.gateway import LiveGateway
from tests.support.cast import make_integration

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(parent=organizational_unit)


def test_reason_in_utf_8_is_kept(
    live_gateway: LiveGateway, connection: DirectoryConnection, directory: Directory, user: UUID
) -> None:
    reason = "Straße nach 東京"
    headers = {"X-API-Key": make_integration(connection).value, "X-Change-Reason": reason.encode().decode("latin-1")}
    body = {"replace": {"title": "Countess"}}
    status, _, _ = live_gateway.request("PATCH", f"/api/ad/users/{user}", body=body, headers=headers)
    assert status == 200
    assert directory.read(user, "title")["title"] == [b"Countess"]
    assert OperationRecord.objects.get(operation="users.update", target_id=user).reason == reason


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-API-Key": "{key}"}, 200),
        ({"X_API_Key": "{key}"}, 401),
        ({"X-API_Key": "{key}"}, 401),
        ({"X-API-Key": "{key}", "X_API_Key": "another"}, 200),
        ({"X_API_Key": "another", "X-API-Key": "{key}"}, 200),
        ({"X-API-Key": "{key}", "X_Client_Id": "no link"}, 200),
        ({"X-API-Key": "{key}", "Idempotency_Key": "é"}, 200),
    ],
)
def test_header_with_an_underscore_is_none(
    live_gateway: LiveGateway, connection: DirectoryConnection, user: UUID, headers: dict[str, str], status: int
) -> None:
    value = make_integration(connection).value
    given = {name: text.format(key=value) for name, text in headers.items()}
    assert live_gateway.request("GET", f"/api/ad/users/{user}", headers=given)[0] == status


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Accept",
            "Authorization",
            "Content-Type",
            "Cookie",
            "Host",
            "Idempotency-Key",
            "If-Match",
            "Origin",
            "Prefer",
        ),
        *("Referer", "User-Agent", "X-API-Key", "X-Client-Id", "X-CSRFToken", "X-Forwarded-For", "X-Request-Id"),
    ],
)
def test_bytes_that_are_no_text_are_no_error_of_ours(live_gateway: LiveGateway, name: str) -> None:
    for path in ("/api/ad/users", "/rest/me", "/"):
        for method in ("GET", "POST"):
            with closing(http.client.HTTPConnection(urlsplit(live_gateway.base_url).netloc, timeout=60)) as connection:
                connection.request(method, path, headers={name: "\xff\xfe"})
                assert connection.getresponse().status < 500
