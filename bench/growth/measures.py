"""Measures the same at several sizes of directory and log, and says by which law each figure grows.

A world has a domain and a gateway of one size. Figures are processor time of the gateway's web processes, the database
and the domain controller for one request, beside that of raw python-ldap in the same run.
"""

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
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
_OFTEN, _SLOW_SECONDS = 5, 0.3
"""How often a request is made in a round, unless it takes longer than this."""
_EVERYTHING = "(objectClass=*)"
_USERS = "(&(objectCategory=person)(objectClass=user)({}))"
_Work = Callable[[], object]


class Figures(NamedTuple):
    """Milliseconds of processor of one request, and until its answer, of the gateway and of raw python-ldap."""

    processor: float
    answered: float
    raw: float | None = None


_REFUSED = Figures(math.nan, math.nan)
_Measured = dict[str, Figures]


class World(NamedTuple):
    """A directory and a log of one size, with ways to ask them."""

    domain: Domain
    gateway: Gateway
    client: Client

    def measure(self, work: _Work, raw: _Work | None = None) -> Figures:
        """Do it some times, in turns with raw."""
        roots = {part: root for part, root in self.gateway.processes.items() if part in _PARTS}
        processes = {"gateway": roots | self.domain.processes, RAW: self.domain.processes}
        try:
            began = time.perf_counter()
            work()
            times = 1 if time.perf_counter() - began > _SLOW_SECONDS else _OFTEN
            works = {"gateway": work} | ({RAW: raw} if raw else {})
            ways = {name: Way(partial(_repeat, each, times)) for name, each in works.items()}
            samples = take_turns(ways, processes, rounds=_ROUNDS)
        except (SystemExit, RuntimeError, OSError, HTTPException) as refused:
            print(refused, flush=True)
            return _REFUSED
        used = {name: each.processor.total() * 1000 / (_ROUNDS * times) for name, each in samples.items()}
        return Figures(used["gateway"], samples["gateway"].median * 1000 / times, used.get(RAW))

    def of(self, path: str, raw: _Work | None = None) -> Figures:
        """Measure a GET by a program."""
        return self.measure(partial(self.client.call, "GET", path), raw)

    def of_person(self, path: str) -> Figures:
        """Measure a GET by a signed-in person, on a new connection: the web server closes idle ones."""
        browser = Browser(self.gateway)
        get: Callable[[str], object] = browser.fetch if "/console/" in path else partial(browser.call, "GET")
        return self.measure(partial(get, path))

    def of_command(self, *command: str) -> Figures:
        """Measure a command's processor time, without that of a database that is a server."""
        before, began = sum(os.times()[2:4]), time.perf_counter()
        self.gateway.live.manage(*command)
        seconds = sum(os.times()[2:4]) - before
        return Figures(seconds * 1000, (time.perf_counter() - began) * 1000)


def _repeat(work: _Work, times: int) -> None:
    for _ in range(times):
        work()


def law_of(sizes: Sequence[int], figures: Sequence[float]) -> str:
    """How figures grow with sizes, by the exponent between the smallest and the largest."""
    if len(sizes) < 2 or not all(figure > 0 for figure in figures):
        return "–"
    exponent = math.log(figures[-1] / figures[0]) / math.log(sizes[-1] / sizes[0])
    return "constant" if exponent < 0.12 else "log n" if exponent < 0.35 else "√n" if exponent < 0.7 else "n"


def measure_log(world: World) -> _Measured:
    """Measure the pages and figures that read the log."""
    record = world.client.call("GET", "/api/operations?pageSize=1&onlyChanges=true")["items"][0]["id"]
    key = Browser(world.gateway).call("GET", "/rest/api-keys")["items"][0]["id"]
    log = "/api/operations?pageSize=100"
    sixty_days_ago = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(time.time() - 60 * 86400))
    this_month = time.strftime("%Y-%m", time.gmtime())
    return {
        "page of 100, new": world.of(log),
        "page of 100, 60 days old": world.of(f"{log}&to={sixty_days_ago}"),
        "page of 100 changes, 60 days old": world.of(f"{log}&onlyChanges=true&to={sixty_days_ago}"),
        "page by an owner of long ago": world.of(f"{log}&owner={OLD_OWNER}"),
        "page by an object of long ago": world.of(f"{log}&target={OLD_OBJECT}"),
        "search that finds nothing (`q`)": world.of(f"{log}&q=zzzzzz"),
        "search that finds nothing (`value`)": world.of(f"{log}&value=zzzzzz"),
        "search that finds nothing (owner with key)": world.of(f"{log}&owner={OLD_OWNER}&keyName=key-1"),
        "statistics of 90 days": world.of_person("/rest/operations/statistics?days=90"),
        "a key's use": world.of_person(f"/rest/api-keys/{key}/usage?days=90"),
        "home": world.of_person("/console/"),
        "a record's page": world.of_person(f"/console/log/{record}"),
        "`/metrics`": world.measure(partial(world.client.send, "GET", "/metrics")),
        "verification of the whole": world.of_command("verify_operations_log"),
        "verification of what is new": world.of_command("verify_operations_log", "--continue"),
        "all months that are over leave": world.of_command("expire_operations_log", f"--before={this_month}"),
    }


def measure_directory(world: World) -> _Measured:
    """Measure members, searches, rights, and writes beside reads."""
    base, call = world.domain.base_dn, world.client.call
    raw = world.domain.bind()
    groups, unit = f"OU=Growth Groups,{base}", f"OU=Growth,{base}"
    first, second = f"CN=Person 00000,{unit}", f"CN=Person 00001,{unit}"

    def search(filter: str, where: str = base, scope: int = ldap.SCOPE_SUBTREE, attribute: str = "objectGUID") -> _Work:
        return partial(raw.search_ext_s, where, scope, filter, [attribute])

    def members(dn: str, options: str = "") -> str:
        group = call("GET", f"/api/ad/groups/by-dn?dn={quote(dn)}")["id"]
        return f"/api/ad/groups/{group}/members?{options}"

    def first_page_of_members(name: str) -> Figures:
        dn = f"CN={name},{groups}"
        return world.of(members(dn), search(_EVERYTHING, dn, ldap.SCOPE_BASE, "member"))

    person = f"/api/ad/users/{call('GET', f'/api/ad/users/by-dn?dn={quote(first)}')['id']}"
    nested = members(f"CN=Wide,{groups}", "nested=true")
    everybody = members(f"CN=Domain Users,CN=Users,{base}")
    in_chain = f"/api/ad/users?filter={quote(f'(memberOf:1.2.840.113556.1.4.1941:=CN=Most,{groups})')}"

    def write() -> None:
        call("PATCH", person, {"replace": {"title": uuid4().hex}})

    def create() -> None:
        new = [{"name": f"New {uuid4().hex[:12]}", "parent": unit} for _ in range(20)]
        call("POST", "/api/ad/users/batch/create", {"items": new})

    def write_raw() -> None:
        raw.modify_s(second, [(ldap.MOD_REPLACE, "title", uuid4().hex.encode())])

    def read_later() -> None:
        """Read what is protected anew, which may be shown for two seconds."""
        write_raw()
        time.sleep(2.1)
        call("GET", person)

    def without_protected_accounts(work: _Work, its_raw: _Work | None = None) -> Figures:
        operators, guards = f"CN=Account Operators,CN=Builtin,{base}", f"CN=Guards,{groups}".encode()
        raw.modify_s(operators, [(ldap.MOD_DELETE, "member", [guards])])
        figures = world.measure(work, its_raw)
        raw.modify_s(operators, [(ldap.MOD_ADD, "member", [guards])])
        return figures

    directory = Browser(world.gateway).call("GET", "/rest/directories")["items"][0]["id"]
    other = Client(world.gateway, f"X-API-Key: {world.gateway.api_keys[-1]}")  # one answers one after another
    beside = {
        "nested members": nested,
        "members of Domain Users": everybody,
        "`memberOf` in-chain": in_chain,
        "password-expired": "/api/ad/accounts?state=password-expired",
        "all people in order": "/api/ad/users?sort=displayName",
        "people who are not in a group": f"/api/ad/users?filter={quote(f'(!(memberOf=CN=Most,{groups}))')}",
        "nested members of Domain Users": f"{everybody}nested=true",
    }
    return {
        "read of a person": world.of(person, search(_EVERYTHING, first, ldap.SCOPE_BASE)),
        "change of a person": world.measure(write),
        "search that no index serves": world.of(
            f"/api/ad/users?filter={quote('(employeeNumber=4711)')}", search(_USERS.format("employeeNumber=4711"))
        ),
        "search by an index": world.of("/api/ad/users?filter=(mail=nobody)", search("(mail=nobody)")),
        "members of 10, first page": first_page_of_members("Ten"),
        "members of two fifths, first page": first_page_of_members("Most"),
        "nested members, 200 groups wide": world.of(nested),
        "`memberOf` in-chain": world.of(f"{in_chain}&pageSize=100"),
        "password-expired, first page": world.of(
            beside["password-expired"], search(_USERS.format("pwdLastSet=133000000000000000"))
        ),
        "read two seconds after somebody's write": world.measure(read_later, write_raw),
        "batch create of 20": world.measure(create),
        "the batch without protected accounts": without_protected_accounts(create),
        "the read without protected accounts": without_protected_accounts(read_later, write_raw),
        "the account's rights": world.of_person(f"/rest/directories/{directory}/rights"),
        **{
            f"a change beside {name}: the longest wait": _beside(world.domain, write, partial(other.call, "GET", path))
            for name, path in beside.items()
        },
    }


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
                return _REFUSED
    processor, clock = map(max, zip(*waits, strict=True))
    return Figures(processor * 1000, clock * 1000)


def print_growth(sizes: str, database: str) -> None:
    """Print both tables: the figures at each size of directory and log, and the law by which they grow.

    `sizes` are `PEOPLE:RECORDS,…`.
    """
    worlds = [tuple(map(int, each.split(":"))) for each in sizes.split(",")]
    measured: list[tuple[_Measured, _Measured]] = []
    memory = []
    for people, records in worlds:
        with (
            running_domain(people=people, filler=Path(__file__).with_name("fill_domain.py")) as domain,
            running_gateway(domain, database=database, records=records) as gateway,
        ):
            world = World(domain, gateway, Client(gateway))
            measured.append((measure_directory(world), measure_log(world)))
            memory.append(max(process.resident for process in memory_of(gateway.processes["web"])))
        # The figures of the worlds measured so far.
        for half, what in enumerate(("people", "records")):
            numbers = [size[half] for size in worlds[: len(measured)]]
            print_head("Measure", *(f"{number:,} {what}" for number in numbers), "raw at the last", "grows as")
            for name in measured[0][half]:
                figures = [each[half][name] for each in measured]
                cells = (f"{each.processor:.0f} ms ({each.answered:.0f})" for each in figures)
                raw, law = figures[-1].raw, law_of(numbers, [each.processor for each in figures])
                print_row(name, *cells, "–" if raw is None else f"{raw:.0f} ms", law)
    print(f"\nThe largest web process has {', '.join(f'{size:.0f}' for size in memory)} MB.")
