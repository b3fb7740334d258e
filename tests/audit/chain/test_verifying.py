"""Verification by workers: one leads, others help, and one that is killed is replaced."""

from contextlib import suppress
from typing import Any

import pytest
from celery import current_app
from django.core.cache import cache

from audit.chain import verifying
from audit.chain.seals import range_mac
from audit.chain.verified_ranges import new_run
from audit.chain.walk import Walk
from audit.models import LogSeal, LogVerification, VerifiedRange
from tests.audit.chain.sealed_log import fill
from tests.audit.chain.test_verified_ranges import Killed, fill_often, kill_after, newest

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("guards_come_back"),
    pytest.mark.sqlite,
]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    sent: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, args, **_: sent.append((name, args)))
    return sent


def test_one_leads_and_others_help(
    small: None, sent: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "_WORTH_HELP", 2)
    fill(4)
    assert verifying.request_verification()
    assert verifying.is_verifying()
    assert verifying.find_progress() is None
    verifying.verify_as_asked()
    ask, *helps = sent
    assert ask == ("gateway.tasks.verify_log", [])
    assert [name for name, _ in helps] == ["gateway.tasks.help_to_verify_log"] * 2
    verifying.help_to_verify(helps[0][1][0])
    assert not VerifiedRange.objects.filter(run__isnull=False).exists(), "it is over"
    assert not verifying.is_verifying()
    sent.clear()
    verifying.verify_as_asked()
    assert not LogVerification.objects.exclude(first_seal=None).exists()
    assert not sent, "a task that comes again does nothing"


def test_a_helper_verifies_and_lets_others_have_their_turn(small: None, sent: list[tuple[str, list[str]]]) -> None:
    fill(4)
    run = new_run()
    cache.set(verifying._RUN, run)
    verifying.help_to_verify(str(run))
    assert sent == [("gateway.tasks.help_to_verify_log", [str(run)])]
    assert VerifiedRange.objects.get().last == 2


def test_after_a_kill(small: None, sent: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch) -> None:
    fill_often()
    verifying.request_verification()
    with monkeypatch.context() as patch, suppress(Killed):
        kill_after(3, patch)
        patch.setattr(verifying._Lease, "give_back", lambda _: None)  # it has no time for that
        verifying.verify_as_asked()
    sent.clear()
    verifying.verify_as_asked()
    assert sent == [("gateway.tasks.verify_log", [])], "it looks again as long as that one may live"
    assert not LogVerification.objects.exists()
    cache.delete_many([verifying._LEADER, verifying._UNDER_WAY])  # which end by themselves
    verifying.verify_as_asked()
    assert LogVerification.objects.get().finding is None
    assert not cache.get(verifying._RUN)


def test_how_far_it_is(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "_RENEWED_EVERY", -1.0)
    fill(4)
    shown = []
    original = Walk._check_seal

    def check(self: Walk, seal: LogSeal) -> Any:
        shown.append(verifying.find_progress())
        return original(self, seal)

    monkeypatch.setattr(Walk, "_check_seal", check)
    verifying.verify()
    assert shown[0] == {"firstSeal": 1, "seal": 0, "lastSeal": newest()}
    assert shown[-1]["seal"] >= 2
    assert verifying.find_progress() is None
    assert range_mac(VerifiedRange.objects.get()) == VerifiedRange.objects.get().mac
