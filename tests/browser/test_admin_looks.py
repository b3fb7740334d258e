"""Django admin as the console's back office: it looks like the console and fits a desk and a telephone."""

from uuid import uuid4

import pytest
from playwright.sync_api import Page, expect

from approvals import queue
from approvals.models import ChangeRequest
from audit import log
from audit.models import OperationRecord
from directory.models import SavedFilter
from directory.shapes.proposal import AttributeChange, Target
from keys.models import Person
from lab.domain import Domain
from tests.approvals.proposals import SECURITY, make_proposal
from tests.audit.calls import make_call
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks, open_own_menu
from tests.support.cast import Integration, make_connection, make_integration, make_person

LONG = "CN=Augusta Ada King\\, Countess of Lovelace,OU=Analytical Engines and Difference Engines,OU=Staff,OU=London"
LISTS = (
    *("keys/person", "keys/role", "keys/apikey", "keys/link", "auth/group", "directory/directoryconnection"),
    *("directory/savedfilter", "audit/operationrecord", "audit/webhookendpoint", "audit/webhookdelivery"),
    "approvals/changerequest",
)


@pytest.fixture
def administrator(transactional_db: None) -> Person:
    return make_person("grace.murray.hopper", superuser=True)


@pytest.fixture
def page(sign_in: SignIn, administrator: Person) -> Page:
    return sign_in(administrator, "/admin/")


@pytest.fixture
def integration(transactional_db: None, domain: Domain) -> Integration:
    return make_integration(make_connection(domain))


@pytest.fixture
def record(transactional_db: None) -> OperationRecord:
    """A refused change of a far away object, by a key with a long name."""
    target = log.TargetRef(id=uuid4(), kind="user", distinguished_name=f"{LONG},DC=corp,DC=example,DC=test")
    changes = [{"attribute": "servicePrincipalName", "before": [], "after": ["HTTP/new.corp.example.test"] * 3}]
    call = make_call(reason="Ticket 4711: the new engine needs another name, as discussed with its owner")
    intent = log.Intent(operation="organization-units.disable-accounts", target=target, changes=changes)
    record = log.record_intent(call, intent)
    log.complete(record.id, outcome="failed", code="OrganizationUnitAccounts.PlanStale")
    return record


@pytest.fixture
def held(transactional_db: None) -> ChangeRequest:
    target = Target(id=None, kind="user", distinguished_name=f"{LONG},DC=corp,DC=example,DC=test")
    change = AttributeChange("member", (), tuple(f"CN=member {number},{LONG}" for number in range(5)))
    return queue.hold(
        make_call(),
        operation="organization-units.disable-accounts",
        arguments={},
        query={},
        document={},
        proposal=make_proposal(change, target=target, protected=True),
        assessment=SECURITY,
    )


def expect_tables_to_fit(page: Page) -> None:
    """Nothing has to be scrolled sideways, neither the page nor a table by itself."""
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for table in page.locator("#content table").all():
            sizes = table.evaluate("table => [table.scrollWidth, table.parentElement.clientWidth]")
            assert sizes[0] <= sizes[1], f"a table of {page.url} is {sizes[0]} wide in {sizes[1]}"
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_first_page_leads_to_the_console(page: Page, sign_in: SignIn) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Back office")
    better = page.get_by_role("region", name="Better done in the console")
    for part in ("Approvals", "Runs", "Operations log"):
        expect(better.get_by_role("link", name=part, exact=True)).to_be_visible()
    expect_good_looks(page, "admin-index")
    better.get_by_role("link", name="Runs").click()
    page.wait_for_url("**/console/runs/")
    page.get_by_role("link", name="Back office").click()
    page.get_by_role("banner").get_by_role("link", name="Console").click()
    page.wait_for_url("**/console/")

    reader = make_person(may=["audit.read_log"])
    Person.objects.filter(pk=reader.pk).update(is_staff=True)
    page = sign_in(reader, "/admin/")
    expect(page.get_by_role("region", name="Better done in the console").get_by_role("link")).to_have_text(
        ["Approvals", "Scheduled", "Operations log"]
    )


def test_lists(page: Page, administrator: Person, integration: Integration, record: OperationRecord) -> None:
    link = integration.key.links.get()
    SavedFilter.objects.create(
        name="Leavers",
        connection=link.connection,
        owner=administrator,
        kind="user",
        filter="(&(objectClass=user)(department=Analytical Engines)(!(userAccountControl:1.2.840.113556.1.4.803:=2)))",
        base_dn=f"{LONG},DC=corp,DC=example,DC=test",
        scope="subtree",
        attributes=[],
    )
    for path in LISTS:
        page.goto(f"/admin/{path}/")
        expect_good_looks(page, f"admin-{path.replace('/', '-')}")
        expect_tables_to_fit(page)


def test_forms(page: Page, integration: Integration, record: OperationRecord, held: ChangeRequest) -> None:
    key, role = integration.key, integration.key.role_id
    connection = key.links.get().connection_id
    for name, path in {
        "role-new": "keys/role/add/",
        "role": f"keys/role/{role}/change/",
        "role-deleted": f"keys/role/{role}/delete/",
        "role-history": f"keys/role/{role}/history/",
        "key-new": "keys/apikey/add/",
        "key": f"keys/apikey/{key.id}/change/",
        "link-new": "keys/link/add/",
        "person": f"keys/person/{key.owner_id}/change/",
        "connection": f"directory/directoryconnection/{connection}/change/",
        "record": f"audit/operationrecord/{record.id}/change/",
        "change": f"approvals/changerequest/{held.id}/change/",
        "webhook": "audit/webhookendpoint/add/",
    }.items():
        page.goto(f"/admin/{path}")
        expect_good_looks(page, f"admin-{name}")
    page.goto(f"/admin/audit/operationrecord/{record.id}/change/")
    page.get_by_role("link", name="In the console").click()
    page.wait_for_url(f"**/console/log/{record.id}")


def test_a_list_is_narrowed_down(page: Page, record: OperationRecord) -> None:
    page.goto("/admin/audit/operationrecord/")
    row = page.get_by_role("row", name="disable-accounts")
    expect(row).to_contain_text("OrganizationUnitAccounts.PlanStale")
    filters = page.get_by_role("navigation", name="Filter")
    filters.get_by_text("Outcome:").click()
    filters.get_by_role("link", name="Succeeded").click()
    expect(filters.get_by_text("Outcome: Succeeded")).to_be_visible()
    expect(row).to_have_count(0)
    filters.get_by_role("link", name="Clear all filters").click()
    expect(row).to_be_visible()


def test_it_is_dark_where_the_console_is(page: Page, integration: Integration, record: OperationRecord) -> None:
    page.goto("/console/")
    open_own_menu(page)
    button = page.get_by_role("button", name="Theme")
    while page.evaluate("document.documentElement.dataset.theme") != "dark":
        button.click()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    key = integration.key
    for path in ("", "audit/operationrecord/", f"keys/apikey/{key.id}/change/", f"keys/role/{key.role_id}/change/"):
        page.goto(f"/admin/{path}")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == background
        expect_good_looks(page, f"admin-dark-{path.partition('/')[0]}-{len(path)}")
