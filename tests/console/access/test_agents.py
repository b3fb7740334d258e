"""An agent's page: what it changed, asks for and was refused, and for want of which scope."""

from uuid import UUID

import pytest

from directory.models import DirectoryConnection
from tests.console.plain_browser import PlainBrowser
from tests.support.agent_tools import call_tool
from tests.support.agents import make_agent
from tests.support.cast import Console, make_person

pytestmark = pytest.mark.django_db


def test_an_agent_has_a_page(administrator: PlainBrowser, connection: DirectoryConnection, ada: UUID) -> None:
    agent = make_agent(connection, scopes=["read", "change"], supervision_level="ask_destructive_security")
    which = {"kind": "users", "id": str(ada), "reason": "New drive"}
    assert not call_tool(agent, "update_object", replace={"title": ["Countess"]}, **which).is_error
    call_tool(agent, "update_object", replace={"scriptPath": ["x.cmd"]}, **which)
    refused = call_tool(agent, "delete_object", **which)
    assert "This needs the scope delete, which you do not have." in refused.said

    page = administrator.open("/console/agents/")
    assert f"/console/agents/{agent.grant.id}" in page.content
    page.open(f"/console/agents/{agent.grant.id}")
    asks, _, rest = page.text.partition("What it asks for")[2].partition("What it was refused")
    assert "New drive" in asks
    wanted, _, did = rest.partition("What it changed")
    assert "Missing scope: delete" in wanted
    assert "Change job title of Ada Lovelace" in did

    own = PlainBrowser(Console(agent.person)).open(f"/console/agents/{agent.grant.id}")
    assert own.status == 200
    assert "New drive" in own.text
    stranger = PlainBrowser(Console(make_person(may=["directory.read_object"])))
    assert stranger.open(f"/console/agents/{agent.grant.id}").status == 404
