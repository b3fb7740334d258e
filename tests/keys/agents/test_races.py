"""Codes and refresh tokens in two hands at the same moment: never do they get different tokens that are good."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection
from django.test import Client, RequestFactory

from core.errors import Unauthorized
from directory.models import DirectoryConnection
from keys.agents.identification import identify_agent
from keys.agents.scopes import SCOPES, permissions_of
from keys.models.agents import AgentGrant
from tests.keys.agents.sign_in import Program, answer_in, decide, sign_in
from tests.support.cast import Answer, Console, make_person


@pytest.fixture
def console(transactional_db: None) -> Console:
    DirectoryConnection.objects.create(
        name="Corp", urls=["ldaps://127.0.0.1:1"], base_dn="DC=corp", bind_dn="CN=gateway", bind_password="x"
    )
    return Console(make_person(may=permissions_of(SCOPES)))


def at_once(program: Program, ask: Callable[[Program], Answer], hands: int = 4) -> list[Answer]:
    """The same request from several places."""
    start = Barrier(hands)

    def one(_: int) -> Answer:
        own = Program(program.client_id, program.redirect_uri, program.verifier, program.state, Client())
        start.wait()
        try:
            return ask(own)
        finally:
            connection.close()

    with ThreadPoolExecutor(hands) as pool:
        return list(pool.map(one, range(hands)))


def require_ended(answers: list[Answer], reason: str) -> None:
    assert sum(answer.status == 200 for answer in answers) <= 1, answers
    grant = AgentGrant.objects.get()
    assert grant.ended_for == reason
    for answer in answers:
        if answer.status == 200:
            request = RequestFactory().post("/mcp", headers={"Authorization": f"Bearer {answer.body['access_token']}"})
            with pytest.raises(Unauthorized):
                identify_agent(request)


def test_a_code(console: Console) -> None:
    program = Program()
    assert program.register().status == 201
    code = answer_in(decide(console, program.address()))["code"]
    require_ended(at_once(program, lambda own: own.exchange(code)), "code-reused")


def test_a_refresh_token(console: Console) -> None:
    """A client with several threads goes on with one pair, whoever of them was first."""
    program, tokens = sign_in(console)
    answers = at_once(program, lambda own: own.refresh(tokens["refresh_token"]))
    assert [answer.status for answer in answers] == [200] * len(answers)
    assert len({(answer.body["access_token"], answer.body["refresh_token"]) for answer in answers}) == 1
    request = RequestFactory().post("/mcp", headers={"Authorization": f"Bearer {answers[0].body['access_token']}"})
    assert identify_agent(request).credential.id == program.client_id
    assert program.refresh(answers[0].body["refresh_token"]).status == 200
