"""`fields=`: the members of records that the caller names, in reads, lists and streams."""

import csv
import io
import json
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from django.test import Client

from audit.models import OperationRecord
from audit.read_buffer import reads
from gateway.surfaces.rendering import PARTIAL
from lab.directory import Directory
from tests.support.cast import Integration


def test_it_works(integration: Integration, directory: Directory, organizational_unit: str, ada: UUID) -> None:
    whole = integration.get(f"/api/ad/users/{ada}?attributes=title")
    some = {name: whole.body[name] for name in ("id", "account", "attributes")}
    one = "fields=attributes,id&fields=account&attributes=title"
    for path in (f"{ada}?", f"by-dn?dn={quote(directory.dn(ada))}&", f"by/sid/{whole.body['account']['sid']}?"):
        read = integration.get(f"/api/ad/users/{path}{one}")
        assert (read.body, read.headers["Content-Type"]) == (some, PARTIAL)
        assert read.headers["ETag"] == whole.headers["ETag"]
    assert integration.get(f"/api/ad/users/{ada}?{one}", If_None_Match=whole.headers["ETag"]).status == 304
    page = integration.get(f"/api/ad/users?base={quote(organizational_unit)}&{one}")
    assert (page.body["items"], page.body["total"]) == ([some], 1)
    reads.flush()
    assert OperationRecord.objects.filter(operation__startswith="users.read", target_id=ada).count() == 5


def test_streams(integration: Integration, organizational_unit: str, ada: UUID) -> None:
    path = f"/api/ad/users?base={quote(organizational_unit)}&fields=attributes,name&attributes=title"
    name = integration.get(f"/api/ad/users/{ada}").body["name"]

    def stream(accept: str) -> str:
        headers = {"X-API-Key": integration.value, "Accept": accept}
        response: Any = Client().get(path, headers=headers)
        return b"".join(response.streaming_content).decode()

    assert json.loads(stream("application/x-ndjson")) == {"name": name, "attributes": {"title": ["Analyst"]}}
    assert list(csv.reader(io.StringIO(stream("text/csv")))) == [["name", "title"], [name, "Analyst"]]


def test_a_member_that_has_to_be_asked_for(integration: Integration, ada: UUID) -> None:
    assert integration.get(f"/api/ad/users/{ada}?fields=manager").body == {"manager": None}


@pytest.mark.parametrize("name", ["displayName", "manager", "", "*", "ID"])
def test_refusals(integration: Integration, name: str) -> None:
    answer = integration.get(f"/api/ad/groups?fields=id,{name}")
    (error,) = answer.body["errors"]
    assert (answer.status, error["parameter"]) == (400, "fields")
    assert "only id, kind, name" in error["detail"]


def test_only_reads_of_objects_take_it(integration: Integration, ada: UUID) -> None:
    for answer in (
        integration.get("/api/operations?fields=id"),
        integration.post(f"/api/ad/users/{ada}/disable?fields=id"),
    ):
        assert answer.code == "Request.UnknownParameter"
