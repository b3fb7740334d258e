"""How soon the console answers over the demonstration's domain with 10,000 people: `python -m bench.console`.

1,000 changes wait for approval. A person signs in and follows the links of the console: all pages are fetched in turns,
for one object of each kind, and separately the parts that htmx fetches later. An argument sets the number of people in
the domain; adding them takes most of the time.
"""

import re
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from bench.client import Client
from bench.report import print_head, print_row, spread, target_of
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


class Browser(Http):
    """A signed-in person's connection, kept open."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__(gateway.base_url)
        self.sign_in(gateway.administrator)

    def fetch(self, address: str, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> str:
        """Fetch a page or a part of one, following redirects; ends the benchmark if it fails."""
        for _ in range(5):
            answer = self.send(method, address, None, headers)
            if answer.status != 302:
                break
            method, address = "GET", urljoin(address, answer.headers["location"])
        if answer.status != 200 or not answer.headers["content-type"].startswith("text/html"):
            raise SystemExit(f"{address} was answered with {answer.status}: {str(answer.body)[-500:]}")
        return bytes(answer.body).decode()


@dataclass(slots=True)
class Page:
    """A page, or a part of one that htmx fetches once that is shown, or something in it is opened; with its times."""

    name: str
    address: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    parts: list["Page"] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def fetch(self, browser: Browser) -> str:
        start = time.perf_counter()
        content = browser.fetch(self.address, method=self.method, headers=self.headers)
        self.times.append(time.perf_counter() - start)
        return content


class _Document(HTMLParser):
    """Collects the links of a page, and the parts that it fetches later."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.parts: list[Page] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a" and "download" not in attributes:
            self.links.append(attributes.get("href", ""))
        if re.search(r"\b(load|toggle)\b", attributes.get("hx-trigger", "")):
            headers = {"HX-Request": "true", "HX-Target": attributes.get("id", "")}
            addresses = {method: attributes.get(f"hx-{method.lower()}") for method in ("GET", "POST")}
            self.parts += [Page("", address, method, headers) for method, address in addresses.items() if address]


def find_pages(browser: Browser, addresses: dict[str, str]) -> Iterator[Page]:
    """Yield pages and all that their links lead to; of those whose paths differ only in ids, the first."""
    waiting = [Page(name, address) for name, address in addresses.items()]
    known = set(addresses)
    for page in waiting:
        document = _Document(page.fetch(browser))
        page.parts = document.parts
        for link in [*document.links, *(link for part in page.parts for link in _Document(part.fetch(browser)).links)]:
            address = urljoin(page.address, link)
            path = urlsplit(address).path
            name = _ID.sub("…", path)
            if path.startswith(HOME) and not _NO_PAGES.search(path) and name not in known:
                known.add(name)
                waiting.append(Page(name, address))
        yield page


def change_accounts(domain: Domain, client: Client) -> list[dict[str, Any]]:
    """Make 1000 changes and a run for the log; return the changed users."""
    staff = f"OU=Staff,{domain.base_dn}"
    found: list[dict[str, Any]] = client.call("GET", f"/api/ad/users?base={quote(staff)}&pageSize={_UPDATED}")["items"]
    items = [{"id": user["id"], "replace": {"physicalDeliveryOfficeName": "1.01"}} for user in found]
    client.call("POST", "/api/ad/users/batch/update", {"items": items})
    leavers = domain.add_unit("Disabled in a run")
    domain.add_users(leavers, _LEAVERS, lambda _: {"userAccountControl": "544"})
    path = f"/api/ad/organization-units/{domain.directory.guid(leavers)}/accounts/disable"
    client.call("POST", path, {"kinds": ["user"]})
    return found


def find_addresses(client: Client, browser: Browser, users: list[dict[str, Any]]) -> dict[str, str]:
    """The pages without a link to them, after saving a filter and requesting changes that wait for approval."""
    key = browser.call("GET", "/rest/api-keys")["items"][0]
    browser.call("PATCH", f"/rest/api-keys/{key['id']}", {"supervisionLevel": "ask_every_change"})
    items = [{"id": user["id"], "replace": {"title": "Head"}} for user in users[:_WAITING]]
    client.call("POST", "/api/ad/users/batch/update", {"items": items})
    kept = {"name": "Sales", "kind": "user", "filter": "(department=Sales)"}
    browser.call("POST", "/rest/ad/saved-filters", kept)
    groups = client.call("GET", "/api/ad/groups?pageSize=1000&attributes=member")["items"]
    largest = max(groups, key=lambda group: len(group["attributes"].get("member", ())))["id"]
    primary = next(group["id"] for group in groups if group["name"] == "Domain Users")
    user, unit, names = users[0]["id"], users[0]["parentId"], users[0]["name"].split()
    objects = "/console/directory/objects"
    search = "/console/directory/?kind=users&scope=subtree"
    return {
        HOME: HOME,
        "search: all users": search,
        "search: name begins with": f"{search}&q=an",
        "search: LDAP filter": f"{search}&filter={quote('(&(department=Sales)(mail=*))')}",
        "search: a unit": f"/console/directory/?base={unit}",
        "find: a name": f"/console/find?q={quote(names[0])}",
        "find: a part of a word": f"/console/find?q={quote(names[-1][1:])}",
        "find: a telephone number": f"/console/find?q={quote('+44 20 7946 0018')}",
        "object: a user": f"{objects}/{user}",
        "object: two compared": f"{objects}/{user}/compare?with={users[1]['id']}",
        "object: a unit": f"{objects}/{unit}",
        "object: the largest group": f"{objects}/{largest}",
        "object: its members": f"{objects}/{largest}/members",
        "object: its nested members": f"{objects}/{largest}/members?nested=true",
        "object: all users' primary group": f"{objects}/{primary}/members",
        "plan of a run": f"/console/runs/new?unit={unit}&action=disable&kinds=user",
    }


def print_pages(pages: Iterable[Page]) -> None:
    """Print the table, slowest first."""
    print_head("Page", "median", "worst", "afterwards: median", "worst", "target (s)")
    for page in sorted(pages, key=lambda page: -statistics.median(page.times)):
        slowest = max((part.times for part in page.parts), key=statistics.median, default=None)
        later = spread(slowest) if slowest else ("", "")
        print_row(page.name, *spread(page.times), *later, target_of(statistics.median(page.times), TARGET))


def main() -> None:
    people = int(sys.argv[1]) if len(sys.argv) > 1 else PEOPLE
    with running_domain(people=640, durable=False) as domain, running_gateway(domain) as gateway:
        gateway.live.manage("seed_directory", "--users", str(people))
        users = change_accounts(domain, Client(gateway))
        browser = Browser(gateway)  # the web server closes connections that are idle for long
        pages = list(find_pages(browser, find_addresses(Client(gateway), browser, users)))
        fetched = [each for page in pages for each in (page, *page.parts)]
        for each in fetched:
            each.times.clear()  # so far, they filled caches
        for _ in range(ROUNDS):  # in turns, so that each meets the same load of a shared machine
            for each in fetched:
                each.fetch(browser)
        print_pages(pages)


if __name__ == "__main__":
    main()
