"""Input shapes: what a timestamp is."""

from datetime import UTC, datetime

import pytest

from core.errors import InvalidRequest
from core.shapes import Body, Timestamp, load_body


class Moment(Body):
    at: Timestamp


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31t12:00:00z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5+23:59", datetime(2026, 1, 30, 12, 1, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T12:00:00.123456789-00:00", datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime.min.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_a_timestamp_is_read(text: str, moment: datetime) -> None:
    assert load_body(Moment, {"at": text}).at == moment


@pytest.mark.parametrize(
    "text",
    [
        "2026-W01-1T00:00:00+00:00",
        "2026-031T12:00:00+00:00",
        "20260131T120000+00:00",
        "2026-01-31T12:00+00:00",
        "2026-01-31T12+00:00",
        "2026-01-31 12:00:00Z",
        "2026-01-31T12:00:00+00:00:30",
        "2026-01-31T12:00:00+0000",
        "2026-01-31T12:00:00+24:00",
        "2026-01-31T12:00:00+00:99",
        "2026-01-31T12:00:00,5Z",
        "2026-01-31T12:00:00",
        "2026-01-31T24:00:00Z",
        "2026-02-30T12:00:00Z",
        "0000-01-01T00:00:00Z",
        "２０２６-01-31T12:00:00Z",
        "2026-01-31T12:00:00Z\n",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "",
        1_769_860_800,
        None,
    ],
)
def test_what_is_no_timestamp(text: object) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        load_body(Moment, {"at": text})
    assert [error.pointer for error in refusal.value.errors] == ["#/at"]
