"""The whole log wiped, or its end, by somebody who may do everything in the database: the checkpoint reveals it."""

import json
import stat
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import override_settings
from redis import Redis

from audit import log
from audit.chain import checkpoint, sealing
from audit.models import LogSeal
from tests.audit.calls import CALL
from tests.audit.chain.sealed_log import cut_off, fill, verify
from tests.audit.chain.test_seals import Thief
from tests.console.pages import text_of
from tests.support.cast import Console, make_person

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("guards_come_back"),
    pytest.mark.sqlite,
]


def file() -> Path:
    return Path(settings.DATA_DIR) / "log-mark"


def redis() -> Redis:
    return Redis.from_url(settings.REDIS_URL)


def wipe(*, after: int = 0) -> None:
    Thief(seed=1)
    cut_off(after=after)


def shown() -> tuple[Any, str]:
    """What the state of the chain says, to programs and to people."""
    console = Console(make_person(may=["audit.read_log"]))
    return console.get("/rest/operations/chain").body["missing"], text_of(console.get("/console/log/"))


def test_a_whole_log_stands_as_marked() -> None:
    fill(3)
    newest = LogSeal.objects.latest("number")
    found = checkpoint.find_checkpoint()
    assert (found["seal"], found["records"], found["mac"]) == (newest.number, newest.records, newest.mac)
    assert stat.S_IMODE(file().stat().st_mode) == 0o600
    assert "as it was written" in verify()
    assert shown()[0] is None


@pytest.mark.parametrize("kept", ["file and Redis", "file", "Redis"])
def test_a_log_that_was_wiped_is_missed(kept: str) -> None:
    fill(4)
    sealed = LogSeal.objects.latest("number")
    if kept == "file":
        redis().flushall()
    if kept == "Redis":
        file().unlink()
    wipe()
    told = f"p to {sealed.records} records are missing: it was sealed up to seal {sealed.number}"
    with pytest.raises(CommandError, match=told):
        verify()
    missing, page = shown()
    assert missing.startswith(f"u{told}")
    assert told in page
    assert "Sealed" not in page.partition(told)[0][-60:]


def test_an_end_that_was_cut_off_is_missed() -> None:
    fill(2)
    left = LogSeal.objects.latest("number")
    fill(3)
    marked = checkpoint.find_checkpoint()
    wipe(after=left.number)
    told = f"{marked['records'] - left.records} records are missing: .* and ends with seal {left.number}"
    with pytest.raises(CommandError, match=told):
        verify()


def test_a_log_that_goes_on_after_it_was_wiped_does_not_cover_it() -> None:
    fill(2)
    marked = checkpoint.find_checkpoint()
    wipe()
    for changes in (1, 1, 4):
        fill(changes)
        assert checkpoint.find_checkpoint() == marked
        with pytest.raises(CommandError, match=r"made anew|are missing"):
            verify()
    assert LogSeal.objects.latest("number").number > marked["seal"]
    assert "made anew" in shown()[0]


def test_nothing_is_removed_from_a_log_that_was_cut() -> None:
    fill(2)
    wipe()
    with pytest.raises(CommandError, match="records are missing"):
        call_command("expire_operations_log", "--before=2021-06")


@pytest.mark.parametrize(
    "forged", ["{}", "[]", "x", "\ud800", '{"seal": 0, "records": 0, "mac": "", "sealedAt": "", "code": ""}']
)
def test_a_mark_that_is_not_the_gateways_counts_for_nothing(forged: str) -> None:
    fill(2)
    marked = checkpoint.find_checkpoint()
    wipe()
    file().write_bytes(forged.encode("utf-8", "surrogatepass"))
    assert checkpoint.find_checkpoint() == marked, "the one in Redis"
    redis().set(checkpoint._KEY, forged.encode("utf-8", "surrogatepass"))
    assert checkpoint.find_checkpoint() is None


def test_a_mark_put_back_to_an_earlier_one_is_none_where_the_other_is_left() -> None:
    fill(1)
    earlier = file().read_bytes()
    fill(3)
    latest = checkpoint.find_checkpoint()
    file().write_bytes(earlier)
    assert checkpoint.find_checkpoint() == latest
    changed = json.loads(earlier) | {"seal": 99}
    file().write_text(json.dumps(changed))
    assert checkpoint.find_checkpoint() == latest


def test_without_redis_or_a_folder_to_write_to_the_log_is_sealed_all_the_same(tmp_path: Path) -> None:
    with override_settings(DATA_DIR=tmp_path / "missing", REDIS_URL="unix:///nowhere/redis.sock"):
        fill(2)
        assert checkpoint.find_checkpoint() is None
        assert "as it was written" in verify()


def test_the_end_of_a_restored_database_is_accepted_when_said_so() -> None:
    fill(1)
    left = LogSeal.objects.latest("number").number
    fill(2)
    wipe(after=left)
    out = StringIO()
    call_command("verify_operations_log", restored=True, stdout=out)
    assert "Accepted: up to 5 records are missing" in out.getvalue()
    assert "as it was written" in out.getvalue()
    assert shown()[0] is None
    log.record_intent(CALL, log.Intent(operation="users.update"))
    sealing.seal_records()
    assert checkpoint.find_checkpoint()["seal"] == left + 1
    wipe()
    call_command("verify_operations_log", restored=True, stdout=out)
    assert checkpoint.find_checkpoint() is None
