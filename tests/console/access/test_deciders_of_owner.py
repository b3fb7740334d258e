"""Who could decide what a key asks for is said beside its owner, and on the owner's page."""

import pytest

from tests.console.pages import PART, text_of
from tests.support.cast import Console, make_person

pytestmark = pytest.mark.django_db


def test_deciders_are_named_before_there_is_a_key() -> None:
    console, owner = Console(make_person(superuser=True)), make_person()
    alone = console.call("GET", f"/console/keys/deciders?owner={owner.username}", **PART)
    assert "Nobody could decide" in text_of(alone)
    decider = make_person(may=["approvals.decide_change"])
    for path in (f"/console/keys/deciders?owner={owner.username}", f"/console/people/{owner.public_id}"):
        assert f"can be decided by {decider.username}" in text_of(console.get(path)), path
