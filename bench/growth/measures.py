"""Measures the same at several sizes of directory and log, and says by which law each figure grows.

A world has a domain and a gateway of one size. Figures are processor time of the gateway's web processes, the database
and the domain controller for one request, beside that of raw python-ldap in the same run.
"""

import math
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import ldap

from bench.client import Client
from bench.console import Browser
from bench.growth import OLD_OBJECT, OLD_OWNER
from bench.report import print_head, print_row
from bench.servers import Domain, Gateway, running_domain, running_gateway
from bench.turns import RAW, Way, take_turns
from bench.usage import memory_of, processor_seconds

_PARTS = ("web", "database", "domain controller")
_ROUNDS = 3
_Work = Callable[[], object]
_IN_CHAIN = "1.2.840.113556.1.4.1941"
_GROUPS = "OU=Growth Groups"


@dataclass(frozen=True, slots=True)
class Figures:
    """Milliseconds of processor of one request, and until its answer, of the gateway and of raw python-ldap."""

    processor: float
    answered: float
    raw: float | None = None


@dataclass(frozen=True, slots=True)
class World:
    """A directory and a log of one size, with ways to ask them."""

    domain: Domain
    gateway: Gateway
    client: Client

    @property
    def browser(self) -> Browser:
        """A signed-in person's new connection: the web server closes those that are idle for long."""
        return Browser(self.gateway)

    def measure(self, work: _Work, raw: _Work | None = None, *, times: int = 5) -> Figures:
        """Do it some times, in turns with raw."""

        def repeated(each: _Work) -> Way:
            return Way(lambda: [each() for _ in range(times)])

        ways = {"gateway": repeated(work), **({RAW: repeated(raw)} if raw else {})}
        roots = {part: root for part, root in self.gateway.processes.items() if part in _PARTS}
        processes = {"gateway": roots | self.domain.processes, RAW: self.domain.processes}
        try:
            samples = take_turns(ways, processes, rounds=_ROUNDS)
        except (SystemExit, OSError, HTTPException) as refused:
            print(refused, flush=True)
            return Figures(math.nan, math.nan)
        each = 1000 / (_ROUNDS * times)
        return Figures(
            sum(samples["gateway"].processor.values()) * each,
            samples["gateway"].median * 1000 / times,
            sum(samples[RAW].processor.values()) * each if raw else None,
        )


def law_of(sizes: Sequence[int], figures: Sequence[float]) -> str:
    """How figures grow with sizes, by the exponent between the smallest and the largest."""
    if len(sizes) < 2 or not all(figure > 0 for figure in figures):
        return "–"
    exponent = math.log(figures[-1] / figures[0]) / math.log(sizes[-1] / sizes[0])
    return "constant" if exponent < 0.12 else "log n" if exponent < 0.35 else "√n" if exponent < 0.7 else "n"


def measures_of_log(world: World) -> dict[str, Figures]:
    """The pages and figures that read the log."""
    get, browser = partial(world.client.call, "GET"), world.browser
    record = get("/api/operations?pageSize=1&onlyChanges=true")["items"][0]["id"]
    key = browser.call("GET", "/rest/api-keys")["items"][0]["id"]
    log = "/api/operations?pageSize=100"
    sixty_days_ago = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() - 60 * 86400))
    paths = {
        "page of 100, new": log,
        "page of 100, 60 days old": f"{log}&to={sixty_days_ago}",
        "page of 100 changes, 60 days old": f"{log}&onlyChanges=true&to={sixty_days_ago}",
        "page by an owner of long ago": f"{log}&owner={OLD_OWNER}",
        "page by an object of long ago": f"{log}&target={OLD_OBJECT}",
    }
    found = {name: world.measure(partial(get, path)) for name, path in paths.items()}
    searches = {"`q`": "q=zzzzzz", "`value`": "value=zzzzzz", "owner with key": f"owner={OLD_OWNER}&keyName=key-1"}
    for name, search in searches.items():
        work = partial(get, f"{log}&{search}")
        found[f"search that finds nothing ({name})"] = world.measure(work, times=1)
    browser = world.browser
    works: dict[str, _Work] = {
        "statistics of 90 days": partial(browser.call, "GET", "/rest/operations/statistics?days=90"),
        "a key's use": partial(browser.call, "GET", f"/rest/api-keys/{key}/usage?days=90"),
        "home": partial(browser.fetch, "/console/"),
        "a record's page": partial(browser.fetch, f"/console/log/{record}"),
        "`/metrics`": partial(world.client.send, "GET", "/metrics"),
    }
    found |= {name: world.measure(work) for name, work in works.items()}
    for name, options in {"verification of the whole": (), "verification of what is new": ("--continue",)}.items():
        found[name] = _commanded(world.gateway, "verify_operations_log", *options)
    before = f"--before={time.strftime('%Y-%m', time.gmtime())}"
    found["all months that are over leave"] = _commanded(world.gateway, "expire_operations_log", before)
    return found


def _commanded(gateway: Gateway, *command: str) -> Figures:
    """The processor time of a command, without that of a database that is a server."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    gateway.live.manage(*command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return Figures(seconds * 1000, (time.perf_counter() - began) * 1000)


def measures_of_directory(world: World) -> dict[str, Figures]:
    """What the second table has: members, searches, rights, and writes beside reads."""
    base, call = world.domain.base_dn, world.client.call
    get = partial(call, "GET")
    raw = world.domain.bind()
    groups, unit = f"{_GROUPS},{base}", f"OU=Growth,{base}"

    def id_of(resource: str, dn: str) -> str:
        found: str = get(f"/api/ad/{resource}/by-dn?dn={quote(dn)}")["id"]
        return found

    def search(filter: str, where: str = base, scope: int = ldap.SCOPE_SUBTREE) -> _Work:
        return partial(raw.search_ext_s, where, scope, filter, ["objectGUID"])

    def members(name: str, options: str = "") -> str:
        return f"/api/ad/groups/{id_of('groups', f'CN={name},{groups}')}/members?{options}"

    def raw_members(name: str) -> _Work:
        return partial(raw.search_ext_s, f"CN={name},{groups}", ldap.SCOPE_BASE, "(objectClass=*)", ["member"])

    person = f"/api/ad/users/{id_of('users', f'CN=Person 00000,{unit}')}"
    in_chain = quote(f"(memberOf:{_IN_CHAIN}:=CN=Most,{groups})")
    read = partial(get, person)

    def write() -> object:
        return call("PATCH", person, {"replace": {"title": uuid4().hex}})

    def create() -> object:
        new = [{"name": f"New {uuid4().hex[:12]}", "parent": unit} for _ in range(20)]
        return call("POST", "/api/ad/users/batch/create", {"items": new})

    def write_raw() -> None:
        raw.modify_s(f"CN=Person 00001,{unit}", [(ldap.MOD_REPLACE, "title", uuid4().hex.encode())])

    def read_after_write() -> object:
        write_raw()
        write()
        return read()

    def read_later() -> object:
        """Read what is protected anew, which may be shown for two seconds."""
        write_raw()
        time.sleep(2.1)
        return read()

    expired = "(&(objectCategory=person)(objectClass=user)(pwdLastSet=133000000000000000))"
    unindexed = "(&(objectCategory=person)(objectClass=user)(employeeNumber=4711))"
    works: dict[str, tuple[_Work, _Work | None, int]] = {
        "read of a person": (read, search("(objectClass=*)", f"CN=Person 00000,{unit}", ldap.SCOPE_BASE), 5),
        "change of a person": (write, None, 5),
        "change and read after it": (read_after_write, None, 5),
        "search that no index serves": (
            partial(get, f"/api/ad/users?filter={quote('(employeeNumber=4711)')}"),
            search(unindexed),
            5,
        ),
        "search by an index": (partial(get, "/api/ad/users?filter=(mail=nobody)"), search("(mail=nobody)"), 5),
        "members of 10, first page": (partial(get, members("Ten")), raw_members("Ten"), 5),
        "members of two fifths, first page": (partial(get, members("Most")), raw_members("Most"), 2),
        "nested members, 200 groups wide": (partial(get, members("Wide", "nested=true")), None, 1),
        "`memberOf` in-chain": (partial(get, f"/api/ad/users?pageSize=100&filter={in_chain}"), None, 1),
        "password-expired, first page": (
            partial(get, "/api/ad/accounts?state=password-expired"),
            search(expired),
            1,
        ),
        "read two seconds after somebody's write": (read_later, write_raw, 1),
        "batch create of 20": (create, None, 1),
    }
    found = {name: world.measure(work, its_raw, times=times) for name, (work, its_raw, times) in works.items()}
    operators = f"CN=Account Operators,CN=Builtin,{base}"
    guards = [("member", [f"CN=Guards,{groups}".encode()])]
    raw.modify_s(operators, [(ldap.MOD_DELETE, *each) for each in guards])
    found["the batch without protected accounts"] = world.measure(create, times=1)
    found["the read without protected accounts"] = world.measure(read_later, write_raw, times=1)
    raw.modify_s(operators, [(ldap.MOD_ADD, *each) for each in guards])
    browser = world.browser
    rights = f"/rest/directories/{browser.call('GET', '/rest/directories')['items'][0]['id']}/rights"
    found["the account's rights"] = world.measure(partial(browser.call, "GET", rights), times=1)
    everybody = id_of("groups", f"CN=Domain Users,CN=Users,{base}")
    other = Client(world.gateway, api_key=world.gateway.api_keys[-1])  # one connection answers one after another
    for name, path in {
        "nested members": members("Wide", "nested=true"),
        "members of Domain Users": f"/api/ad/groups/{everybody}/members",
        "`memberOf` in-chain": f"/api/ad/users?filter={in_chain}",
        "password-expired": "/api/ad/accounts?state=password-expired",
        "all people in order": "/api/ad/users?sort=displayName",
        "people who are not in a group": f"/api/ad/users?filter={quote(f'(!(memberOf=CN=Most,{groups}))')}",
        "nested members of Domain Users": f"/api/ad/groups/{everybody}/members?nested=true",
    }.items():
        found[f"a change beside {name}: the longest wait"] = _beside(
            world.domain, write, partial(other.call, "GET", path)
        )
    return found


def _beside(domain: Domain, write: _Work, read: _Work) -> Figures:
    """The longest that a write waits while a read goes on, of three reads: by the domain controller's processor, and
    by the clock."""
    waits = []
    with ThreadPoolExecutor(1) as pool:
        for _ in range(_ROUNDS):
            reading = pool.submit(read)
            while not reading.done():
                used, began = sum(processor_seconds(domain.processes).values()), time.perf_counter()
                write()
                took = time.perf_counter() - began
                waits.append((sum(processor_seconds(domain.processes).values()) - used, took))
            if (refused := reading.exception()) is not None:
                print(refused, flush=True)
                return Figures(math.nan, math.nan)
    processor, clock = map(max, zip(*waits, strict=True))
    return Figures(processor * 1000, clock * 1000)


def print_growth(worlds: Sequence[tuple[int, int]], database: str) -> None:
    """Print both tables: the figures at each size of directory and log, and the law by which they grow."""
    halves = measures_of_directory, measures_of_log
    measured: list[list[dict[str, Figures]]] = []
    memory = []
    for people, records in worlds:
        with (
            running_domain(people=people, filler=Path(__file__).with_name("fill_domain.py")) as domain,
            running_gateway(domain, database=database, records=records) as gateway,
        ):
            world = World(domain, gateway, Client(gateway))
            measured.append([half(world) for half in halves])
            memory.append(max(process.resident for process in memory_of(gateway.processes["web"])))
        _print_tables(worlds, measured)
    print(f"\nThe largest web process has {', '.join(f'{size:.0f}' for size in memory)} MB.")


def _print_tables(worlds: Sequence[tuple[int, int]], measured: Sequence[Sequence[dict[str, Figures]]]) -> None:
    """Print the figures of the worlds measured so far."""
    for half, what in enumerate(("people", "records")):
        sizes = [world[half] for world in worlds[: len(measured)]]
        print_head("Measure", *(f"{size:,} {what}" for size in sizes), "raw at the last", "grows as")
        for name in measured[0][half]:
            figures = [each[half][name] for each in measured]
            cells = (f"{each.processor:.0f} ms ({each.answered:.0f})" for each in figures)
            raw = figures[-1].raw
            law = law_of(sizes, [each.processor for each in figures])
            print_row(name, *cells, "–" if raw is None else f"{raw:.0f} ms", law)
