"""Whatever a form does is answered with a redirect, and what is answered with a page has done nothing.

So reloading a page repeats nothing.
"""

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from console.urls import urlpatterns
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.contracts.every_form import DOES, ELSEWHERE, LEAVES_NO_TRACE, PREVIEWS, SHOWS
from tests.contracts.own_tables import contents
from tests.contracts.site import Site, changes
from tests.support.cast import Console, make_person
from tests.support.configuration import Configure
from tests.support.markup import text_of

pytestmark = pytest.mark.django_db

_TEMPLATES = Path(__file__).parents[2] / "templates"
_PLACE = re.compile(r"<(?:(\w+):)?(\w+)>")


@pytest.fixture
def site(connection: DirectoryConnection, directory: Directory, organizational_unit: str, configure: Configure) -> Site:
    configure("Agents", Enabled=True)
    site = Site(Console(make_person(superuser=True)), connection, directory, organizational_unit)
    # What the gateway learns of a directory when it first asks it is nobody's change.
    assert site.console.get("/rest/ad/users?pageSize=1").status == 200
    return site


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.redis.broker.current_app.send_task", lambda *_, **__: None)


def made_up(pattern: Any) -> str:
    """An address of a pattern, with identifiers of nothing."""
    return _PLACE.sub(lambda found: str(uuid4()) if found[1] == "uuid" else "1", str(pattern.pattern).rstrip("$^"))


def accepting_forms() -> dict[str, str]:
    """The addresses of the console that take a form, by their names. Others answer 405 to everybody."""
    addresses = {pattern.name: f"/console/{made_up(pattern)}" for pattern in urlpatterns}
    return {name: address for name, address in addresses.items() if Client().post(address).status_code != 405}


def test_every_form_is_here() -> None:
    assert accepting_forms().keys() == DOES.keys() | SHOWS.keys() | ELSEWHERE
    assert not DOES.keys() & SHOWS.keys()
    assert PREVIEWS.keys() <= DOES.keys()


@pytest.mark.parametrize("name", DOES)
def test_what_does_something_redirects(name: str, site: Site) -> None:
    answer = DOES[name](site)
    assert answer.status_code == 302, text_of(answer.content)
    assert name in LEAVES_NO_TRACE or contents() != site.before or changes() != site.known, "nothing was done"


SENT_BY_HTMX = sorted(
    DOES.keys()
    & {
        name
        for template in _TEMPLATES.rglob("*.html")
        for name in re.findall(r"hx-post=\"{% url 'console:([\w-]+)'", template.read_text())
    }
)


@pytest.mark.parametrize("name", SENT_BY_HTMX)
def test_what_a_part_of_a_page_does_redirects(name: str, site: Site) -> None:
    site.headers = {"HX-Request": "true"}
    answer = DOES[name](site)
    assert answer.status_code == 302 or (answer.status_code == 204 and "HX-Redirect" in answer)


@pytest.mark.parametrize("name", SHOWS)
def test_what_shows_a_page_does_nothing(name: str, site: Site) -> None:
    _reason, send = SHOWS[name]
    expect_nothing_done(site, send(site))


@pytest.mark.parametrize("name", PREVIEWS)
def test_what_asks_first_does_nothing(name: str, site: Site) -> None:
    expect_nothing_done(site, PREVIEWS[name](site))


def expect_nothing_done(site: Site, answer: Any) -> None:
    assert answer.status_code == 200, text_of(answer.content)
    assert contents() == site.before
    assert changes() == site.known


def test_a_form_without_fields_that_is_answered_with_a_page_has_done_nothing(site: Site) -> None:
    for name, address in accepting_forms().items():
        answer = site.send(address, {})
        assert answer.status_code < 500, name
        if answer.status_code == 200:
            expect_nothing_done(site, answer)
        site.console = Console(site.console.person)  # whatever became of the session


def test_no_page_of_the_back_office_that_a_form_is_sent_to_does_something(site: Site) -> None:
    """What succeeds there is in `own_tables.IN_ADMIN`, and has to be a redirect; here is what is answered otherwise."""
    for pattern in _all_of(admin.site.urls[0]):
        address = reverse("admin:index") + pattern
        site.admin.force_login(site.console.person)
        site.before = contents()
        answer = site.admin.post(address, {})
        assert answer.status_code < 500, address
        if answer.status_code != 302:
            assert contents() == site.before, address


def _all_of(patterns: Any, before: str = "") -> list[str]:
    found = []
    for pattern in patterns:
        here = before + made_up(pattern)
        found += _all_of(pattern.url_patterns, here) if hasattr(pattern, "url_patterns") else [here]
    return found


def test_a_secret_is_gone_from_the_page_that_is_reloaded(site: Site) -> None:
    for name in ("second-factor-confirm", "access-token", "key-rotate", "selection-password", "object-reset-password"):
        answer = DOES[name](site)
        first = site.console.client.get(answer["Location"])
        again = site.console.client.get(answer["Location"])
        assert (first.status_code, again.status_code) == (200, 200), name
        assert "no-store" in first["Cache-Control"]
        assert secrets_in(first), name
        assert not secrets_in(again), name
        assert "shown once" in again.content.decode(), name


def secrets_in(page: Any) -> list[str]:
    """Values that are there to be copied, and codes."""
    text = page.content.decode()
    return re.findall(r'id="(?:generated-password|key-value|access-token)"|<pre class="codes"', text)
