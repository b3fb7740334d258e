"""A request that has taken too long begins nothing more, and one whose client has gone away goes on only to change."""

import time
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from audit.models import OperationRecord
from core.deadlines import Deadline, current_deadline
from lab.directory import Directory
from tests.gateway.pipeline.batches.sending import codes, send, statuses, titled
from tests.gateway.pipeline.batches.test_faults import at_write
from tests.support.cast import Integration

__all__ = ["at_write"]


@pytest.fixture
def deadline() -> Iterator[Deadline]:
    given = Deadline(at=time.monotonic() + 3600)
    token = current_deadline.set(given)
    yield given
    current_deadline.reset(token)


def test_the_rest_of_a_batch_is_not_tried_when_its_time_is_over(
    integration: Integration,
    directory: Directory,
    users: Callable[[int], list[UUID]],
    deadline: Deadline,
    at_write: Callable[[int, Callable[[], None]], None],
) -> None:
    some = users(60)
    at_write(10, lambda: setattr(deadline, "at", 0.0))
    answer = send(integration, "update", [titled(guid, "x") for guid in some])
    assert statuses(answer) == [200] * 50 + [503] * 10
    assert set(codes(answer)[50:]) == {"Service.Unavailable"}
    assert "Web:RequestSeconds" in answer.body["results"][-1]["problem"]["detail"]
    assert [directory.text(guid, "title") == "x" for guid in some] == [True] * 50 + [False] * 10
    outcomes = list(OperationRecord.objects.order_by("id").values_list("outcome", flat=True))
    assert outcomes == ["succeeded"] * 50 + ["failed"] * 10


def test_nothing_is_begun_when_the_time_is_over(
    integration: Integration, users: Callable[[int], list[UUID]], directory: Directory, deadline: Deadline
) -> None:
    (guid,) = users(1)
    deadline.at = 0.0
    assert integration.get(f"/api/ad/users/{guid}").status == 503
    assert integration.patch(f"/api/ad/users/{guid}", {"replace": {"title": "x"}}).status == 503
    assert directory.text(guid, "title") != "x"


def test_who_went_away_is_shown_nothing_more_but_gets_what_they_asked_to_change(
    integration: Integration, users: Callable[[int], list[UUID]], directory: Directory, deadline: Deadline
) -> None:
    some = users(3)
    deadline.is_client_gone = True
    items = [titled(guid, "x") for guid in some]
    assert integration.get(f"/api/ad/users/{some[0]}").status == 503
    assert set(statuses(send(integration, "update", items, query="?dryRun=true"))) == {503}
    assert set(statuses(send(integration, "update", items))) == {200}
    assert [directory.text(guid, "title") for guid in some] == ["x"] * 3
