"""How soon the console answers over the demonstration's domain with 10,000 people: `python -m bench.console`.

1,000 changes wait for approval. A person signs in and follows the links of the console: every page is fetched in turn,
one object of each kind, and apart from it whatever the page has htmx fetch after itself. A number behind it is how many
people the domain gets; adding them takes most of the time.
"""

import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from bench.client import Client
from bench.domain import PASSWORD, Domain, running_domain
from bench.gateway import PERSON, Gateway, running_gateway
from lab.commands import PROJECT, manage_command

PEOPLE = 10_000
ROUNDS = 5
TARGET = 0.3
"""Seconds in which a page has to answer."""
HOME = "/console/"
_UPDATED = 1000
_LEAVERS = 50
_WAITING = 1000
"""Changes that wait for approval."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_PAGES = re.compile(r"\.(csv|ndjson)$|^/console/(sign-in|sign-out|choose-directory)")


@dataclass(slots=True)
class Part:
    """What a page has htmx fetch once it is shown, or once something in it is opened."""

    address: str
    method: str = "GET"
    target: str = ""
    times: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Page:
    """A page, and the seconds of each round."""

    name: str
    address: str
    parts: list[Part] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


class Browser:
    """A signed-in person's connection, kept open."""

    def __init__(self, gateway: Gateway) -> None:
        parts = urlsplit(gateway.base_url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
        self._cookies: dict[str, str] = {}
        self.send("POST", "/rest/session", {"username": PERSON, "password": PASSWORD})

    def fetch(self, address: str, *, method: str = "GET", **headers: str) -> str:
        """A page or a part of one, where it has gone on to; ends the benchmark if it is none."""
        for _ in range(5):
            answer, content = self._exchange(method, address, b"", headers)
            if answer.status != 302:
                break
            method, address = "GET", urljoin(address, answer.headers["Location"])
        if answer.status != 200 or not answer.headers["Content-Type"].startswith("text/html"):
            raise SystemExit(f"{address} was answered with {answer.status}: {content[-500:]!r}")
        return content.decode()

    def send(self, method: str, path: str, body: object = None) -> Any:
        """What the machine surface for people answers."""
        sent = b"" if body is None else json.dumps(body).encode()
        answer, content = self._exchange(method, path, sent, {"Content-Type": "application/json"})
        if answer.status >= 300:
            raise SystemExit(f"{path} was answered with {answer.status}: {content[:500]!r}")
        return json.loads(content) if content else None

    def _exchange(
        self, method: str, address: str, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        token = self._cookies.get("csrftoken", "")
        self._connection.request(method, address, body, {"Cookie": cookies, "X-CSRFToken": token, **headers})
        answer = self._connection.getresponse()
        content = answer.read()
        for line in answer.headers.get_all("Set-Cookie", []):
            self._cookies.update((name, morsel.value) for name, morsel in SimpleCookie(line).items())
        return answer, content


class _Document(HTMLParser):
    """The links of a page, and the parts that it fetches later."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.parts: list[Part] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "download" not in given:
            self.links.append(given.get("href", ""))
        if re.search(r"\b(load|toggle)\b", given.get("hx-trigger", "")):
            for method in ("GET", "POST"):
                if address := given.get(f"hx-{method.lower()}"):
                    self.parts.append(Part(address, method, given.get("id", "")))


def fetch_part(browser: Browser, part: Part) -> str:
    return browser.fetch(part.address, method=part.method, **{"HX-Request": "true", "HX-Target": part.target})


def find_pages(browser: Browser, given: Iterable[Page]) -> Iterator[Page]:
    """The pages given, and all that links lead to from them: of those whose paths differ in ids alone, the first."""
    waiting = list(given)
    known = {page.name for page in waiting}
    while waiting:
        page = waiting.pop(0)
        document = _Document(browser.fetch(page.address))
        page.parts = document.parts
        links = [*document.links, *(link for part in page.parts for link in _Document(fetch_part(browser, part)).links)]
        for link in links:
            path = urlsplit(urljoin(page.address, link)).path
            name = _ID.sub("…", path)
            if path.startswith(HOME) and not _NO_PAGES.search(path) and name not in known:
                known.add(name)
                waiting.append(Page(name, urljoin(page.address, link)))
        yield page


def change_accounts(domain: Domain, client: Client) -> list[dict[str, Any]]:
    """Leave 1000 changes and a run in the log; gives the users that were changed."""
    staff = f"OU=Staff,{domain.base_dn}"
    found: list[dict[str, Any]] = client.call("GET", f"/api/ad/users?base={quote(staff)}&pageSize={_UPDATED}")["items"]
    items = [{"id": user["id"], "replace": {"physicalDeliveryOfficeName": "1.01"}} for user in found]
    client.call("POST", "/api/ad/users/batch/update", {"items": items})
    leavers = domain.add_unit("Disabled in a run")
    domain.add_users(leavers, _LEAVERS, lambda _: {"userAccountControl": "544"})
    unit = client.call("GET", f"/api/ad/objects?scope=base&base={quote(leavers)}")["items"][0]["id"]
    client.call("POST", f"/api/ad/organization-units/{unit}/accounts/disable", {"kinds": ["user"]})
    return found


def find_addresses(client: Client, browser: Browser, users: list[dict[str, Any]]) -> list[Page]:
    """The pages that no link names, once a filter is kept and changes wait for their approval."""
    key = browser.send("GET", "/rest/api-keys")["items"][0]
    browser.send("PATCH", f"/rest/api-keys/{key['id']}", {"supervisionLevel": "ask_every_change"})
    items = [{"id": user["id"], "replace": {"title": "Head"}} for user in users[:_WAITING]]
    client.call("POST", "/api/ad/users/batch/update", {"items": items})
    kept = {"name": "Sales", "kind": "user", "filter": "(department=Sales)"}
    browser.send("POST", "/rest/ad/saved-filters", kept)
    groups = client.call("GET", "/api/ad/groups?pageSize=1000&attributes=member")["items"]
    largest = max(groups, key=lambda group: len(group["attributes"].get("member", ())))
    primary = next(group for group in groups if group["name"] == "Domain Users")
    objects = "/console/directory/objects/"
    search = "/console/directory/?kind=users&scope=subtree"
    return [
        Page("search: all users", search),
        Page("search: name begins with", f"{search}&q=an"),
        Page("search: LDAP filter", f"{search}&filter={quote('(&(department=Sales)(mail=*))')}"),
        Page("search: a unit", f"/console/directory/?base={users[0]['parentId']}"),
        Page("find: a name", f"/console/find?q={quote(users[0]['name'].split()[0])}"),
        Page("find: a part of a word", f"/console/find?q={quote(users[0]['name'].split()[-1][1:])}"),
        Page("find: a telephone number", f"/console/find?q={quote('+44 20 7946 0018')}"),
        Page("object: a user", f"{objects}{users[0]['id']}"),
        Page("object: two compared", f"{objects}{users[0]['id']}/compare?with={users[1]['id']}"),
        Page("object: a unit", f"{objects}{users[0]['parentId']}"),
        Page("object: the largest group", f"{objects}{largest['id']}"),
        Page("object: its members", f"{objects}{largest['id']}/members"),
        Page("object: all users' primary group", f"{objects}{primary['id']}/members"),
        Page("plan of a run", f"/console/runs/new?unit={users[0]['parentId']}&action=disable&kinds=user"),
    ]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(browser: Browser, pages: Iterable[Page]) -> None:
    """Fetch all in turn, so that each meets the same load of a shared machine."""
    for _ in range(ROUNDS):
        for page in pages:
            page.times.append(_seconds(partial(browser.fetch, page.address)))
            for part in page.parts:
                part.times.append(_seconds(partial(fetch_part, browser, part)))


def _told(times: list[float]) -> str:
    return f"{statistics.median(times) * 1000:.0f} ms | {max(times) * 1000:.0f} ms"


def print_pages(pages: Iterable[Page]) -> None:
    """The table, the slowest first."""
    print("| Page | median | worst | afterwards: median | worst | target |\n|---|---|---|---|---|---|")
    for page in sorted(pages, key=lambda page: -statistics.median(page.times)):
        slowest = max((part.times for part in page.parts), key=statistics.median, default=None)
        verdict = "≤ 300 ms" if statistics.median(page.times) <= TARGET else "**above 300 ms**"
        print(f"| {page.name} | {_told(page.times)} | {_told(slowest) if slowest else ' | '} | {verdict} |")


def main() -> None:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE
    with running_domain("127.0.35.1", people=640, durable=False) as domain, running_gateway(domain) as gateway:
        seed = manage_command("seed_directory", "--users", str(people))
        subprocess.run(seed, env=gateway.environment, check=True, cwd=PROJECT, stdout=sys.stderr)
        users = change_accounts(domain, Client(gateway))
        browser = Browser(gateway)  # the web server ends a connection that was idle for long
        pages = list(find_pages(browser, [Page(HOME, HOME), *find_addresses(Client(gateway), browser, users)]))
        measure(browser, pages)
        print_pages(pages)


if __name__ == "__main__":
    main()
