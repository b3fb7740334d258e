"""Both OpenAPI documents against the running gateway, with all checks of schemathesis: whatever is sent is answered as
the document promises, what it allows is accepted, and what it forbids is refused.

The key is confined to one organizational unit, and a person is only ever given names inside it, so that what is deleted
and renamed at random hurts nothing. `make fuzz` runs a long campaign.
"""

import json
import os
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from schemathesis.cli import schemathesis

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from gateway.surfaces.reading import SCHEDULE_HEADERS
from keys.models import ApiKey
from lab.directory import Directory, random_name
from lab.gateway import LiveGateway
from tests.contracts.accepted_failures import ACCEPTED
from tests.support.agents import make_agent
from tests.support.cast import PASSWORD, Integration, make_integration, make_person
from tests.support.fuzzing import Campaign, World
from tests.support.openapi import Document

pytestmark = pytest.mark.django_db(transaction=True)  # the web server sees what is committed

CAMPAIGN = int(os.environ.get("GATEWAY_FUZZ_EXAMPLES", "0"))
"""Requests drawn for each operation in a campaign (`make fuzz`), which also goes systematically through what the
document says of each value and through chains of requests. The suite has a minute for all of it."""
EXAMPLES = CAMPAIGN or 3
PHASES = "examples,coverage,fuzzing,stateful" if CAMPAIGN else "fuzzing"

ENDS_THE_SESSION = "session.destroy"


@pytest.fixture
def key(connection: DirectoryConnection, directory: Directory, organizational_unit: str) -> Integration:
    """May do everything inside one organizational unit, without asking."""
    return make_integration(connection, scopes=[directory.guid(organizational_unit)])


@pytest.fixture
def world(key: Integration, connection: DirectoryConnection, directory: Directory, organizational_unit: str) -> World:
    world = World(directory, organizational_unit)
    world.replenish()
    user = f"/api/ad/users/{world.objects['user']}"
    ApiKey.objects.filter(pk=key.key.pk).update(supervision_level=SupervisionLevel.ASK_EVERY_CHANGE.value)
    held = key.patch(user, {"replace": {"title": "waiting"}})
    ApiKey.objects.filter(pk=key.key.pk).update(supervision_level=SupervisionLevel.ACT.value)
    assert held.status == 202, held
    changed = key.patch(user, {"replace": {"title": "changed"}})
    assert changed.status == 200, changed
    spare = make_integration(None, may=["directory.read_object"])
    nowhere = DirectoryConnection.objects.create(
        name=random_name("nowhere"), urls=["ldaps://127.0.38.201"], base_dn="DC=nowhere", bind_dn="x", enabled=False
    )
    agent = make_agent(connection)
    world.fixed = {
        "@agent": str(agent.grant.id),
        "@agent-client": str(agent.grant.client.pk),
        "@request": held.body["changeRequest"]["id"],
        "@record": key.get("/api/operations").body["items"][0]["id"],
        "@directory": str(nowhere.id),
        "@role": str(spare.key.role_id),
        "@key": str(spare.key.id),
        "@person": str(spare.key.owner.public_id),
        "@username": spare.key.owner.username,
        "@client": key.client_id or "",
    }
    return world


def session_of(gateway: LiveGateway, username: str) -> dict[str, str]:
    """The headers of a person who has signed in."""
    connection = HTTPConnection(urlsplit(gateway.base_url).netloc, timeout=60)
    body = json.dumps({"username": username, "password": PASSWORD})
    connection.request("POST", "/rest/session", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    token = json.loads(answer.read())["csrfToken"]
    cookies = [header.partition(";")[0] for header in answer.headers.get_all("Set-Cookie", [])]
    return {"Cookie": "; ".join(cookies), "X-CSRFToken": token}


def save_a_filter(gateway: LiveGateway, world: World, surface: str, headers: dict[str, str]) -> None:
    body = {"name": "Saved", "filter": "(cn=*)", "base": world.place}
    status, _, said = gateway.request("POST", f"/{surface}/ad/saved-filters", body=body, headers=headers)
    assert status == 201, said
    world.fixed["@filter"] = said["id"]


def require_promises(
    gateway: LiveGateway, world: World, surface: str, headers: dict[str, str], folder: Path, *options: str
) -> None:
    """Fail with what schemathesis found, or when most operations were refused at the door, so that little was tried."""
    published = gateway.request("GET", f"/{surface}/openapi.json")[2]
    for each in (each for path in published["paths"].values() for each in path.values() if "parameters" in each):
        # Whether a time is usable depends on when it is sent.
        each["parameters"] = [item for item in each["parameters"] if item.get("name") not in SCHEDULE_HEADERS]
    document = Document(published)
    # Read from a file: schemathesis would wait ten seconds for it, and on a busy machine in vain.
    file = folder / "openapi.json"
    file.write_text(json.dumps(published), "utf-8")
    given = [option for name, value in headers.items() for option in ("--header", f"{name}: {value}")]
    command = [
        *("--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
        *("run", str(file), "--url", gateway.base_url, "--checks", "all", "--continue-on-failure"),
        *("--no-color", "--phases", PHASES, "--max-examples", str(EXAMPLES), *given, *options),
    ]
    campaign = Campaign(world, document, ACCEPTED, headers)
    with campaign.running():
        outcome = CliRunner().invoke(schemathesis, command)
    assert outcome.exit_code == 0, outcome.output
    never = sorted({operation.name for operation in document.operations} - world.carried_out)
    # A few requests leave more undone than a campaign does.
    assert len(never) < len(document.operations) / (4 if CAMPAIGN else 3), f"never carried out: {never}"


def test_the_machine_surface_keeps_its_promises(
    live_gateway: LiveGateway, key: Integration, world: World, tmp_path: Path
) -> None:
    headers = {"X-API-Key": key.value}
    save_a_filter(live_gateway, world, "api", headers)
    require_promises(live_gateway, world, "api", headers, tmp_path)


def test_the_browser_surface_keeps_its_promises(
    live_gateway: LiveGateway, connection: DirectoryConnection, world: World, tmp_path: Path
) -> None:
    headers = session_of(live_gateway, make_person(superuser=True).username)
    world.fixed["@client"] = str(connection.client_id)
    save_a_filter(live_gateway, world, "rest", headers)
    require_promises(live_gateway, world, "rest", headers, tmp_path, "--exclude-operation-id", ENDS_THE_SESSION)
    assert live_gateway.request("GET", "/rest/session", headers=headers)[0] == 200, "the session was lost on the way"
