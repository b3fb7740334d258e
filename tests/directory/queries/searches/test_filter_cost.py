"""What one request may cost a domain controller: bounds of filters, turns of searches, and time limits."""

import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import ldap
import pytest
from redis import Redis, RedisError

from active_directory import Client, Scope, ServerSettings
from active_directory import streaming as ldap_streaming
from core.call import Surface
from core.configuration_sections import SearchesSection
from core.operation import Operation, operations
from core.redis import clients
from directory.queries.searches import concurrency
from lab.directory import Directory
from lab.redis import RedisServer
from lab.waiting import wait_until
from tests.active_directory.test_windows import WindowsLink, client_of
from tests.support.cast import Answer, Integration, make_integration
from tests.support.configuration import Configure

IN_CHAIN = "1.2.840.113556.1.4.1941"
LIMITS = SearchesSection()
EXTRA = {"accounts.search": {"state": "enabled"}, "objects.count": {"kind": "users"}}


def any_of(*terms: str) -> str:
    return f"(|{''.join(terms)})"


def chains(count: int) -> str:
    return any_of(*(f"(memberOf:{IN_CHAIN}:=CN={number},DC=corp)" for number in range(count)))


TOO_COSTLY = {
    "chains": chains(LIMITS.MaxInChainTerms + 1),
    "60 chains": chains(60),
    "chains beside others": f"(&(sAMAccountName=x)(!{chains(LIMITS.MaxInChainTerms + 1)}))",
    "width": any_of(*(f"(sAMAccountName=u{number})" for number in range(LIMITS.MaxTerms + 1))),
    "no index": any_of(*(f"(info=u{number})" for number in range(LIMITS.MaxComparisons + 1))),
    "substrings": any_of(*(f"(displayName=*u{number}*)" for number in range(LIMITS.MaxComparisons // 2 + 1))),
    "parts of a substring": f"(info=*{'*'.join(str(number) for number in range(LIMITS.MaxComparisons // 2 + 1))}*)",
    "names": any_of(*(f"(manager=CN=u{number})" for number in range(LIMITS.MaxComparisons // 6 + 1))),
    "negations": f"(&{''.join(f'(!(sAMAccountName=u{number}))' for number in range(LIMITS.MaxComparisons + 1))})",
    "name resolution": any_of(*(f"(anr=u{number})" for number in range(LIMITS.MaxComparisons // 10 + 1))),
    "bits": any_of(*(f"(userAccountControl:1.2.840.113556.1.4.803:={number})" for number in range(101))),
}
FILTERED = [
    item
    for item in operations(Surface.API)
    if item.query is not None and "filter" in item.query.model_fields and item.path.startswith("ad/")
]


def called(operation: Operation) -> str:
    return operation.name


def ask(integration: Integration, resource: str = "users", **parameters: Any) -> Answer:
    return integration.get(f"/api/ad/{resource}?{urlencode(parameters)}")


@pytest.mark.parametrize("name", TOO_COSTLY)
def test_too_much_is_refused_naming_the_term(integration: Integration, name: str) -> None:
    answer = ask(integration, filter=TOO_COSTLY[name])
    assert (answer.status, answer.code) == (400, "AD.Filter.TooCostly"), answer.body
    assert answer.body["errors"][0]["parameter"] == "filter"
    assert answer.body["term"].startswith("(")
    assert answer.body["term"] in answer.body["detail"]


def test_every_route_with_a_filter_is_found() -> None:
    names = {item.name for item in FILTERED}
    assert {"users.search", "objects.search", "accounts.search", "deleted-objects.search"} <= names
    assert len(names) >= 9


@pytest.mark.parametrize("operation", FILTERED, ids=called)
def test_every_route_is_bounded(
    integration: Integration, directory: Directory, organizational_unit: str, operation: Operation
) -> None:
    id = directory.add_group(parent=organizational_unit) if operation.resource == "groups" else uuid4()
    if operation.resource in ("users", "computers") and "{id}" in operation.path:
        account = directory.add_user if operation.resource == "users" else directory.add_computer
        id = account(parent=organizational_unit)
    path = operation.path.replace("{id}", str(id)).removeprefix("ad/")
    answer = ask(integration, path, filter=chains(60), **EXTRA.get(operation.name, {}))
    assert (answer.status, answer.code) == (400, "AD.Filter.TooCostly"), (operation.name, answer.body)
    stream = integration.get(f"/api/ad/{path}?{urlencode({'filter': chains(60)} | EXTRA.get(operation.name, {}))}",
                             Accept="application/x-ndjson")  # fmt: skip
    assert stream.status == 400


def test_saved_filters_are_bounded_when_saved_and_when_run(integration: Integration, configure: Configure) -> None:
    body = {"name": "chain", "kind": "users", "filter": chains(60)}
    answer = integration.post("/api/ad/saved-filters", body)
    assert (answer.status, answer.code) == (400, "AD.Filter.TooCostly")
    assert answer.body["errors"][0]["pointer"] == "#/filter"
    saved = integration.post("/api/ad/saved-filters", {**body, "filter": chains(2)}).body
    assert integration.patch(f"/api/ad/saved-filters/{saved['id']}", {"filter": chains(60)}).status == 400
    configure("Searches", MaxInChainTerms=1)
    assert integration.get(f"/api/ad/saved-filters/{saved['id']}/run").code == "AD.Filter.TooCostly"


@pytest.mark.parametrize(
    "text",
    [
        chains(LIMITS.MaxInChainTerms),
        any_of(*(f"(sAMAccountName=u{number})" for number in range(200))),
        any_of(*(f"(employeeID=u{number})" for number in range(LIMITS.MaxComparisons))),
        any_of(*(f"(displayName=*u{number}*)" for number in range(LIMITS.MaxComparisons // 2))),
    ],
)
def test_as_much_as_is_allowed_is_answered(
    integration: Integration, organizational_unit: str, configure: Configure, text: str
) -> None:
    configure("Searches", ExpensiveSeconds=30)
    assert ask(integration, base=organizational_unit, filter=text).status == 200


# -- Turns


def key_of(integration: Integration) -> str:
    return f"gateway:search:turn:credential:{integration.key.id}"


@pytest.fixture
def redis(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    """Waited for as long as a busy machine lets it take: without its answer a search would go on."""
    monkeypatch.setattr(clients, "TIMEOUT", 60.0)
    concurrency._redis.cache_clear()
    with Redis.from_url(redis_server.url) as redis:
        yield redis
        for key in redis.scan_iter("gateway:search:turn:*"):
            redis.delete(key)
    concurrency._redis.cache_clear()


def test_a_second_search_of_the_same_key_waits(
    integration: Integration, connection: Any, redis: Any, configure: Configure, organizational_unit: str
) -> None:
    configure("Searches", WaitSeconds=0.2)
    redis.set(key_of(integration), "another process", px=600_000)
    for parameters in ({"filter": chains(1)}, {"filter": "(info=*x*)"}, {"base": organizational_unit}, {"q": "x"}):
        answer = ask(integration, **parameters)
        assert (answer.status, answer.code) == (429, "RateLimit.Exceeded")
        assert int(answer.headers["Retry-After"]) >= 1
    # What an index leads to waits for nothing, and neither does another key.
    assert ask(integration, filter="(sAMAccountName=nobody)").status == 200
    assert ask(integration, base=organizational_unit, scope="base").status == 200
    assert ask(make_integration(connection), filter="(info=*x*)", base=organizational_unit).status == 200
    redis.delete(key_of(integration))
    assert ask(integration, filter="(info=*x*)", base=organizational_unit).status == 200


def test_it_goes_on_when_the_other_is_done(
    integration: Integration, redis: Any, configure: Configure, organizational_unit: str
) -> None:
    configure("Searches", WaitSeconds=120)
    redis.set(key_of(integration), "another process", px=600_000)
    ending = threading.Timer(0.3, lambda: redis.delete(key_of(integration)))
    began = time.monotonic()
    ending.start()
    assert ask(integration, base=organizational_unit).status == 200
    assert time.monotonic() - began >= 0.3
    ending.join()


def test_the_lease_of_a_killed_process_ends(
    integration: Integration, redis: Any, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    find = concurrency._running.acquire

    def look(*given: Any, **named: Any) -> bool:
        seen.append(redis.pttl(key_of(integration)))
        return find(*given, **named)

    monkeypatch.setattr(concurrency._running, "acquire", look)
    assert ask(integration, filter="(info=*x*)").status == 200
    (life,) = seen
    assert 0 < life <= 120_000
    deadline = time.monotonic() + 60
    while redis.exists(key_of(integration)):  # a lease ends with a rest, as long as the search took
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_turn_that_ends_while_redis_is_away_holds_nobody_up(
    integration: Integration, redis: Any, configure: Configure, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("Directory", OperationSeconds=600)
    find = concurrency._running.acquire

    def lose_redis(*given: Any, **named: Any) -> bool:
        assert redis.exists(key_of(integration))
        concurrency._redis(settings.REDIS_URL)._pause(RedisError("another thread's command was not answered"))
        return find(*given, **named)

    monkeypatch.setattr(concurrency._running, "acquire", lose_redis)
    assert ask(integration, filter="(info=*x*)").status == 200
    wait_until(lambda: not redis.exists(key_of(integration)))


def test_expensive_searches_of_all_keys_take_turns_and_leave_the_directory_a_rest(
    integration: Integration, connection: Any, redis: Any, configure: Configure, organizational_unit: str
) -> None:
    configure("Searches", WaitSeconds=0.2, ExpensiveSeconds=30)
    key = f"gateway:search:turn:directory:{connection.id}"
    redis.set(key, "another key's", px=600_000)
    other = make_integration(connection)
    for text in (chains(1), any_of(*(f"(manager=CN={number})" for number in range(3)))):
        assert ask(other, filter=text, base=organizational_unit).status == 429
    for text in ("(info=*x*)", "(manager=CN=x)"):
        assert ask(other, filter=text, base=organizational_unit).status == 200
    redis.delete(key)
    assert ask(other, filter=chains(1), base=organizational_unit).status == 200


def test_few_wait_in_one_process(
    integration: Integration, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("Searches", WaitSeconds=120)
    credential = str(integration.key.id)
    monkeypatch.setitem(concurrency._slots_in_use, credential, concurrency._SLOTS_PER_CREDENTIAL)
    began = time.monotonic()
    assert ask(integration, filter="(info=*x*)").status == 429
    monkeypatch.setitem(concurrency._slots_in_use, credential, 0)
    monkeypatch.setitem(concurrency._slots_in_use, "others", concurrency._SLOTS)
    assert ask(integration, filter="(info=*x*)").status == 429
    assert time.monotonic() - began < 120  # at once: a thread that waited would be the others'


def test_without_redis_searches_go_on(integration: Integration, settings: Any, organizational_unit: str) -> None:
    settings.REDIS_URL = "unix:///nowhere/redis.sock"
    assert ask(integration, filter="(info=*x*)", base=organizational_unit).status == 200


# -- The time limit


class RecordingLink(WindowsLink):
    """Keeps the time limits of the searches it is sent."""

    def __init__(self, members: int = 0) -> None:
        super().__init__(3, members)
        self.limits: list[int] = []

    def search_ext(self, *given: Any, **named: Any) -> int:
        self.limits.append(named.get("timeout", -1))
        return super().search_ext(*given, **named)


def test_every_search_tells_a_time_limit() -> None:
    link = RecordingLink(members=4000)
    client: Client = client_of(link)
    client.read("CN=0,DC=corp", ["member"])
    list(client.search("DC=corp", Scope.SUBTREE))
    list(client.search("DC=corp", Scope.SUBTREE, seconds=3))
    assert len(link.limits) >= 5  # with those for the rest of the members
    patience = ServerSettings(("ldaps://dc.test",), "DC=corp", "CN=x", "x").operation_seconds
    assert all(0 < limit < patience for limit in link.limits)
    assert 4 in link.limits  # a second more: Samba counts up to one too few


@pytest.mark.parametrize("patience", [0.5, 1, 1.4, 2])
def test_a_short_patience_still_lets_a_quick_answer_through(patience: float) -> None:
    """A limit of 1 is over at the turn of the second, so anything from nothing to a second later, on Samba."""
    assert ldap_streaming.time_limit(patience) == 2


def test_an_expensive_filter_gets_a_short_one(
    integration: Integration, monkeypatch: pytest.MonkeyPatch, organizational_unit: str, configure: Configure
) -> None:
    configure("Searches", ExpensiveSeconds=7)
    sent: list[tuple[str, int]] = []
    send = ldap_streaming.Request.__init__

    def note(request: Any, connection: Any, query: Any, *rest: Any, **named: Any) -> None:
        sent.append((query.filter, 0 if query.seconds is None else query.seconds))
        send(request, connection, query, *rest, **named)

    monkeypatch.setattr(ldap_streaming.Request, "__init__", note)
    assert ask(integration, base=organizational_unit, filter=chains(1)).status == 200
    assert {seconds for text, seconds in sent if IN_CHAIN in text} == {7}
    sent.clear()
    assert ask(integration, base=organizational_unit, filter="(sn=x)").status == 200
    assert {seconds for text, seconds in sent if "(sn=x)" in text} == {0}


def test_an_expensive_search_has_a_connection_of_its_own(
    integration: Integration, monkeypatch: pytest.MonkeyPatch, organizational_unit: str
) -> None:
    """What a domain controller's process is busy with, others wait for whose connections belong to it."""
    used: dict[bool, list[Any]] = {True: [], False: []}
    send = ldap_streaming.Request.__init__

    def note(request: Any, connection: Any, query: Any, *rest: Any, **named: Any) -> None:
        used[IN_CHAIN in query.filter].append(connection)
        send(request, connection, query, *rest, **named)

    monkeypatch.setattr(ldap_streaming.Request, "__init__", note)
    for filter in ("(sn=x)", chains(1), "(sn=x)", chains(1), "(sn=x)"):
        assert ask(integration, base=organizational_unit, filter=filter).status == 200
    assert len(set(used[True])) == 1
    assert not set(used[True]) & set(used[False])


_SAMBA = "00002020: ldb_wait from ldap_backend.c:892 with LDB_WAIT_ALL: Operations error (1)"


@pytest.mark.parametrize(
    ("error", "result", "info"),
    [
        (ldap.TIMELIMIT_EXCEEDED, 3, "00002022: Indexed and full searches both failed!\n"),
        (ldap.TIMELIMIT_EXCEEDED, 3, ""),
        (ldap.OPERATIONS_ERROR, 1, _SAMBA),
    ],
)
def test_a_time_limit_reached_is_told_as_that(
    integration: Integration,
    monkeypatch: pytest.MonkeyPatch,
    error: type[ldap.LDAPError],
    result: int,
    info: str,
    organizational_unit: str,
) -> None:
    answered = ldap_streaming.Request._next_answer

    def over(request: ldap_streaming.Request, **named: Any) -> Any:
        if request._query.scope is Scope.BASE or request._query.base != organizational_unit:
            return answered(request, **named)  # such as for who is protected, which may be known from before
        time.sleep(0.6)
        raise error({"result": result, "desc": "", "info": info})

    monkeypatch.setattr(ldap_streaming.Request, "_next_answer", over)
    answer = ask(integration, base=organizational_unit, filter=chains(1))
    assert (answer.status, answer.code) == (400, "AD.Filter.TooCostly")
