"""Pages of large results: complete and without doubles, whatever happens to the directory and to Redis meanwhile."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import ldap
import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from active_directory import AttributeType, Entry, SearchFlags
from active_directory import client as client_module
from active_directory.schema import Syntax
from core import paging
from core.redis import clients
from core.redis.clients import QuickRedis, RedisUnavailable
from core.secrets.encryption import UndecryptableSecret, decrypt
from directory.queries.searches import matches
from directory.queries.searches import search as search_module
from directory.queries.searches.matches import Match, Order, Snapshot, keep_snapshot, read_snapshot
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.gateway import LiveGateway
from lab.redis import RedisServer
from tests.support.cast import Answer, Integration, make_connection, make_integration


@pytest.fixture(autouse=True)
def redis_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However long a busy machine lets it take, and also where the test before had found it away."""
    redis_of = matches._redis
    monkeypatch.setattr(clients, "TIMEOUT", 60.0)
    redis_of.cache_clear()
    yield
    redis_of.cache_clear()


@pytest.fixture
def redis(redis_server: RedisServer) -> Iterator[Any]:
    client = Redis.from_url(redis_server.url)
    yield client
    client.close()


def add_people(directory: Directory, unit: str) -> dict[str, UUID]:
    """Thirty users; of three each has the same surname, and six have none."""

    def add(number: int) -> UUID:
        surname: dict[str, Any] = {"sn": f"Name {number // 3}"} if number >= 6 else {}
        return directory.add_user(f"User {number:02}", parent=unit, **surname)

    return {f"User {number:02}": add(number) for number in range(30)}


@pytest.fixture
def people(directory: Directory, organizational_unit: str) -> dict[str, UUID]:
    return add_people(directory, organizational_unit)


@pytest.fixture(scope="module")
def unit_of_people(directory: Directory) -> Iterator[str]:
    """A unit with such people that nobody changes."""
    unit = directory.add_unit(random_name("people"))
    add_people(directory, unit)
    yield unit
    directory.delete(unit, recursive=True)


def search(integration: Integration, **parameters: Any) -> Answer:
    answer = integration.get(f"/api/ad/users?{urlencode(parameters)}")
    assert answer.status == 200, answer.body
    return answer


def walk(
    integration: Integration, between: Callable[[int], Any] = lambda _: None, **parameters: Any
) -> Iterator[dict[str, Any]]:
    """All records of all pages; something happens between two of them."""
    answer = search(integration, **parameters)
    number = 0
    while True:
        yield from answer.body["items"]
        cursor = answer.body["nextCursor"]
        if cursor is None:
            return
        number += 1
        between(number)
        answer = search(integration, **parameters, cursor=cursor)


def flush(redis: Any) -> Callable[[int], Any]:
    return lambda _: redis.flushall()


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("sort", [None, "sn", "-sn", "-name"])
@pytest.mark.parametrize("page_size", [1, 4, 29, 30])
def test_every_object_comes_once(
    integration: Integration, unit_of_people: str, redis: Any, is_flushed: bool, sort: str | None, page_size: int
) -> None:
    parameters = {"base": unit_of_people, "pageSize": page_size, **({"sort": sort} if sort else {})}
    between = flush(redis) if is_flushed else lambda _: None
    found = [item["name"] for item in walk(integration, between, **parameters)]
    assert sorted(found) == [f"User {number:02}" for number in range(30)]
    if sort is not None:
        in_one = search(integration, **{**parameters, "pageSize": 100}).body["items"]
        assert found == [item["name"] for item in in_one]


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("sort", [None, "name"])
def test_others_come_and_go_meanwhile(
    integration: Integration,
    people: dict[str, UUID],
    directory: Directory,
    organizational_unit: str,
    redis: Any,
    is_flushed: bool,
    sort: str | None,
) -> None:
    """Between any two pages one is added, one deleted, one renamed and one moved; the rest comes exactly once."""
    names = sorted(people)
    elsewhere = directory.add_unit("Elsewhere", parent=organizational_unit)
    deleted, renamed, moved = names[20:23], names[24:27], names[27:30]

    def meddle(number: int) -> None:
        directory.add_user(f"User {number:02} new", parent=organizational_unit)
        if number <= 3:
            directory.delete(people[deleted[number - 1]])
            # To the other end of the order, where a page has been or will be.
            directory.rename(people[renamed[number - 1]], f"{'Aa' if number % 2 else 'Zz'} {number}")
            directory.move(people[moved[number - 1]], parent=elsewhere)
        if is_flushed:
            redis.flushall()

    given = {"base": organizational_unit, "pageSize": 4, **({"sort": sort} if sort else {})}
    found = [item["id"] for item in walk(integration, meddle, **given)]
    throughout = [*names[:20], names[23], *moved, *([] if is_flushed and sort else renamed)]
    assert {str(people[name]) for name in throughout} <= set(found)
    if not (is_flushed and sort):
        assert len(found) == len(set(found))
    if not is_flushed:
        assert set(found) <= {str(id) for id in people.values()}


def test_what_is_deleted_is_left_out(
    integration: Integration, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    """Pages that only held deleted objects are passed over: nobody takes an empty one for the end."""
    given = {"base": organizational_unit, "pageSize": 5, "sort": "name"}
    answer = search(integration, **given)
    for name in sorted(people)[5:15]:
        directory.delete(people[name])
    following = search(integration, **given, cursor=answer.body["nextCursor"])
    assert [item["name"] for item in following.body["items"]] == sorted(people)[15:20]
    assert following.body["total"] == 30


def test_what_leaves_the_scopes_is_not_shown(
    connection: Any, people: dict[str, UUID], directory: Directory, organizational_unit: str
) -> None:
    secret = directory.add_unit("Secret", parent=directory.base_dn)
    try:
        confined = make_integration(connection, scopes=[directory.guid(organizational_unit)])
        gone = people["User 29"]

        def move(number: int) -> None:
            if number == 1:
                directory.move(gone, parent=secret)

        found = [item["id"] for item in walk(confined, move, pageSize=10, sort="name")]
        assert sorted(found) == sorted(str(id) for id in people.values() if id != gone)
    finally:
        directory.delete(secret, recursive=True)


def test_writers_at_work(
    integration: Integration, people: dict[str, UUID], directory: Directory, organizational_unit: str, domain: Domain
) -> None:
    """Others are written by another client all the time."""
    ending = threading.Event()
    writer = domain.connect()

    def write() -> None:
        while not ending.is_set():
            guid = writer.add_user(f"Passing {uuid4().hex[:8]}", parent=organizational_unit)
            writer.rename(guid, f"A {uuid4().hex[:8]}")
            writer.delete(guid)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for sort in ({}, {"sort": "name"}, {"sort": "-sn"}):
            given: dict[str, Any] = {"base": organizational_unit, "pageSize": 3, **sort}
            found = [item["id"] for item in walk(integration, **given)]
            assert len(found) == len(set(found))
            assert {str(id) for id in people.values()} <= set(found)
    finally:
        ending.set()
        thread.join()
        writer.close()


def test_over_processes_and_restarts(
    transactional_db: None,
    domain: Domain,
    people: dict[str, UUID],
    organizational_unit: str,
    live_gateway: LiveGateway,
    redis: Any,
) -> None:
    """Each page over a connection of its own, to one of two processes; then to new ones, then with an emptied Redis."""
    integration = make_integration(make_connection(domain))

    def fetch(**given: Any) -> dict[str, Any]:
        path = f"/api/ad/users?{urlencode({'base': organizational_unit, 'pageSize': 2, 'sort': 'sn', **given})}"
        status, _, body = live_gateway.request("GET", path, headers={"X-API-Key": integration.value})
        assert status == 200, body
        return dict(body)

    page = fetch()
    found = [item["name"] for item in page["items"]]
    number = 0
    while page["nextCursor"]:
        number += 1
        if number == 5:
            live_gateway.web.stop()
            live_gateway.web.start_and_wait()
        if number == 10:
            redis.flushall()
        page = fetch(cursor=page["nextCursor"])
        found += [item["name"] for item in page["items"]]
    assert sorted(found) == sorted(people)


def test_without_redis(
    integration: Integration, people: dict[str, UUID], organizational_unit: str, monkeypatch: Any
) -> None:
    away = QuickRedis("unix:///nowhere/redis.sock", without="")
    monkeypatch.setattr(matches, "_redis", lambda _: away)
    found = [item["name"] for item in walk(integration, base=organizational_unit, pageSize=7, sort="-name")]
    assert found == sorted(people, reverse=True)
    with pytest.raises(RedisUnavailable):
        away.execute("PING")


def test_the_next_pages_need_no_search(
    integration: Integration, people: dict[str, UUID], organizational_unit: str, monkeypatch: Any
) -> None:
    given = {"base": organizational_unit, "pageSize": 10}
    answer = search(integration, **given)
    monkeypatch.delattr(search_module._SearchRun, "identify")
    found = answer.body["items"]
    while cursor := answer.body["nextCursor"]:
        answer = search(integration, **given, cursor=cursor)
        found += answer.body["items"]
    assert {item["name"] for item in found} == set(people)


def test_old_snapshots_make_room(redis: Any, monkeypatch: Any) -> None:
    redis.flushall()
    found = [Match(None, uuid4().bytes_le) for _ in range(2500)]
    monkeypatch.setattr(matches, "MAX_SNAPSHOT_OCTETS", 100_000)
    kept = [keep_snapshot(found, 100) for _ in range(4)]
    assert all(snapshot.name for snapshot in kept)
    there = [read_snapshot(snapshot, 0, 100) is not None for snapshot in kept]
    assert there == [False, False, True, True]
    used = read_snapshot(kept[2], 2400, 100)
    assert used is not None
    assert used.guids == [match.guid for match in found[2400:]]
    keep_snapshot(found, 100)
    assert read_snapshot(kept[3], 0, 100) is None
    assert read_snapshot(kept[2], 0, 100) is not None
    assert 0 < redis.ttl(kept[2].key) <= 24 * 3600


@pytest.mark.parametrize(("limit", "result"), [(ldap.TIMELIMIT_EXCEEDED, 3), (ldap.ADMINLIMIT_EXCEEDED, 11)])
@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson", "text/csv"])
def test_a_limit_of_the_directory_cuts_nothing_silently(
    integration: Integration,
    people: dict[str, UUID],
    organizational_unit: str,
    monkeypatch: Any,
    limit: type[ldap.LDAPError],
    result: int,
    accept: str,
) -> None:
    whole: Any = vars(client_module)["stream"]

    def cut(*given: Any) -> Iterator[Entry]:
        for number, entry in enumerate(whole(*given)):
            if number == 20:
                raise limit({"result": result, "desc": "Limit exceeded"})
            yield entry

    monkeypatch.setattr(client_module, "stream", cut)
    answer = integration.get(f"/api/ad/users?{urlencode({'base': organizational_unit})}", Accept=accept)
    assert (answer.status, answer.code) == (503, "AD.Directory.LimitExceeded")


def test_values_sorted_by_are_not_legible_in_redis(
    integration: Integration, people: dict[str, UUID], organizational_unit: str, redis: Any
) -> None:
    redis.flushall()
    search(integration, base=organizational_unit, pageSize=3, sort="sn")
    keys = set(redis.keys("gateway:matches:*")) - {b"gateway:matches:index"}
    assert len(keys) == 2
    assert not any(b"name" in redis.get(key).lower() for key in keys)


def test_a_cursor_expires(
    integration: Integration, people: dict[str, UUID], organizational_unit: str, monkeypatch: Any
) -> None:
    given = {"base": organizational_unit, "pageSize": 10}
    cursor = search(integration, **given).body["nextCursor"]

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(hours=25)

    monkeypatch.setattr(paging, "datetime", Later)
    answer = integration.get(f"/api/ad/users?{urlencode({**given, 'cursor': cursor})}")
    assert (answer.status, answer.code) == (400, "Search.CursorInvalid")


def test_a_cursor_fits_into_an_address(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    """However long the value sorted by."""
    for number in range(3):
        directory.add_user(f"Long {number}", parent=organizational_unit, info="ž" * 1000 + str(number))
    found = list(walk(integration, base=organizational_unit, pageSize=1, sort="info"))
    assert len({item["id"] for item in found}) == len(found) == 3


@given(st.text(max_size=40))
def test_garbage_is_no_cursor(text: str) -> None:
    with suppress(UndecryptableSecret, ValueError):
        decrypt(text)
        pytest.fail("garbage was opened")


ATTRIBUTE = AttributeType(
    name="sn",
    syntax=Syntax.UNICODE_STRING,
    om_syntax=64,
    attribute_id_oid="2.5.4.4",
    single_valued=True,
    system_only=False,
    constructed=False,
    link_id=0,
    search_flags=SearchFlags(0),
    range_lower=None,
    range_upper=None,
    attid=None,
    schema_id_guid=None,
    property_set_guid=None,
)
MATCHES = st.lists(
    st.builds(Match, st.none() | st.text(max_size=3), st.binary(min_size=16, max_size=16)), unique_by=lambda m: m.guid
)


@given(MATCHES, st.booleans(), st.data())
def test_pages_behind_any_place_make_the_whole(matches: list[Match], descending: bool, data: Any) -> None:
    """Wherever a page ended, and even if that match is gone: before it and behind it is everything."""
    order = Order(ATTRIBUTE, descending)
    ordered = order.sorted(matches)
    assert sorted(ordered, key=lambda match: match.guid) == sorted(matches, key=lambda match: match.guid)
    values = [match.value for match in ordered if match.value is not None]
    assert values == sorted(values, reverse=descending)
    assert all(match.value is None for match in ordered[len(values) :])
    if ordered:
        place = data.draw(st.integers(0, len(ordered) - 1))
        assert order.after(ordered, ordered[place]) == ordered[place + 1 :]
        assert order.after(ordered[:place] + ordered[place + 1 :], ordered[place]) == ordered[place + 1 :]


@given(MATCHES, st.integers(1, 30))
def test_a_snapshot_gives_back_what_was_kept(found: list[Match], page_size: int) -> None:
    kept: dict[str, bytes] = {}

    class KeptHere:
        def execute(self, command: str, key: str, *words: Any) -> bytes | None:
            if command == "SET":
                kept[key] = words[0] if isinstance(words[0], bytes) else words[0].encode()
            elif command == "GETRANGE":
                return kept.get(key, b"")[int(words[0]) : int(words[1]) + 1]
            return kept.get(key)

        def run(self, *_: Any) -> None:
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matches, "_redis", lambda _: KeptHere())
        snapshot = keep_snapshot(found, page_size)
        for offset in range(0, len(found), page_size):
            page = found[offset : offset + page_size]
            excerpt = read_snapshot(snapshot, offset, page_size)
            assert excerpt is not None
            assert excerpt.guids == [match.guid for match in page]
            if len(page) == page_size:
                assert excerpt.last == page[-1]
        assert read_snapshot(Snapshot("", 5), 0, page_size) is None
