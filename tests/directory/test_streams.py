"""Whole results as NDJSON and CSV: what Accept asks for, what is written, memory, and streams that break off."""

import csv
import io
import json
import re
import tracemalloc
import unicodedata
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import active_directory
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.operation import operations
from directory.errors import Unavailable
from directory.queries.searches import search
from gateway.surfaces import rendering
from gateway.surfaces.rendering import without_formulas
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import Integration, make_connection, make_integration

NDJSON, CSV = "application/x-ndjson", "text/csv"


class Received:
    """A response read to its end."""

    def __init__(self, response: Any) -> None:
        self.status = response.status_code
        self.type = response.headers["Content-Type"]
        self.is_streaming = response.streaming
        self.text = (b"".join(response.streaming_content) if response.streaming else response.content).decode()

    @property
    def records(self) -> list[dict[str, Any]]:
        assert self.status == 200, self.text
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def rows(self) -> list[dict[str, str]]:
        assert self.status == 200, self.text
        return list(csv.DictReader(io.StringIO(self.text, newline=""), strict=True))

    @property
    def problem(self) -> dict[str, Any]:
        problem: dict[str, Any] = json.loads(self.text)
        return problem


def fetch(
    integration: Integration, accept: str, resource: str = "users", method: str = "GET", **parameters: Any
) -> Received:
    response = integration.client.generic(
        method,
        f"/api/ad/{resource}?{urlencode(parameters)}",
        headers={"X-API-Key": integration.value, "Accept": accept},
    )
    return Received(response)


def fill(directory: Directory, unit: str, count: int) -> set[str]:
    return {
        str(directory.add_user(f"User {number:04}", parent=unit, sn=f"Name {number % 7}")) for number in range(count)
    }


def test_it_works(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    ids = fill(directory, organizational_unit, 5)
    page = fetch(integration, "application/json", base=organizational_unit).problem["items"]
    lines = fetch(integration, NDJSON, base=organizational_unit)
    assert (lines.type, lines.is_streaming) == (NDJSON, True)
    assert sorted(lines.records, key=lambda item: item["id"]) == sorted(page, key=lambda item: item["id"])
    assert lines.text.endswith("}\n")
    table = fetch(integration, CSV, base=organizational_unit)
    assert table.type.startswith("text/csv")
    assert {row["id"] for row in table.rows} == ids
    header = table.text.partition("\r\n")[0]
    assert header.startswith("id,kind,name,distinguishedName,parentId,")
    assert ",account.enabled," in header
    assert "group.scope" not in header
    assert header.endswith(",title")


@pytest.mark.parametrize("sort", [None, "name", "-sn"])
def test_many_come_once_and_in_order(
    integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: Any, sort: str | None
) -> None:
    monkeypatch.setattr("directory.queries.searches.search._MAX_PART", 7)
    ids = fill(directory, organizational_unit, 30)
    given = {"base": organizational_unit, "attributes": "sn", **({"sort": sort} if sort else {})}
    records = fetch(integration, NDJSON, **given).records
    assert sorted(item["id"] for item in records) == sorted(ids)
    if sort is not None:
        pages = fetch(integration, "application/json", **given).problem["items"]
        assert [item["id"] for item in records] == [item["id"] for item in pages]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("image/png", "application/json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        (NDJSON, NDJSON),
        ("Application/X-NDJSON ; charset=utf-8", NDJSON),
        (CSV, CSV),
        ("text/*", CSV),
        (f"{CSV}, */*;q=0.1", CSV),
        (f"{CSV};q=0.5, {NDJSON};q=0.9", NDJSON),
        (f"{NDJSON};q=0, */*", "application/json"),
        (f"{NDJSON}, application/json", "application/json"),
        (f"{NDJSON};q=0.2, application/json;q=0.1", NDJSON),
        (f"{CSV};q=nonsense", "application/json"),
    ],
)
def test_accept(integration: Integration, organizational_unit: str, accept: str, expected: str) -> None:
    assert fetch(integration, accept, base=organizational_unit).type.partition(";")[0] == expected


def test_head(integration: Integration, organizational_unit: str) -> None:
    answer = fetch(integration, NDJSON, method="HEAD", base=organizational_unit)
    assert (answer.status, answer.type, answer.text) == (200, NDJSON, "")


def test_only_lists_of_directory_objects_are_streamed(integration: Integration, ada: Any) -> None:
    streamed = {item.name for item in operations() if rendering.record_shape(item.output) is not None}
    assert {"users.search", "groups.search", "objects.search", "accounts.search"} <= streamed
    assert not streamed & {"operations.list", "users.read", "api-keys.list"}
    assert fetch(integration, NDJSON, resource=f"users/{ada}").type == "application/json"


def test_every_stream_is_one(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    """Whatever lists directory objects goes through the search that streams."""
    objects = {
        "groups": directory.add_group("Streamed group", parent=organizational_unit),
        "computers": directory.add_computer(parent=organizational_unit),
        "organization-units": directory.guid(organizational_unit),
    }
    user = directory.add_user("Streamed user", parent=organizational_unit)
    needed = {"accounts.search": {"state": "enabled"}}
    for item in operations():
        if rendering.record_shape(item.output) is None or not item.names_object:
            continue
        if item.path.startswith("ad/saved-filters/"):
            continue
        path = item.path.replace("{id}", str(objects.get(item.resource, user))).removeprefix("ad/")
        answer = fetch(integration, NDJSON, resource=path, **needed.get(item.name, {}))
        assert (item.name, answer.status, answer.type) == (item.name, 200, NDJSON)


@pytest.mark.parametrize(
    ("parameters", "parameter", "code"),
    [
        ({"pageSize": 5}, "pageSize", "Request.Invalid"),
        ({"cursor": "x"}, "cursor", "Request.Invalid"),
        ({"sort": "unicodePwd"}, "sort", "AD.Attributes.NotReadable"),
        ({"filter": "(name=x"}, "filter", "AD.Filter.Malformed"),
        ({"colour": "red"}, "colour", "Request.UnknownParameter"),
    ],
)
def test_what_is_refused(integration: Integration, parameters: dict[str, Any], parameter: str, code: str) -> None:
    for accept in (NDJSON, CSV):
        answer = fetch(integration, accept, **parameters)
        assert (answer.status, answer.type, answer.problem["code"]) == (400, "application/problem+json", code)
        assert answer.problem["errors"][0]["parameter"] == parameter


def test_columns_must_be_known(integration: Integration, organizational_unit: str) -> None:
    answer = fetch(integration, CSV, attributes="*", base=organizational_unit)
    assert (answer.status, answer.problem["errors"][0]["parameter"]) == (400, "attributes")
    assert fetch(integration, NDJSON, attributes="*", base=organizational_unit).status == 200


def test_no_permission_no_stream(connection: Any) -> None:
    answer = fetch(make_integration(connection, may=["directory.create_user"]), NDJSON)
    assert (answer.status, answer.problem["code"]) == (403, "Auth.Forbidden")


def test_scopes_confine_streams(connection: Any, directory: Directory, organizational_unit: str) -> None:
    inner = directory.add_unit("Inner", parent=organizational_unit)
    directory.add_user("Outside", parent=organizational_unit)
    directory.add_user("Inside", parent=inner)
    confined = make_integration(connection, scopes=[directory.guid(inner)])
    assert [item["name"] for item in fetch(confined, NDJSON).records] == ["Inside"]
    assert [row["name"] for row in fetch(confined, CSV, base=organizational_unit).rows] == ["Inside"]


@pytest.mark.parametrize("text", ["=1+1", "+49 30 5", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_no_cell_is_run_by_a_spreadsheet(
    integration: Integration, directory: Directory, organizational_unit: str, text: str
) -> None:
    directory.add_user("Formula", parent=organizational_unit, info=text, title='say "x", y')
    (row,) = fetch(integration, CSV, base=organizational_unit, attributes="info,title").rows
    assert row["info"] == f"'{text}"
    assert row["title"] == 'say "x", y'
    (record,) = fetch(integration, NDJSON, base=organizational_unit, attributes="info").records
    assert record["attributes"]["info"] == [text]


def test_cells(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    directory.add_user(
        "Cells",
        parent=organizational_unit,
        otherTelephone=["1;x", "2\\"],
        streetAddress="Main\r\nStreet; rear",
        enabled=False,
    )
    names = "otherTelephone,streetAddress,sn,name"
    answer = fetch(integration, CSV, base=organizational_unit, attributes=names)
    (row,) = answer.rows
    assert row["otherTelephone"] in ("1\\;x;2\\\\", "2\\\\;1\\;x")
    assert row["streetAddress"] == "Main\r\nStreet; rear"
    assert row["sn"] == ""
    assert (row["account.enabled"], row["protected"], row["account.expiresAt"]) == ("false", "false", "")
    assert row["objectClass"] == "top;person;organizationalPerson;user"
    assert answer.text.partition("\r\n")[0].split(",").count("name") == 1


def test_what_a_search_adds_is_a_column(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    directory.add_user("Off", parent=organizational_unit, enabled=False)
    (row,) = fetch(integration, CSV, resource="accounts", state="disabled", base=organizational_unit).rows
    assert json.loads(row["evidence"])[0]["attribute"] == "userAccountControl"


def test_it_is_recorded(integration: Integration, organizational_unit: str) -> None:
    fetch(integration, NDJSON, base=organizational_unit)
    reads.flush()
    assert OperationRecord.objects.filter(operation="users.search", outcome="succeeded").count() == 1


def test_a_directory_that_is_down_is_a_problem(db: None, domain: Domain) -> None:
    answer = fetch(make_integration(make_connection(domain, url="ldaps://127.0.33.250")), CSV)
    assert (answer.status, answer.type) == (503, "application/problem+json")
    assert answer.problem["code"] == "AD.Directory.Unavailable"


def test_large_records_are_read_fewer_at_a_time(
    integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: Any
) -> None:
    for number in range(12):
        directory.add_user(parent=organizational_unit, info="x" * (1000 if number % 2 else 900))
    monkeypatch.setattr("directory.queries.searches.search._MAX_PART", 4)
    monkeypatch.setattr("directory.queries.searches.search._PART_OCTETS", 2600)
    monkeypatch.setattr("gateway.surfaces.rendering._BLOCK_SIZE", 700)
    real, counts = search._SearchRun._entries, []

    def counting(running: Any, guids: Any) -> Any:
        counts.append(len(guids))
        return real(running, guids)

    monkeypatch.setattr(search._SearchRun, "_entries", counting)
    given = {"base": organizational_unit, "attributes": "info"}
    response: Any = integration.client.get(
        f"/api/ad/users?{urlencode(given)}", headers={"X-API-Key": integration.value, "Accept": NDJSON}
    )
    blocks = list(response.streaming_content)
    assert len(b"".join(blocks).splitlines()) == 12
    assert max(map(len, blocks)) == 700
    assert (counts[0], set(counts[1:]) <= {1, 2}, sum(counts)) == (4, True, 12)


@pytest.mark.parametrize("accept", [NDJSON, CSV])
def test_a_stream_that_breaks_off_does_not_look_complete(
    integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: Any, accept: str
) -> None:
    fill(directory, organizational_unit, 6)
    monkeypatch.setattr("directory.queries.searches.search._MAX_PART", 2)
    begin, begun = active_directory.run_in_background, []

    def fail() -> Any:
        raise Unavailable

    def beginning(read: Any, name: str) -> Any:
        begun.append(name)
        return begin(fail if len(begun) == 3 else read, name)

    monkeypatch.setattr(search, "run_in_background", beginning)
    answer = fetch(integration, accept, base=organizational_unit)
    assert answer.status == 200
    last = answer.text.splitlines()[-1]
    assert "AD.Directory.Unavailable" in last
    assert not answer.text.endswith("\n")
    if accept == NDJSON:
        assert len(answer.text.splitlines()) == 5
        with pytest.raises(json.JSONDecodeError):
            json.loads(last)
    else:
        with pytest.raises(csv.Error):
            list(csv.reader(io.StringIO(answer.text, newline=""), strict=True))
    reads.flush()
    failed = OperationRecord.objects.get(operation="users.search", outcome="failed")
    assert failed.code == "AD.Directory.Unavailable"
    assert not rendering._open_streams


def test_streams_leave_threads_for_others(integration: Integration, organizational_unit: str, monkeypatch: Any) -> None:
    begun: list[Any] = []
    others = [make_integration(integration.key.links.get().connection) for _ in range(2)]
    for key in (integration, others[0]):
        for _ in range(rendering._MAX_STREAMS_PER_CREDENTIAL):
            response = key.client.generic(
                "GET",
                f"/api/ad/users?{urlencode({'base': organizational_unit})}",
                headers={"X-API-Key": key.value, "Accept": NDJSON},
            )
            begun.append(response)
        refused = fetch(key, NDJSON, base=organizational_unit)
        assert (refused.status, refused.problem["code"]) == (429, "RateLimit.Exceeded")
    refused = fetch(others[1], NDJSON, base=organizational_unit)
    assert (refused.status, refused.problem["code"]) == (503, "Service.Unavailable")
    assert fetch(integration, "*/*", base=organizational_unit).status == 200
    for answer in begun:
        b"".join(answer.streaming_content)
    assert fetch(integration, NDJSON, base=organizational_unit).status == 200


def test_memory_does_not_grow_with_the_result(
    integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: Any
) -> None:
    """Traced: what is allocated while 400 users are streamed ten at a time, and all at once."""
    fill(directory, organizational_unit, 400)
    peaks = []
    for at_once in (10, 10, 10, 400):  # the first one fills caches
        monkeypatch.setattr("directory.queries.searches.search._FIRST_PART", at_once)
        monkeypatch.setattr("directory.queries.searches.search._MAX_PART", at_once)
        tracemalloc.start()
        response: Any = integration.client.generic(
            "GET",
            f"/api/ad/users?{urlencode({'base': organizational_unit})}",
            headers={"X-API-Key": integration.value, "Accept": NDJSON},
        )
        lines = sum(part.count(b"\n") for part in response.streaming_content)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert lines == 400
    # Of all users only identifiers and names are held; what else runs in this process is counted, too, now and then.
    assert min(peaks[1:3]) < peaks[3] / 4


_BREAKS = st.sampled_from(["", ";", "\t", "\r", "\n", "\r\n", "\v", "\f", "\x85", "\u2028", "; ", '\n"', "\t\ufeff"])
_LEADS = st.sampled_from(["", " ", "\u00a0", "\u3000", "\u200b", "\ufeff", '"', "'", "\x00", "  "])
_SIGNS = [chr(code) for code in range(0x10000) if unicodedata.normalize("NFKC", chr(code))[:1] in set("=+-@")]
_CELLS = st.lists(
    st.tuples(_BREAKS, _LEADS, st.sampled_from(_SIGNS) | st.just(""), st.text("ab1;,=-' \n", max_size=6)),
    min_size=1,
    max_size=5,
).map(lambda parts: "".join("".join(part) for part in parts))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(_CELLS)
def test_no_cell_holds_what_a_spreadsheet_runs(text: str) -> None:
    """Whatever a reader takes for separators, and whatever it skips in front of a value."""
    made = without_formulas(text)
    for piece in re.split("[;\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]", made):
        bare = piece.lstrip(' \x00\xa0\u1680\u2000\u200b\u3000\ufeff"')
        assert not unicodedata.normalize("NFKC", bare).startswith(("=", "+", "-", "@")), made
    assert not made.startswith(("\t", "\r", "\n"))
    assert made.replace("'", "") == text.replace("'", "")


@pytest.mark.parametrize("text", ["", "Ada", "a=b", "a;b", "1-2", "x@y.z", "CN=Ada,DC=corp", "two\nlines", "a, +b"])
def test_what_nobody_runs_stays_as_it_is(text: str) -> None:
    assert without_formulas(text) == text


def test_joined_and_broken_values(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    directory.add_user(
        "Eve", parent=organizational_unit, otherTelephone=["1", "=2"], info="note\n+3", physicalDeliveryOfficeName="＝4"
    )
    names = "otherTelephone,info,physicalDeliveryOfficeName"
    (row,) = fetch(integration, CSV, base=organizational_unit, attributes=names).rows
    assert row["otherTelephone"] in ("1;'=2", "'=2;1")
    assert (row["info"], row["physicalDeliveryOfficeName"]) == ("note\n'+3", "'＝4")
