"""A writer that is killed at random: the log counts as many changes as the directory's own metadata says were made.

`SETTLING_ROUNDS=500` plays more rounds than the suite has time for.
"""

import os
import random
from collections import Counter
from uuid import UUID

import pytest

from active_directory import Client
from audit.models import OperationRecord, Outcome
from directory.lookup.connection import get_client
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES
from lab.directory import Directory
from tests.support.cast import Integration
from tests.support.mishaps import killed_at_the_write, settle

ROUNDS = int(os.environ.get("SETTLING_ROUNDS", "25"))
# `description` is single-valued on accounts though the schema says otherwise, `otherTelephone` has several values.
ATTRIBUTES = ("description", "title", "department", "otherTelephone")
VALUES = ("1", "2", "3")


def steps(change: dict[str, list[str]]) -> int:
    """In how many steps a change is written: what goes is removed in one, what comes is added in another."""
    before, after = set(change["before"]), set(change["after"])
    return bool(before - after) + bool(after - before)


def made(client: Client, user: UUID) -> dict[str, int]:
    """In how many steps each attribute was changed, by the directory's metadata: Samba counts each."""
    versions = client.read(user, EVIDENCE_ATTRIBUTES).versions
    attids = {name: client.schema.attribute(name).attid for name in ATTRIBUTES}
    return {name: versions.get(attid, 0) for name, attid in attids.items()}


def updates(choose: random.Random) -> dict[str, dict[str, list[str]]]:
    """One update of one or two attributes."""
    body: dict[str, dict[str, list[str]]] = {}
    for name in choose.sample(ATTRIBUTES, choose.choice((1, 1, 2))):
        update = choose.choice(("add", "remove", "replace")) if name == "otherTelephone" else "replace"
        body.setdefault(update, {})[name] = [choose.choice(VALUES)]
    return body


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_as_many_succeed_as_were_made(
    seed: int, integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    choose = random.Random(seed)  # noqa: S311 - a repeatable choice
    user = directory.add_user(parent=organizational_unit)
    client = get_client(integration.key.links.get().connection_id)
    before, story = made(client, user), []
    for _ in range(choose.randint(2, 5)):
        body, fate = updates(choose), choose.choice(("done", "before", "after"))
        story.append((fate, body))
        if fate == "done":
            assert integration.patch(f"/api/ad/users/{user}", body).status == 200
            continue
        unchanged = integration.patch(f"/api/ad/users/{user}?dryRun=true", body).body["changes"] == []
        if not unchanged:
            with killed_at_the_write(after_write=fate == "after"):
                integration.patch(f"/api/ad/users/{user}", body)
    settle(nothing_under_way=True)
    now = made(client, user)
    records = OperationRecord.objects.filter(target_id=user, outcome=Outcome.SUCCEEDED)
    counted = Counter[str]()
    for change in (change for record in records for change in record.changes):
        counted[change["attribute"]] += steps(change)
    grown = {name: now[name] - before[name] for name in ATTRIBUTES}
    assert {name: counted[name] for name in ATTRIBUTES} == grown, story
