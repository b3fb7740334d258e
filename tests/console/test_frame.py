"""The frame of the console: who gets in, which directory is worked on, what a refusal looks like."""

from html import unescape
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from core.configuration_sections import Configuration
from directory.models import DirectoryConnection
from lab.domain import Domain
from tests.support.cast import Console, make_connection, make_person
from tests.support.markup import markup_of

pytestmark = pytest.mark.django_db


def text_of(answer: Any) -> str:
    return unescape(markup_of(answer.body))


def test_whoever_is_not_signed_in_is_sent_to_sign_in_and_back(client: Client) -> None:
    response = client.get("/console/changes/?status=applied")
    assert response.status_code == 302
    assert response["Location"] == "/console/sign-in?next=%2Fconsole%2Fchanges%2F%3Fstatus%3Dapplied"


def test_a_part_of_a_page_sends_the_whole_page_to_sign_in(client: Client) -> None:
    here = "http://testserver/console/changes/"
    response = client.get("/console/changes/", headers={"HX-Request": "true", "HX-Current-URL": here})
    assert response.status_code == 204
    assert response["HX-Redirect"].startswith("/console/sign-in?next=")
    elsewhere = client.get("/console/", headers={"HX-Request": "true", "HX-Current-URL": "https://evil.example/"})
    assert elsewhere["HX-Redirect"] == "/console/sign-in"


def test_a_refusal_is_a_page_and_for_htmx_a_part_of_one() -> None:
    console = Console(make_person())
    path = f"/console/changes/{uuid4()}"
    page = console.get(path)
    assert page.status == 404
    assert "There is nothing at this address" in text_of(page)
    assert 'href="/console/changes/"' in text_of(page)  # in its frame
    part = console.call("GET", path, **{"HX-Request": "true"})
    assert part.status == 404
    assert "There is nothing at this address" in text_of(part)
    assert "<html" not in text_of(part)


def test_nul_is_refused_in_addresses_and_forms() -> None:
    console = Console(make_person(superuser=True))
    answers = (
        console.get("/console/people/?name=a%00b"),
        console.submit("/console/roles/new", name="a", description="b\0"),
    )
    for answer in answers:
        assert answer.status == 400
        assert "A value cannot contain NUL" in text_of(answer)


def test_an_unknown_address_has_a_page_of_its_own(client: Client) -> None:
    response = client.get("/console/none")
    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")
    assert "Request.NotFound" in response.content.decode()


def test_a_form_without_its_token_is_refused_with_a_hint() -> None:
    console = Console(make_person())
    response = console.client.post(f"/console/changes/{uuid4()}/approve", {"digest": "x"})
    assert response.status_code == 403
    assert "Go back and reload it" in response.content.decode()


def test_too_many_requests_are_told_on_a_page(settings: Any) -> None:
    limit = {"Requests": 1, "WindowSeconds": 60}
    settings.CONFIGURATION = Configuration.model_validate({"RateLimiting": {"Global": limit}})
    client = Client()
    client.get("/console/none")
    response = client.get("/console/none")
    assert response.status_code == 429
    assert int(response["Retry-After"]) >= 1
    assert "<h1>" in response.content.decode()


def test_the_directory_worked_on_can_be_chosen(domain: Domain) -> None:
    first, second = (make_connection(domain, name=name) for name in ("alpha", "beta"))
    console = Console(make_person())
    assert chosen(console) == first.client_id
    assert (
        console.submit("/console/choose-directory", clientId=second.client_id, **{"from": "/console/changes/"}).status
        == 302
    )
    assert chosen(console) == second.client_id
    DirectoryConnection.objects.filter(id=second.id).update(enabled=False)
    assert '<select id="directory"' not in text_of(console.get("/console/"))


def chosen(console: Console) -> str:
    page = text_of(console.get("/console/"))
    options = page.partition('<select id="directory"')[2].partition("</select>")[0]
    return options.partition(" selected")[0].rpartition('value="')[2].rstrip('"')


def test_the_way_on_from_a_choice_leads_nowhere_else() -> None:
    console = Console(make_person())
    answer = console.submit("/console/choose-directory", clientId="", **{"from": "https://evil.example/"})
    assert answer.headers["Location"] == "/console/"


def test_pages_are_not_kept_by_the_browser() -> None:
    answer = Console(make_person()).get("/console/")
    assert "no-store" in answer.headers["Cache-Control"]


def test_a_method_that_a_page_does_not_have() -> None:
    answer = Console(make_person()).submit("/console/")
    assert answer.status == 405
