"""People with a session who may let agents do something."""

import pytest

from directory.models import DirectoryConnection
from keys.agents.scopes import SCOPES, permissions_of
from tests.keys.agents.sign_in import Program, answer_in, decide
from tests.support.cast import Console, make_person


@pytest.fixture
def corp(db: None) -> DirectoryConnection:
    """A connection that is never asked: signing in an agent needs no directory of a local account."""
    return DirectoryConnection.objects.create(
        name="Corp", urls=["ldaps://127.0.0.1:1"], base_dn="DC=corp", bind_dn="CN=gateway", bind_password="x"
    )


@pytest.fixture
def console(corp: DirectoryConnection) -> Console:
    """Somebody who may do all that an agent could."""
    return Console(make_person(may=permissions_of(SCOPES)))


@pytest.fixture
def program(db: None) -> Program:
    """An agent's program that has registered itself."""
    program = Program()
    assert program.register().status == 201
    return program


@pytest.fixture
def code(console: Console, program: Program) -> str:
    """The code that consenting gives the program."""
    return answer_in(decide(console, program.address()))["code"]
