"""The one search: whoever is meant is found, by whatever a caller on the telephone says of them."""

from urllib.parse import quote
from uuid import UUID, uuid4

import pytest

from console.directory.query_parser import ParsedQuery
from core.call import SupervisionLevel
from core.text.spellings import other_spellings
from directory.models import DirectoryConnection
from lab.directory import Directory, random_name
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import make_integration

pytestmark = pytest.mark.django_db


@pytest.fixture
def grace(directory: Directory, organizational_unit: str) -> UUID:
    """Somebody whose names, numbers and addresses nobody else has."""
    last = random_name("Hopper")
    return directory.add_user(
        f"Grace {last}",
        parent=organizational_unit,
        sAMAccountName=last.lower()[:20],
        userPrincipalName=f"{last.lower()}@corp.example.test",
        givenName="Grace",
        sn=last,
        displayName=f"Grace {last}",
        mail=f"g.{last.lower()}@mail.example.test",
        telephoneNumber="+44 (0)20 7946-0018",
        mobile="07700 900 461",
        employeeID=f"E4{last[-6:]}",  # with a digit, as every employee number has
    )


def found_by(page: PlainBrowser, text: str, user: UUID) -> bool:
    return f"/directory/objects/{user}" in page.open(f"/console/find?q={quote(text)}&all=yes").content + page.address


def test_it_works(visitor: Visitor, directory: Directory, grace: UUID) -> None:
    page = visitor()
    last, mail = directory.text(grace, "sn") or "", directory.text(grace, "mail") or ""
    for text in (
        last,
        last[:8],
        f"grace {last}",
        last[2:],  # inside a word
        mail,
        mail[:9],
        directory.text(grace, "userPrincipalName") or "",
        directory.text(grace, "employeeID") or "",
        "020 7946 0018",
        "+442079460018",
        "0018",
        "(07700) 900461",
        str(grace),
        f"{{{str(grace).upper()}}}",
        directory.sid(grace),
        directory.dn(grace),
        f"CORP\\{directory.text(grace, 'sAMAccountName')}",
    ):
        assert found_by(page, text, grace), text
    assert not found_by(page, "020 7946 0019", grace)
    assert page.status == 200
    assert "Also searched: people whose telephone number ends with 079460019, however it is written" in page.text


def test_an_identifier_leads_to_its_object(visitor: Visitor, directory: Directory, grace: UUID) -> None:
    page = visitor().open(f"/console/find?q={quote(directory.sid(grace))}")
    assert page.address == f"/console/directory/objects/{grace}"
    assert page.open(f"/console/find?q={uuid4()}").text.count("No matches.") == 1


def test_groups_computers_keys_roles_requests_records_and_pages(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, connection: DirectoryConnection
) -> None:
    name = random_name("Engines")
    directory.add_group(name, parent=organizational_unit)
    key = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    key.key.name = f"{name} key"
    key.key.save()
    page = administrator.open(f"/console/find?q={name}&now=yes")
    for title in ("Groups, computers and places 1", "API keys", f"{name} key", "In the log"):
        assert title in page.text
    assert "Locked out Accounts · Account" in page.open("/console/find?q=locked&now=yes").text
    user = directory.add_user(parent=organizational_unit)
    request = key.patch(f"/api/ad/users/{user}", {"replace": {"title": "Countess"}}).body["changeRequest"]["id"]
    assert "users.update, pending" in page.open(f"/console/find?q={request}").text
    page.open(f"/console/find?q={user}")  # whose pending request is worth a look before
    assert "users.update, pending" in page.text
    assert "users.update, pending" in page.open(f"/console/find?q={directory.text(user, 'cn')}&now=yes").text
    assert "users.update, pending" in page.open(f"/console/find?q={key.key.owner.username}&now=yes").text


def test_only_what_the_person_may_see_is_found(
    visitor: Visitor, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    key = make_integration(connection)
    page = visitor().open(f"/console/find?q={key.key.name}&now=yes")
    assert page.status == 200
    assert "API keys" not in page.text
    assert "In the log" not in page.text
    assert "API keys" in visitor("keys.view_apikey").open(f"/console/find?q={key.key.name}&now=yes").text


def test_what_a_text_may_be() -> None:
    assert ParsedQuery.parse("+44 (0) 20 7946 0018").phone_digits == "079460018"
    assert ParsedQuery.parse("0018").phone_digits == "0018"
    assert ParsedQuery.parse("12").phone_digits == ""
    assert ParsedQuery.parse("Ada Lovelace").phone_digits == ""
    assert ParsedQuery.parse("E-4711").employee_number == "E-4711"
    assert ParsedQuery.parse(r"CORP\ada").account_name == "ada"
    assert ParsedQuery.parse("ada@corp").email == "ada@corp"
    assert ParsedQuery.parse("S-1-5-21-1-2-3-500").sid is not None
    assert ParsedQuery.parse("S-1-5-99999999999").sid is None
    assert ParsedQuery.parse("a=b").distinguished_name is None or ParsedQuery.parse("a=b").is_identifier
    assert r"\2a\29\28x" in str(ParsedQuery.parse("*)(x").by_name().condition).lower()


@pytest.mark.parametrize("typed", ["Jürgen", "juergen", "jurgen", "yildiz jurgen", "JUERGEN Yıldız"])
def test_a_name_is_found_however_it_is_spelled(
    visitor: Visitor, directory: Directory, organizational_unit: str, typed: str
) -> None:
    user = directory.add_user(
        random_name("spelled"), parent=organizational_unit, displayName="Jürgen Yıldız", givenName="Jürgen", sn="Yildiz"
    )
    assert found_by(visitor(), typed, user)


def test_other_spellings_are_few() -> None:
    assert other_spellings("juergen")[:1] == ["jürgen"]
    assert "müller" in other_spellings("Muller")
    assert "strasse" in other_spellings("Straße")
    assert len(other_spellings("a" * 256)) == 6
    assert other_spellings("") == []


@pytest.mark.parametrize(
    "name", ["Ozturk", "Leonora Alessandra", "Joel Maeder Haenel", "Hans Jürgen Müller Öztürk", "a b c d e"]
)
def test_no_name_has_too_many_spellings_to_be_looked_for(visitor: Visitor, name: str) -> None:
    page = visitor().open(f"/console/find/people?q={quote(name)}")
    assert "costly" not in page.content
    assert str(ParsedQuery.parse(name).by_name().condition).count("(anr=") < 10
