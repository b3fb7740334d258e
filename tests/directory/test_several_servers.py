"""Two domain controllers, of which one lags behind: what is read and written where, and what nobody can know yet."""

import shutil
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from redis import Redis

from active_directory import Client, Entry, servers_asked
from audit.models import OperationRecord
from directory.lookup import connection as connections
from directory.lookup.connection import preferred_controller_of
from directory.models import DirectoryConnection
from lab.directory import Directory, random_name
from lab.domain import Domain, reserved_address
from lab.proxy import FaultyProxy
from lab.redis import RedisServer
from lab.samba.controller import DomainController
from tests.support.cast import Integration, make_connection, make_integration
from tests.support.configuration import Configure
from tests.support.mishaps import just_before_the_write, settle


@dataclass
class Lagging:
    """A domain controller that has not heard of anything since this unit with its people was made."""

    controller: DomainController
    unit: str
    people: list[UUID]
    group: UUID


@pytest.fixture(scope="module")
def lagging(domain: Domain, directory: Directory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lagging]:
    """A copy of the running one: nothing is written to that meanwhile."""
    unit = directory.add_unit(random_name("unit"))
    people = [directory.add_user(random_name("person"), parent=unit, title="Analyst") for _ in range(4)]
    group = directory.add_group(parent=unit, member=directory.dn(people[0]))
    place = tmp_path_factory.mktemp("lagging") / "domain"
    with reserved_address() as address:
        shutil.copytree(domain.controller.directory, place, ignore=_sockets)
        controller = DomainController(place, address, durable=False)
        controller.start_and_wait()
    yield Lagging(controller, unit, people, group)
    controller.stop()
    directory.delete(directory.guid(unit), recursive=True)


def _sockets(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(directory) / name).is_socket()]


class Hosts:
    """The gateway over both: the lagging one comes first in the connection, each is behind a proxy of its own."""

    def __init__(self, connection: DirectoryConnection, behind: FaultyProxy, current: FaultyProxy) -> None:
        self.connection, self.behind, self.current = connection, behind, current
        self._integration = make_integration(connection)

    @property
    def one(self) -> Integration:
        """A host that has heard of nothing: not of what others have written, nor of who did not answer."""
        for known in connections._clients.values():
            known.client.close()
        connections._clients.clear()
        connections._redis.cache_clear()
        return self._integration

    @property
    def same(self) -> Integration:
        """The host that was called before."""
        return self._integration

    def write_at_current(self) -> Integration:
        """A host that does not reach the lagging one, until `restore` of it."""
        self.behind.cut()
        return self.one


@pytest.fixture
def hosts(db: None, domain: Domain, lagging: Lagging, redis_server: RedisServer) -> Iterator[Hosts]:
    with ExitStack() as stack:
        proxies = [FaultyProxy(each.address, 636) for each in (lagging.controller, domain.controller)]
        for proxy in proxies:
            stack.callback(proxy.close)
        yield Hosts(make_connection(domain, urls=[proxy.url for proxy in proxies]), *proxies)


def title(integration: Integration, person: UUID) -> str:
    answer = integration.get(f"/api/ad/users/{person}")
    assert answer.status == 200, answer
    return str(answer.body["attributes"]["title"][0])


def give_title(integration: Integration, person: UUID, text: str) -> int:
    return integration.patch(f"/api/ad/users/{person}", {"replace": {"title": text}}).status


def test_every_host_reads_where_the_latest_write_went(hosts: Hosts, lagging: Lagging, configure: Configure) -> None:
    ada = lagging.people[0]
    assert give_title(hosts.write_at_current(), ada, "Countess") == 200
    hosts.behind.restore()
    assert title(hosts.one, ada) == "Countess"
    assert title(hosts.same, ada) == "Countess"
    configure("Directory", StickySeconds=0)
    assert title(hosts.one, ada) == "Analyst", "the first server of the connection, which lags"


def test_without_redis_reads_go_on(hosts: Hosts, lagging: Lagging, redis_server: RedisServer) -> None:
    ada = lagging.people[0]
    assert give_title(hosts.write_at_current(), ada, random_name("title")) == 200
    hosts.behind.restore()
    redis_server.pause()
    try:
        assert title(hosts.same, ada) != "Analyst", "this host remembers"
        assert title(hosts.one, ada) == "Analyst"
        assert give_title(hosts.same, ada, "Baroness") == 503, "the log remembers"
    finally:
        redis_server.resume()


def test_after_a_fail_over_nothing_is_judged_by_an_earlier_state(
    hosts: Hosts, lagging: Lagging, directory: Directory
) -> None:
    """Two domain controllers would both change the object, and the directory keeps one change of the two."""
    _, bea, cleo, dan = lagging.people
    user = f"/api/ad/users/{bea}"
    new = {"name": random_name("new"), "parent": lagging.unit}
    host = hosts.write_at_current()
    assert give_title(host, bea, "Countess") == 200
    assert host.post(f"/api/ad/users/{cleo}/disable").status == 200
    assert host.post(f"/api/ad/groups/{lagging.group}/members", {"add": [str(bea)]}).status == 200
    created = host.post("/api/ad/users", new)
    assert created.status == 201, created
    assert not hosts.same.get(user).headers.get("Gateway-Replication")
    unit = host.post("/api/ad/organization-units", {"name": random_name("new"), "parent": lagging.unit})
    assert unit.status == 201, unit
    hosts.behind.restore()
    hosts.current.cut()

    host = hosts.one
    assert title(host, bea) == "Analyst", "reads follow"
    for path in (user, "/api/ad/users", f"/api/ad/users/{UUID(int=1)}"):
        assert host.get(path).headers["Gateway-Replication"] == "pending"
    assert host.get(user, **{"If-None-Match": "*"}).headers["Gateway-Replication"] == "pending"
    enabling = f"/api/ad/organization-units/{directory.guid(lagging.unit)}/accounts/enable"
    refused = [
        host.patch(f"{user}?dryRun=true", {"replace": {"title": "Baroness"}}),
        host.patch(user, {"replace": {"title": "Baroness"}}, **{"If-Match": '"a-later-one"'}),
        host.post(f"/api/ad/users/{cleo}/disable?dryRun=true"),
        host.post(enabling, {"accounts": [str(cleo)]}),
        host.post(enabling, {"kinds": ["user"]}),
        host.post(f"{enabling}?dryRun=true", {"kinds": ["user"]}),
        host.post(f"/api/ad/groups/{lagging.group}/members", {"add": [created.body["id"]]}),
        host.patch(user, {"replace": {"title": "Baroness"}}),
        host.post(f"/api/ad/users/{cleo}/enable"),  # there is nothing to change, as far as this one knows
        host.post(f"/api/ad/groups/{lagging.group}/members", {"remove": [str(bea)]}),
        host.get(f"/api/ad/users/{created.body['id']}"),
        host.post("/api/ad/users", {**new, "parent": unit.body["distinguishedName"]}),
        host.post("/api/ad/users", new),
    ]
    for answer in refused:
        assert (answer.status, answer.code) == (503, "AD.Directory.Unavailable"), answer
        assert "not arrived" in answer.body["detail"]
        assert answer.headers["Retry-After"]
    assert host.get(f"/api/ad/users/{UUID(int=1)}").status == 404, "nobody has made that"
    assert give_title(host, dan, "Duke") == 200, "nothing is on its way to this one"

    hosts.current.restore()
    assert directory.text(bea, "title") == "Countess"
    assert not directory.is_enabled(cleo)


def test_the_server_that_answered_is_the_one_that_has_to_have_it(
    hosts: Hosts, lagging: Lagging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current one comes back between the look and the answer, and would be chosen now."""
    dan = lagging.people[3]
    assert hosts.write_at_current().post(f"/api/ad/users/{dan}/disable").status == 200
    hosts.behind.restore()
    hosts.current.cut()

    @contextmanager
    def back_afterwards() -> Iterator[set[str]]:
        with servers_asked() as servers:
            yield servers
        hosts.current.restore()
        client = connections.get_client(hosts.connection.pk)
        client._pool._penalties.clear()
        assert client.choose_server() == hosts.current.url

    monkeypatch.setattr("gateway.pipeline.prepare.servers_asked", back_afterwards)
    assert hosts.one.post(f"/api/ad/users/{dan}/enable").status == 503
    assert hosts.same.post(f"/api/ad/users/{dan}/enable").status == 200


def test_what_has_arrived_is_changed_at_once(
    hosts: Hosts, lagging: Lagging, domain: Domain, directory: Directory
) -> None:
    """The other one has the changes too: here both are the same domain controller, by two names."""
    ada = lagging.people[0]
    twice = Hosts(make_connection(domain, urls=[hosts.current.url, domain.url]), hosts.current, hosts.current)
    group = f"/api/ad/groups/{lagging.group}/members"
    host = twice.one
    assert give_title(host, ada, "Viscountess") == 200
    assert host.post(group, {"remove": [str(ada)]}).status == 200
    assert host.post(f"/api/ad/users/{ada}/rename", {"name": random_name("renamed")}).status == 200
    hosts.current.cut()
    host = twice.one
    assert give_title(host, ada, "Marquise") == 200
    assert host.post(group, {"add": [str(ada)]}).status == 200
    assert host.post(group, {"remove": [str(ada)]}).status == 200, "the later change of the two is this one's own"
    assert directory.text(ada, "title") == "Marquise"


def test_a_change_that_a_server_has_shown_is_not_looked_for_again(
    hosts: Hosts, lagging: Lagging, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each of many changes of one group would look up the members of all the others."""
    twice = Hosts(make_connection(domain, urls=[hosts.current.url, domain.url]), hosts.current, hosts.current)
    group = f"/api/ad/groups/{lagging.group}/members"
    *others, dan = [str(person) for person in lagging.people]
    host = twice.one
    host.post(group, {"remove": others})
    for other in others:
        assert host.post(group, {"add": [other]}).status == 200
    hosts.current.cut()
    looked_up: list[int] = []
    read_many = Client.read_many

    def counted(self: Client, guids: Collection[UUID], names: tuple[str, ...], **options: Any) -> dict[UUID, Entry]:
        if sys._getframe(1).f_code.co_filename.endswith("evidence.py"):
            looked_up.append(len(guids))
        return read_many(self, guids, names, **options)

    monkeypatch.setattr(Client, "read_many", counted)
    host = twice.one
    assert host.post(group, {"add": [dan]}).status == 200
    assert looked_up == [len(others)], "all of them at once"
    assert host.post(group, {"remove": [dan]}).status == 200
    assert looked_up == [len(others)]


def test_what_became_of_a_lost_answer_only_its_own_server_knows(
    hosts: Hosts, lagging: Lagging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("directory.outcomes.evidence.RECOVERY_SECONDS", 0.5)
    dan = lagging.people[3]
    host = hosts.write_at_current()
    assert title(host, dan)

    def begin() -> None:
        for thread in threading.enumerate():
            if thread.name == "password policies":  # it would lose its answer, and the change would not be sent
                thread.join(60)
        hosts.current.lose_answer()
        hosts.behind.restore()

    just_before_the_write(monkeypatch, begin)
    assert give_title(host, dan, "Earl") == 504
    settle()
    assert OperationRecord.objects.get(operation="users.update").outcome == "unknown", "the lagging one shows nothing"
    hosts.current.restore()
    settle()
    assert OperationRecord.objects.get(operation="users.update").outcome == "succeeded"


def test_one_server_needs_no_agreement(integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("Redis was asked where there is nothing to agree on")

    monkeypatch.setattr("directory.lookup.connection._redis", asked)
    assert give_title(integration, ada, "Countess") == 200
    assert title(integration, ada) == "Countess"


def test_a_redis_that_may_lack_the_last_writes_vouches_for_nobody(redis_server: RedisServer) -> None:
    """One that was promoted or started anew; it has another identifier of replication than whoever was told before."""
    connection_id, server = uuid4(), "ldaps://one"
    shared = preferred_controller_of(connection_id, [server, "ldaps://two"])
    noted = f"gateway:directory:{connection_id}:complete-since"
    assert not shared.claim(server), "it has only begun to know"
    with Redis.from_url(redis_server.url, decode_responses=True) as redis:
        own = redis.info("replication")["master_replid"]
        redis.set(noted, f"{own} 1")
        assert shared.claim(server)
        redis.set(noted, f"{'0' * 40} 1")
        assert not shared.claim(server)
        assert redis.get(noted).startswith(f"{own} ")
