"""Connecting an agent in a real browser: the consent page, the way back to the agent, and its end."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from directory.models import DirectoryConnection
from keys.agents.scopes import SCOPES, permissions_of
from keys.models.agents import AgentGrant
from lab.gateway import LiveGateway
from tests.browser.conftest import SignIn
from tests.browser.looks import expect_good_looks
from tests.keys.agents.sign_in import Program
from tests.support.cast import make_person


@pytest.fixture
def corp(transactional_db: None) -> DirectoryConnection:
    """A connection that is never asked."""
    return DirectoryConnection.objects.create(
        name="Corp", urls=["ldaps://127.0.0.1:1"], base_dn="DC=corp", bind_dn="CN=gateway", bind_password="x"
    )


@pytest.fixture
def program(transactional_db: None, live_gateway: LiveGateway) -> Program:
    """A program whose answers go to an address of this machine that answers anything with a page."""
    program = Program(redirect_uri=f"{live_gateway.base_url}/health")
    assert program.register().status == 201
    return program


def test_it_works(sign_in: SignIn, corp: DirectoryConnection, program: Program, live_gateway: LiveGateway) -> None:
    ada = make_person("ada", may=permissions_of(SCOPES))
    address = program.address(scope=" ".join(SCOPES), resource=f"{live_gateway.base_url}/mcp")
    page = sign_in(ada, address)
    expect(page.get_by_role("heading", level=1)).to_have_text("Claude")
    expect(page.get_by_text(program.redirect_uri)).to_be_visible()
    expect_good_looks(page, "agent-connect")
    for scope in ("delete", "passwords", "runs"):
        page.get_by_label(SCOPES[scope].title).uncheck()
    page.get_by_role("button", name="Allow what is ticked").click()
    page.wait_for_url(re.compile(r"/health\?"))
    told = parse_qs(urlsplit(page.url).query)
    assert told["state"] == [program.state]
    assert told["iss"] == [live_gateway.base_url]
    answer = program.exchange(
        told["code"][0],
        resource=f"{live_gateway.base_url}/mcp",
        HTTP_HOST=live_gateway.base_url.removeprefix("http://"),
    )
    assert answer.status == 200, answer
    assert answer.body["scope"].split() == [name for name in SCOPES if name not in ("delete", "passwords", "runs")]
    page.goto("/console/account")
    agents = page.get_by_role("region", name="My agents")
    expect(agents).to_contain_text("Claude")
    expect_good_looks(page, "account-agents")
    agents.get_by_role("link", name="Claude").click()
    expect(page.get_by_role("heading", name="What it asks for")).to_be_visible()
    expect_good_looks(page, "agent")
    page.goto("/console/account")
    agents.get_by_role("button", name="End what Claude may do").click()
    expect(page.get_by_role("status")).to_contain_text("Claude can do nothing for you any more.")
    assert AgentGrant.objects.get().ended_for == "person"


def test_a_token_without_a_browser(sign_in: SignIn, corp: DirectoryConnection, live_gateway: LiveGateway) -> None:
    page = sign_in(make_person("ada", may=permissions_of(["read", "delete"])), "/console/account")
    page.get_by_role("link", name="Token for an agent without a browser").click()
    page.get_by_label("Name", exact=True).fill("Nightly audit")
    page.get_by_label(SCOPES["read"].title).uncheck()
    page.get_by_role("button", name="Show its token").click()
    expect(page.locator(".field .error")).to_have_text("Allow the agent at least one thing.")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Nightly audit")
    expect_good_looks(page, "agent-token")
    page.get_by_label(SCOPES["read"].title).check()
    page.get_by_role("button", name="Show its token").click()
    token = page.get_by_label("Token", exact=True).input_value()
    expect_good_looks(page, "agent-token-shown")
    asked = page.request.post(
        f"{live_gateway.base_url}/mcp",
        headers={"Authorization": f"Bearer {token}"},
        data={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    )
    listed = {tool["name"] for tool in asked.json()["result"]["tools"]}
    assert "read_object" in listed
    assert "delete_object" not in listed
    page.reload()
    expect(page.get_by_text("cannot be shown again")).to_be_visible()
    page.goto("/console/account")
    page.get_by_role("button", name="End what Nightly audit may do").click()
    expect(page.get_by_role("status")).to_contain_text("Nightly audit can do nothing for you any more.")


def test_agents_of_everybody(sign_in: SignIn, program: Program) -> None:
    page = sign_in(make_person("root", superuser=True), "/console/agents/")
    expect(page.get_by_role("region", name="Programs that can be connected")).to_contain_text("Claude")
    expect_good_looks(page, "agents")
