"""The second factor: setting it up, signing in with it, and that nothing leads around it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.db import connection, connections
from django.test import Client
from django.utils import timezone
from structlog.testing import capture_logs

from core.errors import Conflict
from keys.models import FailedSignIn, Person, RecoveryCode, SecondFactor
from keys.sign_in import second_factor
from keys.sign_in.credentials import Reason, SignInRefused
from tests.audit.calls import CALL
from tests.keys.authenticator import code_of
from tests.support.cast import PASSWORD, Answer, Console, make_person, send


@pytest.fixture
def ada(db: None) -> Person:
    return make_person("ada")


def sign_in(code: str | None = None, *, password: str = PASSWORD) -> Answer:
    body = {"username": "ada", "password": password, **({} if code is None else {"code": code})}
    return send(Client(), "POST", "/rest/session", body)


def turn_on(person: Person) -> tuple[str, list[str]]:
    """The secret and the recovery codes. The code of the half minute before was used for it."""
    secret = second_factor.enrol(person).secret
    return secret, second_factor.confirm(CALL, person, code_of(secret, steps=-1))


def reason_of(attempt: Callable[[], object]) -> Reason:
    with pytest.raises(SignInRefused) as refused:
        attempt()
    return refused.value.reason


def test_it_works(ada: Person) -> None:
    assert sign_in().status == 200
    secret, _ = turn_on(ada)
    assert second_factor.is_on(ada)
    refused = sign_in()
    assert (refused.status, refused.code) == (401, "Auth.Unauthorized")
    assert sign_in(code_of(secret)).status == 200


def test_what_the_authenticator_is_told(ada: Person) -> None:
    enrolment = second_factor.enrol(ada)
    address = urlsplit(enrolment.address)
    assert (address.scheme, address.netloc, unquote(address.path)) == ("otpauth", "totp", "/Directory Gateway:ada")
    assert parse_qs(address.query) == {"secret": [enrolment.secret], "issuer": ["Directory Gateway"]}
    assert second_factor.find_enrolment(ada) == enrolment


def test_one_that_is_not_confirmed_asks_for_nothing(ada: Person) -> None:
    first = second_factor.enrol(ada)
    again = second_factor.enrol(ada)
    assert first.secret != again.secret
    assert reason_of(lambda: second_factor.confirm(CALL, ada, code_of(first.secret))) is Reason.CODE_WRONG
    assert sign_in().status == 200
    assert second_factor.find_enrolment(ada) == again


def test_every_refusal_looks_the_same_outside(ada: Person) -> None:
    secret, _ = turn_on(ada)
    wrong = f"{(int(code_of(secret)) + 1) % 1_000_000:06d}"
    answers = {
        "wrong name or password": sign_in(code_of(secret), password="wrong"),
        "no code of the second factor": sign_in(),
        "no code of the second factor too": sign_in(" - "),
        "wrong code of the second factor": sign_in(wrong),
        "no code at all": sign_in("abcdef"),
        "digits of another script": sign_in("١٢٣٤٥٦"),
    }
    assert {answer.status for answer in answers.values()} == {401}
    assert len({str({**answer.body, "requestId": ""}) for answer in answers.values()}) == 1


def test_the_log_knows_whose_code_was_wrong(ada: Person) -> None:
    turn_on(ada)
    with capture_logs() as logs:
        sign_in("abcdef")
    assert [(line["reason"], line["person"]) for line in logs if line["event"] == "credential refused"] == [
        ("wrong code of the second factor", "ada")
    ]


def test_a_code_is_good_for_one_sign_in(ada: Person) -> None:
    secret, _ = turn_on(ada)
    code = code_of(secret)
    assert sign_in(code).status == 200
    assert sign_in(code).status == 401
    assert sign_in(code_of(secret, steps=-1)).status == 401  # nor is one that came before it
    assert sign_in(code_of(secret, steps=1)).status == 200  # a clock that is half a minute ahead


def test_a_clock_that_is_far_off_is_wrong(ada: Person) -> None:
    secret, _ = turn_on(ada)
    assert sign_in(code_of(secret, steps=-3)).status == 401
    assert sign_in(code_of(secret, steps=3)).status == 401


def test_a_code_is_typed_as_it_is_shown(ada: Person) -> None:
    secret, _ = turn_on(ada)
    code = code_of(secret)
    assert sign_in(f" {code[:3]} {code[3:]} ").status == 200


def test_one_code_many_times_at_once(transactional_db: None) -> None:
    ada = make_person("ada")
    secret, recovery = turn_on(ada)

    def at_once(code: str) -> list[int]:
        def once(_: int) -> int:
            try:
                return sign_in(code).status
            finally:
                connections.close_all()

        with ThreadPoolExecutor(4) as pool:
            return sorted(pool.map(once, range(4)))

    assert at_once(code_of(secret)) == [200, 401, 401, 401]
    FailedSignIn.objects.all().delete()
    assert at_once(recovery[0]) == [200, 401, 401, 401]


def test_wrong_codes_are_counted(ada: Person) -> None:
    secret, recovery = turn_on(ada)
    for _ in range(5):
        assert sign_in("000000 0").status == 401
    with capture_logs() as logs:
        assert sign_in(code_of(secret)).status == 401
        assert sign_in(recovery[0]).status == 401
    assert {line["reason"] for line in logs if line["event"] == "credential refused"} == {
        "second factor locked after too many wrong codes"
    }
    FailedSignIn.objects.update(at=timezone.now() - timedelta(minutes=15))
    assert sign_in(code_of(secret)).status == 200


def test_a_recovery_code_stands_in_once(ada: Person) -> None:
    _, recovery = turn_on(ada)
    assert len(set(recovery)) == 10
    assert second_factor.remaining_recovery_codes(ada) == 10
    with capture_logs() as logs:
        assert sign_in(recovery[3].upper()).status == 200
    assert [line["left"] for line in logs if line["event"] == "recovery code used"] == [9]
    assert sign_in(recovery[3]).status == 401
    assert sign_in(recovery[4].replace("-", "")).status == 200
    other = turn_on(make_person("grace"))[1]
    assert sign_in(other[0]).status == 401


def test_recovery_codes_are_replaced_with_a_code_of_the_authenticator(ada: Person) -> None:
    secret, old = turn_on(ada)
    assert reason_of(lambda: second_factor.require_next_code(CALL, ada, old[0])) is Reason.CODE_WRONG
    second_factor.require_next_code(CALL, ada, code_of(secret))
    new = second_factor.replace_recovery_codes(CALL, ada)
    assert sign_in(old[0]).status == 401
    assert sign_in(new[0]).status == 200


def test_it_is_removed_with_a_code(ada: Person) -> None:
    secret, recovery = turn_on(ada)
    assert reason_of(lambda: second_factor.remove(CALL, ada, "000")) is Reason.CODE_WRONG
    assert second_factor.is_on(ada)
    second_factor.remove(CALL, ada, recovery[0])
    assert not second_factor.is_on(ada)
    assert sign_in().status == 200
    for change in (second_factor.remove, second_factor.require_next_code):
        with pytest.raises(Conflict):
            change(CALL, ada, code_of(secret))


def test_there_is_only_one(ada: Person) -> None:
    secret, _ = turn_on(ada)
    with pytest.raises(Conflict):
        second_factor.enrol(ada)
    with pytest.raises(Conflict):
        second_factor.confirm(CALL, ada, code_of(secret))
    assert second_factor.find_enrolment(ada) is None


def test_nothing_in_the_database_can_be_used(ada: Person) -> None:
    secret, recovery = turn_on(ada)
    with connection.cursor() as cursor:
        rows = []
        for table in (SecondFactor._meta.db_table, RecoveryCode._meta.db_table):
            cursor.execute(f"SELECT * FROM {table}")  # noqa: S608 - a table of ours
            rows += cursor.fetchall()
    kept = str(rows)
    assert len(rows) == 11
    for value in (secret, recovery[0], recovery[0].replace("-", "")):
        assert value not in kept


def test_an_administrator_resets_it(ada: Person, console: Console) -> None:
    turn_on(ada)
    path = f"/rest/users/{ada.public_id}"
    assert console.get(path).body["secondFactor"] is True
    with capture_logs() as logs:
        assert console.post(f"{path}/reset-second-factor").status == 204
    assert [(line["person"], line["by"]) for line in logs if line["event"] == "second factor reset"] == [
        ("ada", console.person.username)
    ]
    assert console.get(path).body["secondFactor"] is False
    assert sign_in().status == 200
    assert console.post(f"{path}/reset-second-factor").status == 204  # nothing to do


def test_who_may_reset_it(ada: Person, console: Console) -> None:
    turn_on(console.person)
    own = console.post(f"/rest/users/{console.person.public_id}/reset-second-factor")
    assert (own.status, own.code) == (409, "Request.Conflict")  # that takes a code
    helper = Console(make_person(may=["keys.change_person"]))
    assert helper.post(f"/rest/users/{console.person.public_id}/reset-second-factor").status == 403
    assert Console(make_person()).post(f"/rest/users/{ada.public_id}/reset-second-factor").status == 403
    assert second_factor.is_on(console.person)
