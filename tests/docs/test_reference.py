"""The tables of docs/ that are made from the code."""

import re
import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from approvals.models import Status
from audit.models import OPEN_OUTCOMES, Outcome
from audit.webhooks.events import EXCEEDED_BUDGET, USED_BREAK_GLASS, all_events
from core.configuration import VARIABLES
from core.configuration_sections import Configuration
from gateway.management import reference
from gateway.management.commands import check_docs
from lab.commands import PROJECT

OF_TESTS = {"GATEWAY_TEST_DATABASE", "GATEWAY_SCREENSHOTS"}
"""Variables that only the tests read."""

PAGE = (PROJECT / "docs" / "configuration.md").read_text("utf-8")
SETTINGS = PAGE.partition("## Settings")[2]


def test_the_tables_are_those_of_this_code() -> None:
    call_command("check_docs")


def test_a_page_that_differs_is_named_and_can_be_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reference, check_docs):
        monkeypatch.setattr(module, "DOCS", tmp_path)
    for page, _ in reference.TABLES:
        shutil.copy(PROJECT / "docs" / page, tmp_path)
    changed = tmp_path / "events.md"
    changed.write_text(changed.read_text("utf-8").replace("`operation.succeeded` |", "`operation.done` |"), "utf-8")
    with pytest.raises(CommandError, match=r"docs/events\.md differs"):
        call_command("check_docs")
    call_command("check_docs", write=True)
    assert changed.read_text("utf-8") == (PROJECT / "docs" / "events.md").read_text("utf-8")


@pytest.mark.parametrize("section", Configuration.model_fields)
def test_every_setting_is_documented(section: str) -> None:
    for key, field in type(getattr(Configuration(), section)).model_fields.items():
        line = next((line for line in SETTINGS.splitlines() if line.startswith(f"| `{section}:{key}` |")), None)
        assert line is not None, f"{section}:{key} is not in docs/configuration.md"
        _, default, meaning = (cell.strip() for cell in line.strip("|").split(" | "))
        assert default, f"{section}:{key} has no default there"
        assert field.description, f"{section}:{key} has no description"
        assert meaning == field.description


def test_every_variable_of_the_environment_is_documented() -> None:
    named = set(VARIABLES) - OF_TESTS
    for module in ("gateway/settings.py", "core/deployment.py"):
        text = (PROJECT / module).read_text("utf-8")
        named |= set(re.findall(r'"((?:GATEWAY|EMAIL|DATABASE|REDIS|DEFAULT_FROM)_[A-Z_]+)"', text))
    named -= {"EMAIL_BACKEND"}  # follows from the others
    assert [name for name in sorted(named) if f"`{name}`" not in PAGE] == []


def test_the_events_are_those_that_can_be_sent() -> None:
    ended = {f"operation.{outcome}" for outcome in Outcome if outcome not in OPEN_OUTCOMES}
    scheduled = {Status.SCHEDULED, Status.OVERDUE, Status.SUPERSEDED}
    requests = {f"change-request.{status}" for status in {*Status} - scheduled}
    changes = {f"change.{word}" for word in (*scheduled, "reverted", "revert.due")}
    others = {EXCEEDED_BUDGET.name, USED_BREAK_GLASS.name}
    assert {event.name for event in all_events()} == ended | requests | changes | others
