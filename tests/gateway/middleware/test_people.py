"""What Django does for people is not done for programs."""

import re

import pytest
from django.test import Client

from keys.models import Person

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def signed_in() -> Client:
    client = Client()
    client.force_login(Person.objects.create_superuser("ada", password=None))
    return client


def test_people_have_a_session(signed_in: Client) -> None:
    response = signed_in.get("/admin/")
    assert response.status_code == 200
    assert response.wsgi_request.user.get_username() == "ada"


@pytest.mark.parametrize("path", ["/api/me", "/ad/organization-units/x/accounts/plan", "/mcp", "/health"])
def test_the_session_of_a_program_is_not_looked_at(signed_in: Client, path: str) -> None:
    response = signed_in.get(path)
    assert not hasattr(response.wsgi_request, "session")
    assert not hasattr(response.wsgi_request, "user")
    assert "Cookie" not in response.get("Vary", "")
    assert "sessionid" not in response.cookies


def test_a_session_is_no_credential_for_programs(signed_in: Client) -> None:
    assert signed_in.get("/api/me").status_code == 401


def test_static_files_are_served() -> None:
    assert Client().get("/static/admin/css/base.css").status_code == 200


def test_browsers_keep_a_file_for_good_under_the_address_of_its_content() -> None:
    """While a release is rolled out, a page may name a content that this process does not have."""
    address = re.search(
        r'href="(/static/console/console\.css\?v=\w+)"', Client().get("/console/sign-in", follow=True).text
    )
    assert address is not None
    kept = {}
    for asked in (address[1], address[1].partition("?")[0], f"{address[1]}0"):
        response = Client().get(asked)
        assert response.status_code == 200
        kept[asked] = "immutable" in response["Cache-Control"]
    assert list(kept.values()) == [True, False, False]
