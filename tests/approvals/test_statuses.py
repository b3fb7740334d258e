"""Every state of a change request has its words wherever people, programs and agents are told of it."""

import re

import pytest

from approvals import messages
from approvals.models import Status
from approvals.review import notifications
from approvals.states import ANNOUNCED, TRANSITIONS
from approvals.statistics import _DECIDED
from audit.webhooks.events import STATUS_EVENTS
from console.templatetags.console import status_class
from core.text.vocabulary import translate_label
from gateway.surfaces.agent.tools import SENTENCES

ENDS_OF_DECIDED = {Status.APPLIED, Status.PARTLY_FAILED, Status.FAILED, Status.STALE, Status.UNKNOWN, Status.REJECTED}


@pytest.mark.parametrize("status", Status)
def test_each_has_its_words_in_every_channel(status: Status) -> None:
    assert status in TRANSITIONS
    assert status.value in STATUS_EVENTS
    assert status.value in SENTENCES["requests"]
    assert str(translate_label(status.value)), "in the console"
    if status in ANNOUNCED:
        assert status in notifications._OUTCOMES
        assert status in messages._ANNOUNCEMENTS or status is Status.APPROVED
    if status in ENDS_OF_DECIDED:
        assert status in _DECIDED, "statistics count it"


def test_what_failed_in_part_is_never_said_to_be_done() -> None:
    status = Status.PARTLY_FAILED
    told = (
        notifications._OUTCOMES[status],
        messages._ANNOUNCEMENTS[status],
        SENTENCES["requests"][status.value],
        str(translate_label(status.value)),
    )
    for text in told:
        assert "fail" in text
        assert not re.search(r"\b(done|applied)\b", text, re.IGNORECASE), text
    assert status_class(status.value) == "bad"
