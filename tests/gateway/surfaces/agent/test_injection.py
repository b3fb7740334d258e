"""What the directory holds is data: it stands in structured content and its copy, in no other word of ours.

And nothing comes of it: what was not called is neither done nor asked for.
"""

import json
from typing import Any
from uuid import UUID

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.operation import Effect, find_operation
from core.text.invisible import is_invisible
from directory.models import DirectoryConnection
from gateway.surfaces.agent.tools import TOOLS
from lab.directory import Directory
from tests.contracts.test_registry import highest_usn
from tests.gateway.surfaces.agent.hostile import HOSTILE, HUGE
from tests.support.agent_tools import Result, call_tool, list_tools, send, send_with_envelope
from tests.support.agents import Agent, make_agent

SHORT = [text for text in HOSTILE if len(text) <= 64 and "\n" not in text]


def require_in_its_place(result: Result) -> None:
    """Nothing of what is hostile is said in our own words."""
    for text in (*HOSTILE, *HUGE):
        assert text not in result.said
        assert text.strip() not in result.said
    assert len(result.said) < 500


def infest(directory: Directory, unit: str) -> dict[str, UUID]:
    """Objects of each kind whose every text is hostile; the first four users have all hundred between them."""
    found = {
        f"user{part}": directory.add_user(
            SHORT[part],
            parent=unit,
            displayName=HOSTILE[part],
            proxyAddresses=list(HOSTILE[part * 25 : part * 25 + 25]),
        )
        for part in range(4)
    }
    found["huge"] = directory.add_user(SHORT[4], parent=unit, proxyAddresses=list(HUGE), info=HUGE[0])
    found["group"] = directory.add_group(
        SHORT[5], parent=unit, description=HOSTILE[50], members=[found["user0"], found["user1"]]
    )
    found["computer"] = directory.add_computer(parent=unit, description=HOSTILE[60], location=HOSTILE[70])
    found["unit"] = directory.guid(directory.add_unit(SHORT[6], parent=unit, description=HOSTILE[80]))
    return found


def test_there_are_a_hundred() -> None:
    assert len(set(HOSTILE)) == 100


def test_reading_says_it_in_its_place_and_leads_to_nothing(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    agent = make_agent(connection)
    clean = list_tools(agent)
    objects = infest(directory, organizational_unit)
    # The domain controller notes the first sign-in of the gateway's account, which may be this one.
    call_tool(agent, "search_directory", kind="users", base=organizational_unit)
    before = highest_usn(directory)
    seen = ""
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("search_directory", {"kind": kind, "base": organizational_unit}) for kind in ("users", "groups", "objects")),
        ("search_directory", {"kind": "users", "base": organizational_unit, "attributes": ["*"], "state": "enabled"}),
        *(
            ("read_object", {"kind": "users", "id": str(objects[f"user{part}"]), "include": ["memberships", "access"]})
            for part in range(4)
        ),
        ("read_object", {"kind": "users", "id": str(objects["huge"]), "attributes": ["*"]}),
        ("read_object", {"kind": "users", "id": str(objects["huge"]), "attributes": ["proxyAddresses", "info"]}),
        ("read_object", {"kind": "groups", "id": str(objects["group"]), "include": ["members", "history"]}),
        ("read_object", {"kind": "users", "id": directory.dn(objects["user0"])}),
        ("read_object", {"kind": "users", "id": f"CN={HOSTILE[1]},{organizational_unit}"}),
        ("describe_schema", {"kind": "users", "attribute": [SHORT[0]]}),
        ("search_directory", {"kind": "users", "filter": f"(displayName={SHORT[1]}"}),
        ("search_directory", {"kind": "users", "q": SHORT[0], "cursor": HOSTILE[9], "sort": HOSTILE[3]}),
        ("preview_change", {"tool": "delete_object", "arguments": {"kind": "users", "id": str(objects["user2"])}}),
        (
            "preview_change",
            {
                "tool": "update_object",
                "arguments": {"kind": "users", "id": str(objects["user3"]), "clear": ["proxyAddresses", "displayName"]},
            },
        ),
        ("my_change_requests", {"status": HOSTILE[2]}),
        ("my_changes", {"since": HOSTILE[2]}),
    ]
    for name, arguments in calls:
        for ask in (send, send_with_envelope):
            answer = ask(agent, "tools/call", {"name": name, "arguments": arguments})
            assert answer.status == 200, answer
            said, copy = (part["text"] for part in answer.body["result"]["content"])
            result = Result(answer.body["result"]["structuredContent"], said, copy, answer.body["result"]["isError"])
            require_in_its_place(result)
            seen += json.dumps(result.structured, ensure_ascii=False)
    for text in HOSTILE:  # nothing is hidden either: it is what the directory holds
        assert json.dumps(text, ensure_ascii=False)[1:-1] in seen, text
    assert list_tools(agent) == clean
    assert highest_usn(directory) == before
    assert not ChangeRequest.objects.exists()
    reads.flush()
    changed = [
        item for item in OperationRecord.objects.all() if find_operation(item.operation).effect is not Effect.READ
    ]
    assert changed == []


def test_changing_says_it_in_its_place_and_leads_to_nothing_else(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    agent: Agent = make_agent(connection)
    clean = list_tools(agent)
    objects = {name: str(guid) for name, guid in infest(directory, organizational_unit).items()}
    why = {"reason": "A test of hostile texts."}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create_object", {"kind": "users", "name": SHORT[0], "parent": organizational_unit}),  # it is there
        ("create_object", {"kind": "users", "name": HOSTILE[2] * 3, "parent": organizational_unit}),
        ("create_object", {"kind": "groups", "name": SHORT[7], "parent": HOSTILE[4]}),
        (
            "create_object",
            {
                "kind": "groups",
                "name": SHORT[8],
                "parent": organizational_unit,
                "replace": {"description": HOSTILE[90]},
            },
        ),
        ("create_object", {"kind": "users", "name": "x", "parent": organizational_unit, HOSTILE[0]: HOSTILE[1]}),
        ("update_object", {"kind": "users", "id": objects["user0"], "replace": {"title": HOSTILE[12]}}),
        ("update_object", {"kind": "users", "id": objects["user0"], "replace": {SHORT[2]: "x"}}),
        ("update_object", {"kind": "users", "id": objects["user1"], "clear": ["proxyAddresses"]}),
        ("move_or_rename_object", {"kind": "users", "id": objects["user2"], "parent": objects["unit"]}),
        ("move_or_rename_object", {"kind": "users", "id": objects["user2"], "name": SHORT[9]}),
        ("move_or_rename_object", {"kind": "users", "id": objects["user3"], "parent": f"OU={SHORT[1]}"}),
        ("change_members", {"id": objects["group"], "add": [objects["huge"]], "remove": [objects["user0"]]}),
        ("change_members", {"id": objects["group"], "add": [HOSTILE[5]]}),
        ("change_account", {"kind": "users", "id": objects["user3"], "action": "disable"}),
        ("change_account", {"kind": "users", "id": objects["user3"], "action": HOSTILE[7]}),
        ("change_account", {"kind": "users", "id": objects["user0"], "action": "reset-password", "generate": True}),
        ("delete_object", {"kind": "organization-units", "id": objects["unit"]}),
        ("delete_object", {"kind": "users", "id": objects["huge"]}),
        ("restore_object", {"id": objects["huge"], "name": HOSTILE[0]}),
    ]
    assert {name for name, _ in calls} | {"my_change_requests", "my_changes", "plan_changes"} == {
        tool.name for tool in TOOLS.values() if tool.behaviour != "reads"
    }
    planned = [{"tool": name, "arguments": arguments} for name, arguments in calls if name == "delete_object"]
    require_in_its_place(call_tool(agent, "plan_changes", changes=planned))
    for name, arguments in calls:
        require_in_its_place(call_tool(agent, name, **arguments, **why))
    require_in_its_place(call_tool(agent, "my_changes", limit=50))
    listed = call_tool(agent, "my_change_requests", limit=50)
    require_in_its_place(listed)
    for item in listed.structured["items"]:
        require_in_its_place(call_tool(agent, "my_change_requests", id=item["id"]))
    assert list_tools(agent) == clean
    # What was done or asked for is what was called, and one record each.
    reads.flush()
    called = [TOOLS[name] for name, _ in calls]
    made = [item for item in OperationRecord.objects.all() if find_operation(item.operation).effect is not Effect.READ]
    assert {item.operation for item in made} <= {name for tool in called for name in tool.serves.values()}
    assert len(made) == len(calls) - 1  # an action that there is not is no operation
    assert ChangeRequest.objects.count() == 8  # names with characters that nobody sees are held, too


def test_the_copy_shows_what_nobody_sees(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    """As JSON spells it: the values are what they are, and the text that is read has no such character."""
    name = "Pay\u202eroll\u200b\U000e0041 Zoë עדה"
    user = directory.add_user(parent=organizational_unit, displayName=name)
    read = call_tool(make_agent(connection), "read_object", kind="users", id=str(user))
    assert read.structured["attributes"]["displayName"] == [name]
    assert "Pay\\u202eroll\\u200b\\udb40\\udc41 Zoë עדה" in read.copy
    assert not [each for each in read.copy if is_invisible(each)]
