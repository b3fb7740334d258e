"""New objects on pages without scripts: names are proposed, the preview shows them, nothing is made before."""

from html import unescape
from uuid import UUID

import pytest

from audit.models import OperationRecord
from console.directory.objects.editor import propose_account_name
from lab.directory import Directory, random_name
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser

pytestmark = pytest.mark.django_db


@pytest.fixture
def unit(directory: Directory, organizational_unit: str) -> UUID:
    return directory.guid(organizational_unit)


def new(kind: str, parent: object) -> str:
    return f"/console/directory/new?kind={kind}&parent={parent}"


def test_it_works(administrator: PlainBrowser, directory: Directory, organizational_unit: str, unit: UUID) -> None:
    last = random_name("King")
    page = administrator.open(f"/console/directory/new?parent={unit}")
    for label in ("User", "Group", "Computer", "Organizational unit", "Contact", "Another object"):
        assert f">{label}</a>" in page.content
    page = page.open(new("user", unit))
    assert dict(page.forms[-1].fields)["parent"] == organizational_unit
    page = page.press(
        "Preview",
        attributes__givenName="Ada",
        attributes__sn=last,
        attributes__title="Countess",
        how="given",
        password="Correct-Horse-9",
        enabled="on",
        account__mustChangePassword=None,
    )
    assert page.status == 200, page.text
    account_name = propose_account_name("Ada", last)
    for text in (f"Create Ada {last}?", account_name, f"{account_name}@corp.example.test", "Security", "<secret>"):
        assert text in page.text
    assert "Correct-Horse-9" not in page.content
    page = page.press("Change something")
    assert "Given already" in page.text
    assert "Correct-Horse-9" not in page.content
    page = page.press("Preview", attributes__title="Analyst").press("Create", reason="New colleague")
    assert f"Ada {last} is created. See its log record." in page.text
    made = directory.guid(f"CN=Ada {last},{organizational_unit}")
    assert page.address == f"/console/directory/objects/{made}"
    assert directory.text(made, "displayName") == f"Ada {last}"
    assert directory.text(made, "sAMAccountName") == account_name
    assert directory.text(made, "title") == "Analyst"
    assert directory.can_sign_in(made, "Correct-Horse-9")
    assert OperationRecord.objects.get().reason == "New colleague"


def test_a_generated_password_is_shown_once(administrator: PlainBrowser, directory: Directory, unit: UUID) -> None:
    last = random_name("King")
    page = administrator.open(new("user", unit))
    page = page.press(
        "Preview",
        attributes__givenName="Ada",
        attributes__sn=last,
        enabled="on",
        account__mustChangePassword=None,
    )
    page = page.press("Change something").press("Preview").press("Create")
    assert page.status == 200, page.text
    assert f"Ada {last} is created. See its log record." in page.text
    generated = unescape(page.content.partition('id="generated-password"')[2].partition('value="')[2].partition('"')[0])
    made = directory.guid(f"CN=Ada {last},{directory.dn(unit)}")
    assert len(generated) >= 20
    assert directory.can_sign_in(made, generated)
    assert generated not in str(OperationRecord.objects.get().changes)
    assert generated not in unescape(page.open(f"/console/directory/objects/{made}").content)


def test_names_that_are_given_are_kept(administrator: PlainBrowser, directory: Directory, unit: UUID) -> None:
    name, account_name = random_name("Ada"), random_name("al")
    page = administrator.open(new("user", unit)).press(
        "Preview",
        name=name,
        attributes__sAMAccountName=account_name,
        attributes__displayName="The Countess",
        how="given",
    )
    page = page.press("Create")
    made = UUID(page.address.rpartition("/")[2])
    assert directory.text(made, "cn") == name
    assert directory.text(made, "displayName") == "The Countess"
    assert directory.text(made, "sAMAccountName") == account_name
    assert directory.text(made, "userPrincipalName") == f"{account_name}@corp.example.test"
    assert not directory.is_enabled(made)
    assert directory.text(made, "pwdLastSet") == "0"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("Ada", "Lovelace", "ada.lovelace"),
        ("Zoë", "Groß-Müller", "zoe.gross-mueller"),
        ("Jürgen", "Yıldız", "juergen.yildiz"),
        ("Søren", "Łukasz", "soeren.lukasz"),
        ("Maximiliane", "Featherstonehaugh", "m.featherstonehaugh"),
        ("Maximiliane", "van der Featherstonehaugh", "m.van-der-feathersto"),
        ("", "Prince", "prince"),
        ("李", "雷", ""),
        ("O'Neil ", " D’Arcy", "o-neil.d-arcy"),
    ],
)
def test_account_names(first: str, last: str, expected: str) -> None:
    assert propose_account_name(first, last) == expected


def test_each_kind(administrator: PlainBrowser, directory: Directory, organizational_unit: str, unit: UUID) -> None:
    group = random_name("Analysts")
    page = administrator.open(new("group", unit))
    page.press("Preview", name=group, group__scope="universal", attributes__description="All").press("Create")
    made = directory.guid(f"CN={group},{organizational_unit}")
    assert int(directory.text(made, "groupType") or 0) & 0xF == 8
    assert directory.text(made, "sAMAccountName") == group

    computer = random_name("PC")[:15].upper()
    page = administrator.open(new("computer", unit))
    page.press("Preview", name=computer, attributes__location="London").press("Create")
    made = directory.guid(f"CN={computer},{organizational_unit}")
    assert directory.text(made, "sAMAccountName") == f"{computer}$"
    assert directory.text(made, "location") == "London"

    page = administrator.open(new("organizationalUnit", unit))
    page.press("Preview", name="Engines", attributes__l="London").press("Create")
    assert directory.text(f"OU=Engines,{organizational_unit}", "l") == "London"

    page = administrator.open(new("contact", unit))
    page.press("Preview", attributes__givenName="Mary", attributes__sn="Somerville").press("Create")
    assert directory.text(f"CN=Mary Somerville,{organizational_unit}", "displayName") == "Mary Somerville"

    page = administrator.open(new("object", unit))
    page = page.press("Preview", name="Box", objectClass="shoe")
    assert page.status == 400
    assert 'id="objectClass-error"' in page.content
    page = page.press("Preview", objectClass="container", other__name="info", other__values="Kept")
    assert page.status == 422
    assert "info is not an attribute of the class container" in page.text
    page = page.press("Preview", other__name="", other__values="").press("Create")
    assert page.status == 200
    assert directory.exists(f"CN=Box,{organizational_unit}")


def test_refusals_are_beside_their_fields(
    administrator: PlainBrowser, directory: Directory, ada: UUID, unit: UUID
) -> None:
    page = administrator.open(new("user", unit))
    assert page.press("Preview", name="Ada Lovelace").status == 409
    assert dict(page.forms[-1].fields)["name"] == "Ada Lovelace"
    page = page.press("Preview", name=random_name("x"), how="given", enabled="on", attributes__sAMAccountName="")
    assert page.status == 422
    assert 'id="password-error"' in page.content
    page = page.press("Preview", password="short")
    assert page.status == 422
    assert "short" not in page.content
    assert page.press("Preview", parent="OU=nowhere", password="Correct-Horse-9").status == 404
    assert OperationRecord.objects.filter(outcome="succeeded").count() == 0


def test_a_password_that_this_form_has_not_sealed_is_none(administrator: PlainBrowser, unit: UUID) -> None:
    page = administrator.open(new("user", unit))
    page = page.press("Preview", name=random_name("x"), how="given", sealed="forged", enabled="on")
    assert page.status == 422
    assert "An enabled account needs a password" in page.text


def test_only_kinds_that_the_person_may_make(visitor: Visitor, unit: UUID) -> None:
    page = visitor("directory.create_group").open(f"/console/directory/new?parent={unit}")
    assert ">Group</a>" in page.content
    assert ">User</a>" not in page.content
    assert page.open(new("user", unit)).status == 403
    assert page.open(new("group", unit)).status == 200
    assert "Your permissions do not include creating objects." in visitor().open("/console/directory/new").text
    assert page.open(f"/console/directory/objects/{unit}").text.count("New object here") == 1
    assert "New object here" not in visitor().open(f"/console/directory/objects/{unit}").text


def test_names_are_proposed_while_typing(visitor: Visitor, unit: UUID) -> None:
    page = visitor("directory.create_user").open(
        f"/console/directory/new/names?attributes.givenName=Ada&attributes.sn=Lovelace&parent={unit}"
    )
    assert "Ada Lovelace and sign in as ada.lovelace or ada.lovelace@corp.example.test" in page.text


def test_namesakes_are_told_of(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, unit: UUID
) -> None:
    last = random_name("Twin")
    other = directory.add_user(random_name("someone"), parent=organizational_unit, displayName=f"Ada {last}")
    page = administrator.open(new("user", unit)).press("Preview", attributes__givenName="Ada", attributes__sn=last)
    assert "Others have this name already" in page.text
    assert f"/console/directory/objects/{other}" in page.content
    page = administrator.open(new("user", unit)).press("Preview", attributes__givenName="Eve", attributes__sn=last)
    assert "Others have this name already" not in page.text
