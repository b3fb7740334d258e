"""An administrator's first day in a real browser: from an empty database to an integration that works."""

import re
import time

from playwright.sync_api import Page, expect

from audit.models import OperationRecord
from keys.models import ApiKey, Person
from lab.domain import Domain
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks

PASSWORD = "a long and unusual phrase"
_CODE = re.compile(r"Nobody administers this gateway yet.* code=([A-Z2-7-]{29})")


def code_in_log(gateway: LiveGateway) -> str:
    """What whoever runs the gateway reads in the web server's log."""
    deadline = time.monotonic() + 120
    while not (found := _CODE.findall(gateway.web.output)):
        assert time.monotonic() < deadline, "the log does not say the code"
        time.sleep(0.1)
    return found[-1]


def fill(page: Page, **fields: str) -> None:
    for label, value in fields.items():
        page.get_by_label(label.replace("_", " "), exact=True).fill(value)


def test_an_administrators_first_day(sign_in: SignIn, live_gateway: LiveGateway, domain: Domain) -> None:
    page = sign_in(None)
    main = page.locator("main")
    expect(page.get_by_role("heading", name="Set up this gateway")).to_be_visible()
    code = code_in_log(live_gateway)
    fill(page, Code="ABCD-EFGH-IJKL-MNOP-QRST-UVWX", User_name="grace", Your_name="Grace Hopper")
    fill(page, Password=PASSWORD, Repeat_the_password=PASSWORD)
    page.get_by_role("button", name="Make my account").click()
    expect(main).to_contain_text("This is not the code")
    expect_good_looks(page, "first-day-code")
    fill(page, Code=code, Password=PASSWORD, Repeat_the_password=PASSWORD)
    page.get_by_role("button", name="Make my account").click()

    expect(page.get_by_role("heading", name="The gateway's address")).to_be_visible()
    expect(main).to_contain_text(f'BaseUrl = "{live_gateway.base_url}"')
    expect_good_looks(page, "first-day-address")
    page.get_by_role("link", name="Go on: directory").click()

    fill(page, Name="Corp", Servers="ldaps://127.0.0.1:1", Base_DN=domain.base_dn, Signs_in_as=domain.bind_dn)
    fill(page, Its_password=domain.bind_password, CA_certificate=domain.ca_pem)
    page.get_by_role("button", name="Only test it").click()
    expect(main).to_contain_text("nothing listens on port 1")
    fill(page, Servers=domain.url)  # the password is still there
    page.get_by_role("button", name="Only test it").click()
    expect(main).to_contain_text("The connection works.")
    fill(page, Base_DN="DC=elsewhere,DC=test")
    page.get_by_role("button", name="Test it and connect it").click()
    expect(main).to_contain_text("This server's domain is")
    expect_good_looks(page, "first-day-directory-refused")
    fill(page, Base_DN=domain.base_dn, Its_password=domain.bind_password)
    page.get_by_role("button", name="Test it and connect it").click()
    expect(page.get_by_role("heading", name="Corp is connected")).to_be_visible()
    page.get_by_text("The commands for each task").click()
    expect_good_looks(page, "first-day-directory")

    page.get_by_role("link", name="Go on: approver").click()
    fill(page, User_name="ida", Display_name="Ida Rhodes")
    expect_good_looks(page, "first-day-approver")
    page.get_by_role("button", name="Make the approver").click()
    expect(page.get_by_role("heading", name="The first key")).to_be_visible()
    expect_good_looks(page, "first-day-key")

    page.goto("/console/")
    expect(page.get_by_role("heading", name="Before the gateway is ready")).to_be_visible()
    expect_good_looks(page, "first-day-home")
    people = {person.username: person for person in Person.objects.all()}
    assert (people["grace"].is_superuser, people["ida"].is_superuser) == (True, False)
    assert not ApiKey.objects.exists()
    tried = OperationRecord.objects.filter(operation="directories.test-new")
    assert {record.owner for record in tried} == {"grace"}
    recorded = OperationRecord.objects.exclude(pk__in=tried).order_by("at").values_list("operation", "owner")
    assert [*recorded] == [("people.create", "(set-up)"), ("directories.create", "grace"), ("people.create", "grace")]
