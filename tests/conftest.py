"""Servers and clients every test may ask for; each is started when the first test asks and stopped at the end.

Fixtures of one app live in that app's folder, the whole cast of accounts and keys in `tests/support`.
"""

import gc
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import django
import pytest
from django.conf import settings
from django.contrib.auth.hashers import ScryptPasswordHasher
from django.core.cache import cache as stored
from django.core.management import call_command
from hypothesis import settings as examples
from pytest_django.plugin import blocking_manager_key
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from lab.clock import stay_within_a_day
from lab.directory import Directory, random_name
from lab.domain import Domain, running_domain
from lab.gateway import LiveGateway
from lab.postgres import Postgres
from lab.processes import log_tail
from lab.proxy import FaultyProxy
from lab.redis import RedisServer
from tests.support.compiled import one_before_the_others
from tests.support.configuration import Configure
from tests.support.database import gateway_at, name_of_test_database, prepare_flush, use_file_for_sqlite
from tests.support.environment import DATABASE, REDIS_SOCKET, RUNTIME, prepare_environment
from tests.support.migrated import MIGRATED, copy_postgres, copy_sqlite
from tests.support.quick import is_quick

# Nothing that is loaded and collected is garbage; see `pytest_collection_finish`.
gc.disable()
if settings.configured:
    raise pytest.UsageError("Unset DJANGO_SETTINGS_MODULE: settings were read before the tests' servers were chosen")
prepare_environment()
# Here and not left to pytest-django: conftests of single folders, read next, import models.
django.setup()

from audit import bounded_search  # noqa: E402 - after Django is set up
from audit.chain import checkpoint, verification, verifying  # noqa: E402 - after Django is set up
from audit.read_buffer import reads  # noqa: E402 - after Django is set up
from core import rate_limits  # noqa: E402
from core.redis import clients as redis_clients  # noqa: E402
from directory.lookup import connection as connections  # noqa: E402
from directory.models import DirectoryConnection  # noqa: E402
from keys.permissions import cache as permission_cache  # noqa: E402
from tests.support.access_state import StateOfTest  # noqa: E402
from tests.support.cast import Integration, make_connection, make_integration  # noqa: E402
from tests.support.domains import client_of, renew_domains  # noqa: E402
from tests.support.ldap_clients import ClientOfTests  # noqa: E402

# The hash of a password says with how much work it was made, so every process can check these. Hundreds are made.
ScryptPasswordHasher.work_factor = 2
# Each test's client loads the middleware anew: WhiteNoise would look through the files of every package each time.
settings.WHITENOISE_AUTOREFRESH = True
# How long an example takes says how busy the machine is, and nothing of what is tested.
examples.register_profile("any-machine", deadline=None)
examples.load_profile("any-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare our option."""
    parser.addoption("--quick", action="store_true", help="run only the tests that need no servers")
    parser.addoption("--no-live", action="store_true", help="run none that needs a gateway in processes of its own")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    config.addinivalue_line("markers", "sqlite: also run on SQLite by `make test`")
    config.addinivalue_line("markers", "long: begun first, for it mostly waits while the others compute")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not read what has no test for SQLite where those alone are run."""
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return (is_test and config.option.markexpr == "sqlite" and "mark.sqlite" not in collection_path.read_text()) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not quick where that alone is run.

    Begin with what takes longest: at the end nobody would be left to share the wait. Then what needs a gateway in
    processes of its own, and a second domain, so that few test processes start them.
    """

    def place(item: pytest.Item) -> tuple[bool, ...]:
        needs = getattr(item, "fixturenames", ())
        is_last = _LIVE.isdisjoint(needs), "domain_without_recycle_bin" not in needs
        return (item.get_closest_marker("long") is None, *is_last)

    def is_wanted(item: pytest.Item) -> bool:
        is_live = config.option.no_live and not _LIVE.isdisjoint(getattr(item, "fixturenames", ()))
        return not is_live and (not config.option.quick or is_quick(item))

    items.sort(key=place)
    config.hook.pytest_deselected(items=[item for item in items if not is_wanted(item)])
    items[:] = filter(is_wanted, items)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let one of the test processes compile the tests, which takes three times as long as reading what is compiled."""
    if not hasattr(session.config, "workerinput"):
        return (yield)
    with one_before_the_others("collection"):
        return (yield)


def pytest_collection_finish() -> None:
    """Let the collector look through what the tests leave alone, as rarely as in the gateway's own processes.

    Else a twentieth of the processor time would go into looking through modules and thousands of tests again and again.
    """
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart() -> None:
    """Keep settings away from the processes of a parallel run until they have chosen servers of their own.

    They inherit this environment, and pytest-django reads settings before any conftest when the variable is set.
    """
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


@pytest.fixture(autouse=True)
def reads_wait_for_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reads are recorded when the test flushes them: a thread's own connection would outlive the test's rollback."""
    monkeypatch.setattr(reads, "_start", lambda: None)
    yield
    reads._waiting.clear()


@pytest.fixture(autouse=True)
def each_log_is_a_new_one(request: pytest.FixtureRequest) -> None:
    """The log of the test before was thrown away: its mark would say so."""
    if not _uses_database(request.node):
        return
    (Path(settings.DATA_DIR) / "log-mark").unlink(missing_ok=True)
    if REDIS_SOCKET.exists():
        with suppress(RedisError):
            _redis().delete(checkpoint._KEY, *map(stored.make_key, (*verifying.KEYS, verification._DOUBT)))


@pytest.fixture(autouse=True)
def no_attempt_is_left_over(request: pytest.FixtureRequest) -> None:
    """Forget the attempts at passwords that a thread counted and could not take back, since its test had ended.

    Two of them keep the gateway out of the directory, as wrong passwords would. What a test's own transaction deletes
    would be there again for the threads of the test.
    """
    if DATABASE == "sqlite" or "django_db_setup" not in request.fixturenames:
        return
    request.getfixturevalue("django_db_setup")
    with request.getfixturevalue("django_db_blocker").unblock():
        database = _database_aside()
        if not database.is_usable():  # a test has restarted the server
            database.close()
        with database.cursor() as cursor:
            cursor.execute("DELETE FROM directory_passwordattempt")


@pytest.fixture(autouse=True)
def callers_are_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in production, between the requests of one test."""
    state = StateOfTest()
    monkeypatch.setattr(permission_cache, "read_state", state.read)
    yield
    state.end()


@pytest.fixture(autouse=True)
def searches_of_the_log_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of the log ends early only in a test that asks for it, and not because the machine is busy."""
    monkeypatch.setattr(bounded_search, "SECONDS", 120.0)


@cache
def _database_aside() -> Any:
    """A connection that is in no test's transaction."""
    database = django.db.connection.copy()
    database.connect()
    return database


@cache
def _redis() -> Redis:
    """One client for all tests: making it takes longer than many a test, since it looks up its own version."""
    return Redis.from_url(settings.REDIS_URL, retry=Retry(NoBackoff(), 1))  # some tests restart the server


@pytest.fixture(autouse=True)
def clients_end_with_their_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has clients of its own, which take over from those before them what is the same for all."""
    monkeypatch.setattr(connections, "Client", ClientOfTests)
    yield
    for known in connections._clients.values():
        known.client.end()  # type: ignore[attr-defined]  # those of tests alone
    connections._clients.clear()
    connections.forget_known_connections()


@pytest.fixture
def within_a_day() -> None:
    """The test does not run over midnight (UTC): it tells days apart."""
    stay_within_a_day()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The broker and cache the settings name."""
    server = RedisServer(REDIS_SOCKET)
    server.start_and_wait()
    yield server
    server.stop()


@pytest.fixture
def configure(settings: Any) -> Configure:
    """Change keys of one section of the configuration."""

    def change(section: str, /, **keys: Any) -> None:
        changed = getattr(settings.CONFIGURATION, section).model_copy(update=keys)
        settings.CONFIGURATION = settings.CONFIGURATION.model_copy(update={section: changed})

    return change


@pytest.fixture
def patient_counters(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Redis is waited for, also where the test before did without it: otherwise a request might go uncounted."""
    monkeypatch.setattr(redis_clients, "TIMEOUT", 60.0)
    rate_limits._redis.cache_clear()
    yield
    rate_limits._redis.cache_clear()


@pytest.fixture
def limited(configure: Configure, redis_server: RedisServer, patient_counters: None) -> None:
    """Rate limits as they are by default, with nothing counted yet: tests go without them."""
    configure("RateLimiting", Enabled=True)
    with Redis.from_url(redis_server.url) as redis:
        for pattern in ("gateway:limit:*", "gateway:*:rl:*"):  # ours, and those of django-ratelimit
            for counter in redis.scan_iter(pattern):
                redis.delete(counter)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The database server the settings name, except on the leg with SQLite."""
    server = copy_postgres()
    server.start_and_wait()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest, django_db_modify_db_settings_parallel_suffix: None, redis_server: RedisServer
) -> None:
    """Whatever uses the database gets its servers started first (pytest-django's hook for this moment)."""
    if DATABASE == "sqlite":
        copy_sqlite(use_file_for_sqlite())
    else:
        request.getfixturevalue("postgres").create_database(name_of_test_database(), like=MIGRATED)
    prepare_flush()


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Whether the database is there already (pytest-django's hook): it was copied, and goes with its server."""
    return True


@pytest.fixture(scope="session")
def domain() -> Iterator[Domain]:
    """A domain with the recycle bin enabled."""
    with running_domain(RUNTIME / "domain") as domain:
        yield domain


@pytest.fixture(scope="session")
def domain_without_recycle_bin() -> Iterator[Domain]:
    """A second domain in which deleted objects become tombstones."""
    with running_domain(RUNTIME / "domain-tombstones", recycle_bin=False) as domain:
        yield domain


@pytest.fixture(scope="session")
def directory(domain: Domain) -> Iterator[Directory]:
    """An independent client of the domain, as its administrator."""
    with client_of(domain) as client:
        yield client


@pytest.fixture(scope="session")
def tombstone_directory(domain_without_recycle_bin: Domain) -> Iterator[Directory]:
    """The same of the second domain."""
    with client_of(domain_without_recycle_bin) as client:
        yield client


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Let what reads password policies end while the test's database is there: it may sign in to a directory anew.

    The next module may begin with new domains.
    """
    for thread in threading.enumerate():
        if thread.name == "password policies":
            thread.join(5)
    yield
    if nextitem is not None and nextitem.path != item.path and not any(gateway.is_running for gateway in _started):
        renew_domains()


@pytest.fixture
def organizational_unit(directory: Directory) -> Iterator[str]:
    """A fresh organizational unit (its distinguished name), removed afterwards with all it contains."""
    dn = directory.add_unit(random_name("unit"))
    guid = directory.guid(dn)
    yield dn
    if directory.exists(guid):
        directory.delete(guid, recursive=True)


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    """The domain, connected to the gateway."""
    return make_connection(domain)


@pytest.fixture
def integration(connection: DirectoryConnection) -> Integration:
    """A key that may do everything, without asking."""
    return make_integration(connection)


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    """A user of the domain, in the test's own unit."""
    return directory.add_user("Ada Lovelace", parent=organizational_unit, title="Analyst")


@pytest.fixture
def directory_proxy(domain: Domain) -> Iterator[FaultyProxy]:
    """A proxy in front of the domain controller that can cut, stall and swallow."""
    proxy = FaultyProxy(domain.controller.address, 636)
    yield proxy
    proxy.close()


@pytest.fixture
def through_proxy(db: None, domain: Domain, directory_proxy: FaultyProxy) -> Integration:
    """As `integration`, with the proxy in front of its domain controller."""
    return make_integration(make_connection(domain, url=directory_proxy.url))


_LIVE = frozenset({"live_gateway", "live_web"})
_started: list[LiveGateway] = []


@pytest.fixture(scope="session")
def _web_server(django_db_setup: None, redis_server: RedisServer) -> Iterator[LiveGateway]:
    gateway = gateway_at(RUNTIME / "gateway")
    _started.append(gateway)
    yield gateway
    gateway.stop()


@pytest.fixture
def live_web(_web_server: LiveGateway) -> LiveGateway:
    """The web server alone, in processes of its own, on the test database."""
    _web_server.web.start_and_wait()
    return _web_server


@pytest.fixture
def live_gateway(live_web: LiveGateway) -> LiveGateway:
    """Web server and worker in processes of their own, on the test database.

    They see what is committed, so a test that writes to the database itself asks for `transactional_db`. They go on
    until a test that uses the database without them.
    """
    live_web.worker.start_and_wait()
    return live_web


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure over the live gateway goes what its processes said."""
    report = yield
    if report.failed and _LIVE & {*getattr(item, "fixturenames", ())}:
        for gateway in _started:
            report.sections += [(each.name, log_tail(each.log_file, 60)) for each in gateway.services]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the live gateway before a test that does its work itself, and empty the database once more.

    A worker would take what such a test sends to one; and the last reads of a web server are written a moment later.
    """
    if _uses_database(item) and _LIVE.isdisjoint(getattr(item, "fixturenames", ())):
        for gateway in _started:
            if gateway.is_running:
                gateway.stop()
                with item.config.stash[blocking_manager_key].unblock():
                    call_command("flush", interactive=False, verbosity=0)


def _uses_database(item: pytest.Item) -> bool:
    named = getattr(item, "fixturenames", ())
    return "django_db_setup" in named or item.get_closest_marker("django_db") is not None
