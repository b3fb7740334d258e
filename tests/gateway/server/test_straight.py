"""The straight way of reads: it answers as the general way does, or leaves the request to that as it found it."""

import gc
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.test import RequestFactory
from django.test.client import ClientHandler
from django.utils import timezone

from audit.models import OperationRecord
from audit.read_buffer import reads
from core.configuration_sections import RateLimit
from core.operation import find_operation
from gateway.server.asgi import Answer
from gateway.server.straight import StraightWay
from gateway.surfaces.rendering import record_shape
from keys.models import ApiKey
from lab.directory import Directory
from lab.domain import Domain
from tests.gateway.server.test_every_operation import Requests
from tests.support.cast import Integration, as_scopes, make_connection, make_integration
from tests.support.configuration import Configure

OF_ONE_ANSWER = re.compile(rb'\d{4}-\d\d-\d\dT[0-9:.]+Z|"planId":"[^"]+"')


CALLS = 1000
"""Of functions, Python's and C's, for one read: without a clock, so that a busy machine does not matter."""


class BothWays:
    """Sends a request each way, and compares."""

    def __init__(self) -> None:
        self.straight_way, self._general = StraightWay(), ClientHandler()

    def straight(self, path: str, method: str = "GET", **headers: str) -> Answer | None:
        answer = self.straight_way.answer(self.environ(path, method, headers))
        return None if answer is None else Answer(*answer, None)

    def general(self, path: str, method: str = "GET", **headers: str) -> Answer:
        response: Any = self._general(self.environ(path, method, headers))
        named = [(name.encode(), value.encode()) for name, value in response.items()]
        return Answer(response.status_code, named, response.content, None)

    def compare(self, path: str, **headers: str) -> Answer:
        straight = self.straight(path, **headers)
        assert straight is not None, path
        general = self.general(path, **headers)
        assert straight.status == general.status
        assert names_and_values(straight) == names_and_values(general), path
        assert OF_ONE_ANSWER.sub(b"", straight.body) == OF_ONE_ANSWER.sub(b"", general.body), path
        return straight

    @staticmethod
    def environ(path: str, method: str, headers: dict[str, str]) -> dict[str, Any]:
        named = {"Host": "localhost", "X-Request-Id": "one", **{n.replace("_", "-"): v for n, v in headers.items()}}
        environ: dict[str, Any] = RequestFactory().generic(method, path, content_type="", headers=named).environ
        return environ


def names_and_values(answer: Answer) -> dict[str, str]:
    """The headers of an answer, but for what is left of the limits."""
    named = {name.decode().lower(): value.decode() for name, value in answer.headers}
    assert len(named) == len(answer.headers)
    named.pop("ratelimit", None)  # the second request finds less left
    return named


@pytest.fixture
def ways() -> BothWays:
    return BothWays()


@pytest.fixture
def key(integration: Integration) -> dict[str, str]:
    return {"X_API_Key": integration.value}


def test_both_ways_answer_every_read_alike(
    integration: Integration, key: dict[str, str], directory: Directory, organizational_unit: str, ways: BothWays
) -> None:
    general = []
    for name, (method, path, _) in Requests(integration, directory, organizational_unit).all():
        if method == "GET" and ways.straight(path, **key) is None:
            general.append(name)
        elif method == "GET":
            ways.compare(path, **key)
    assert all(record_shape(find_operation(name).output) for name in general), "Accept may turn these into streams"


def test_both_ways_understand_the_same_headers_and_parameters(
    integration: Integration, key: dict[str, str], directory: Directory, organizational_unit: str, configure: Configure
) -> None:
    configure("RateLimiting", Enabled=True)
    configure("ForwardedHeaders", KnownProxies=["127.0.0.0/8"])
    ways = BothWays()
    guid = directory.add_user(
        "Ada", parent=organizational_unit, info="x" * 1000, description="x" * 1000, streetAddress="x" * 1000
    )
    path = f"/api/ad/users/{guid}"
    version = integration.get(path).body["version"]
    assert ways.compare(path, **key, If_None_Match=f'W/"{version}"').status == 304
    assert ways.compare(path, **key, If_None_Match='"another"').status == 200
    assert (
        ways.compare(f"/api/ad/users/{str(guid).upper()}", **key, X_Client_Id=str(integration.client_id)).status == 200
    )
    for query in ("attributes=title&attributes=sn", "fields=id,version", "attributes=*"):
        assert ways.compare(f"{path}?{query}", **key).status == 200, query
    for coding in ("gzip", "zstd, gzip;q=0.5", "identity", "br"):
        answer = ways.compare(f"{path}?attributes=info,description,streetAddress", **key, Accept_Encoding=coding)
        assert (b"content-encoding" in {name.lower() for name, _ in answer.headers}) == ("z" in coding)
    ways.compare(path, **key, X_Forwarded_For="203.0.113.7", X_Forwarded_Proto="https", Accept="text/csv")
    reads.flush()
    found = {(each.operation, each.owner, each.client_address) for each in OperationRecord.objects.all()}
    assert found == {("users.read", integration.key.owner.username, each) for each in ("127.0.0.1", "203.0.113.7")}


@pytest.mark.parametrize(
    "refused",
    [
        {"method": "HEAD"},
        {"method": "POST"},
        {"query": "attributes=noSuchAttribute"},
        {"query": "nonsense=1"},
        {"query": "fields=nonsense"},
        {"query": "attributes=%FF"},
        {"query": f"attributes={'a' * 17_000}"},
        {"id": str(UUID(int=1))},
        {"id": "nobody"},
        {"X_API_Key": "dgk_nonsense"},
        {"X_Client_Id": str(UUID(int=1))},
        {"X_Change_Reason": ""},
        {"Authorization": "Bearer dgt_nonsense"},
        {"Content_Encoding": "gzip"},
        {"Host": "elsewhere.example"},
    ],
    ids=lambda refused: ",".join(f"{name}={value[:20]}" for name, value in refused.items()),
)
def test_what_is_refused_is_left_to_the_general_way(
    integration: Integration,
    ada: UUID,
    ways: BothWays,
    refused: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    told: list[str] = []
    monkeypatch.setattr("audit.security.log_refusal", lambda reason, **_: told.append(reason))
    headers = {"X_API_Key": integration.value} | refused
    method, id, query = headers.pop("method", "GET"), headers.pop("id", str(ada)), headers.pop("query", "")
    assert ways.straight(f"/api/ad/users/{id}?{query}", method, **headers) is None
    reads.flush()
    assert not told
    assert not OperationRecord.objects.exists()


def test_a_name_in_the_path_need_not_be_ascii(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    guid = directory.add_user(parent=organizational_unit, employeeID="Jürg-東")
    found = integration.get(f"/api/ad/users/by/employeeID/{quote('Jürg-東')}")
    assert (found.status, found.body["id"]) == (200, str(guid))


def test_nothing_is_kept_of_requests_that_are_refused(transactional_db: None, domain: Domain, ways: BothWays) -> None:
    """Outside of a transaction, where what is known of keys is kept."""
    headers = {"X_API_Key": make_integration(make_connection(domain)).value, "X_Client_Id": str(UUID(int=1))}

    def tracebacks_after(requests: int) -> int:
        for _ in range(requests):
            assert ways.straight(f"/api/ad/users/{UUID(int=1)}", **headers) is None
        gc.collect()
        return sum(isinstance(each, TracebackType) for each in gc.get_objects())

    before = tracebacks_after(3)
    assert tracebacks_after(20) < before + 20


def test_a_request_counts_once_against_the_limits(integration: Integration, ada: UUID, configure: Configure) -> None:
    configure("RateLimiting", Enabled=True, Global=RateLimit(Requests=5, WindowSeconds=60))
    asked = (ada, UUID(int=1), ada, UUID(int=1), ada, ada)
    statuses = [integration.get(f"/api/ad/users/{id}").status for id in asked]
    assert statuses == [200, 404, 200, 404, 200, 429]


def test_a_change_of_access_counts_at_the_next_read(
    transactional_db: None, domain: Domain, directory: Directory, organizational_unit: str, ways: BothWays
) -> None:
    """Outside of a transaction, where what is known of keys is kept."""
    ada = directory.add_user("Ada", parent=organizational_unit)
    connection = make_connection(domain)
    path = f"/api/ad/users/{ada}"
    later = timezone.now() + timedelta(days=1)

    headers = {"X_API_Key": make_integration(connection).value}
    assert min(_count_calls(lambda: ways.straight(path, **headers)) for _ in range(10)) < CALLS

    for change in CHANGES:
        integration = make_integration(connection, expires_at=later)
        headers = {"X_API_Key": integration.value}
        for _ in range(2):
            assert ways.straight(path, **headers) is not None
        end(integration, change)
        assert ways.straight(path, **headers) is None, change


CHANGES = ("revoked", "expired", "moved", "owner", "role", "scopes", "link")
"""What ends the access of a key."""


def end(integration: Integration, change: str) -> None:
    key = integration.key
    match change:
        case "revoked":
            ApiKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
        case "expired":
            ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now())
        case "moved":
            ApiKey.objects.filter(pk=key.pk).update(allowed_addresses=["203.0.113.0/24"])
        case "owner":
            type(key.owner).objects.filter(pk=key.owner.pk).update(is_active=False)
        case "role":
            key.role.permissions.clear()
        case "scopes":
            connection = key.links.get().connection
            type(key.role).objects.filter(pk=key.role.pk).update(scopes=as_scopes([UUID(int=1)], connection))
        case "link":
            key.links.all().delete()


def _count_calls(do: Callable[[], object]) -> int:
    with counted_calls() as calls:
        do()
    return sum(calls.values())


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count the calls of functions in the block, Python's and C's, by kind."""
    calls: Counter[str] = Counter()

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            calls[event] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
