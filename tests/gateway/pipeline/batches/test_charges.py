"""Items of batches and values of lists count against one limit, on every operation and surface that takes them."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from audit.models import OperationRecord
from core.configuration_sections import RateLimit
from lab.directory import Directory
from tests.gateway.pipeline.batches.sending import send, titled
from tests.support.cast import Integration, make_integration

Users = Callable[[int], list[UUID]]


@pytest.fixture(autouse=True)
def few(configure: Any, limited: None) -> None:
    configure(
        "RateLimiting",
        Enabled=True,
        BatchItems=RateLimit(Requests=10, WindowSeconds=600),
        Global=RateLimit(Requests=10_000, WindowSeconds=60),
    )


def test_items_count_for_the_credential(integration: Integration, users: Users) -> None:
    items = [titled(guid, "x") for guid in users(6)]
    assert send(integration, "update", items).status == 200
    refused = send(integration, "update", items)
    assert (refused.status, refused.code) == (429, "RateLimit.Exceeded")
    assert int(refused.headers["Retry-After"]) > 500
    assert '"BatchItems";q=10;w=600' in refused.headers["RateLimit-Policy"]
    assert [item.code for item in OperationRecord.objects.filter(outcome="failed")] == ["RateLimit.Exceeded"]
    another = make_integration(integration.key.links.get().connection)
    assert send(another, "update", items).status == 200


def test_what_can_never_be_taken_is_to_be_split(integration: Integration, users: Users) -> None:
    refused = send(integration, "update", [titled(users(1)[0], "x")] * 11)
    assert refused.status == 429
    assert "counts as 11 items and the limit is 10: split it" in refused.body["detail"]


def test_values_count_as_items_do(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    group = directory.add_group(parent=organizational_unit)
    path, members = f"/api/ad/groups/{group}?dryRun=true", [f"CN=nobody{number}" for number in range(60)]
    assert integration.patch(path, {"add": {"member": members[:9]}}).status != 429
    assert integration.patch(path, {"add": {"member": members}}).status != 429
    assert integration.patch(path, {"add": {"member": members}}).status == 429
