"""How soon the console answers over the demonstration's domain with 10,000 people: `python -m bench.console`.

1,000 changes wait for approval. A person signs in and follows the links of the console: all pages are fetched in turns,
for one object of each kind, and separately the parts that htmx fetches later. An argument sets the number of people in
the domain; adding them takes most of the time.
"""

import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from bench.client import Client
from bench.report import print_head, print_row, spread
from bench.servers import Domain, Gateway, running_domain, running_gateway
from lab.http import Http

PEOPLE = 10_000
ROUNDS = 5
TARGET = 0.3
"""Seconds within which a page must answer."""

HOME = "/console/"
_UPDATED = 1000
_LEAVERS = 50
_WAITING = 1000
"""Changes that wait for approval."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NO_PAGES = re.compile(r"\.(csv|ndjson)$|^/console/(sign-in|sign-out|choose-directory)")


@dataclass(slots=True)
class Part:
    """A part that htmx fetches once the page is shown, or something in it is opened."""

    address: str
    method: str = "GET"
    target: str = ""
    times: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Page:
    """A page with the seconds of each round."""

    name: str
    address: str
    parts: list[Part] = field(default_factory=list)
    times: list[float] = field(default_factory=list)


class Browser:
    """A signed-in person's connection, kept open."""

    def __init__(self, gateway: Gateway) -> None:
        self._http = Http(gateway.base_url)
        self._session = self._http.send("POST", "/rest/session", gateway.administrator).session

    def fetch(self, address: str, *, method: str = "GET", **headers: str) -> str:
        """Fetch a page or a part of one, following redirects; ends the benchmark if it fails."""
        for _ in range(5):
            answer = self._http.send(method, address, None, self._session | headers)
            if answer.status != 302:
                break
            method, address = "GET", urljoin(address, answer.headers["location"])
        if answer.status != 200 or not answer.headers["content-type"].startswith("text/html"):
            raise SystemExit(f"{address} was answered with {answer.status}: {str(answer.body)[-500:]}")
        return bytes(answer.body).decode()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Call `/rest` and return its answer."""
        answer = self._http.send(method, path, body, self._session)
        if answer.status >= 300:
            raise SystemExit(f"{path} was answered with {answer.status}: {answer.body}")
        return answer.body


class _Document(HTMLParser):
    """Collects the links of a page, and the parts that it fetches later."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.parts: list[Part] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a" and "download" not in attributes:
            self.links.append(attributes.get("href", ""))
        if re.search(r"\b(load|toggle)\b", attributes.get("hx-trigger", "")):
            for method in ("GET", "POST"):
                if address := attributes.get(f"hx-{method.lower()}"):
                    self.parts.append(Part(address, method, attributes.get("id", "")))


def fetch_part(browser: Browser, part: Part) -> str:
    return browser.fetch(part.address, method=part.method, **{"HX-Request": "true", "HX-Target": part.target})


def find_pages(browser: Browser, start_pages: Iterable[Page]) -> Iterator[Page]:
    """Yield pages and all that their links lead to; of those whose paths differ only in ids, the first."""
    waiting = list(start_pages)
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
    """Make 1000 changes and a run for the log; return the changed users."""
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
    """The pages without a link to them, after saving a filter and requesting changes that wait for approval."""
    key = browser.call("GET", "/rest/api-keys")["items"][0]
    browser.call("PATCH", f"/rest/api-keys/{key['id']}", {"supervisionLevel": "ask_every_change"})
    items = [{"id": user["id"], "replace": {"title": "Head"}} for user in users[:_WAITING]]
    client.call("POST", "/api/ad/users/batch/update", {"items": items})
    kept = {"name": "Sales", "kind": "user", "filter": "(department=Sales)"}
    browser.call("POST", "/rest/ad/saved-filters", kept)
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
        Page("object: its nested members", f"{objects}{largest['id']}/members?nested=true"),
        Page("object: all users' primary group", f"{objects}{primary['id']}/members"),
        Page("plan of a run", f"/console/runs/new?unit={users[0]['parentId']}&action=disable&kinds=user"),
    ]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(browser: Browser, pages: Iterable[Page]) -> None:
    """Fetch all pages in turns, so that each meets the same load of a shared machine."""
    for _ in range(ROUNDS):
        for page in pages:
            page.times.append(_seconds(partial(browser.fetch, page.address)))
            for part in page.parts:
                part.times.append(_seconds(partial(fetch_part, browser, part)))


def print_pages(pages: Iterable[Page]) -> None:
    """Print the table, slowest first."""
    print_head("Page", "median", "worst", "afterwards: median", "worst", "target")
    for page in sorted(pages, key=lambda page: -statistics.median(page.times)):
        slowest = max((part.times for part in page.parts), key=statistics.median, default=None)
        verdict = "≤ 300 ms" if statistics.median(page.times) <= TARGET else "**above 300 ms**"
        print_row(page.name, *spread(page.times), *(spread(slowest) if slowest else ("", "")), verdict)


def main() -> None:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE
    with running_domain(people=640, durable=False) as domain, running_gateway(domain) as gateway:
        gateway.live.manage("seed_directory", "--users", str(people))
        users = change_accounts(domain, Client(gateway))
        browser = Browser(gateway)  # the web server closes connections that are idle for long
        pages = list(find_pages(browser, [Page(HOME, HOME), *find_addresses(Client(gateway), browser, users)]))
        measure(browser, pages)
        print_pages(pages)


if __name__ == "__main__":
    main()
