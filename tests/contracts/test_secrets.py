"""One list of what is secret: each place that hides secrets knows all of it, and so will the next name on it."""

import re
from typing import Any

import pytest
from pydantic import TypeAdapter

from active_directory import CREDENTIAL_ATTRIBUTES
from approvals.supervision import security_meaning
from audit.redact import SECRET, redacted
from core.operation import Effect, operations
from directory.changes.revert import can_be_put_back
from directory.shapes.proposal import AttributeChange
from gateway.monitoring import logs
from gateway.pipeline.replay import SECRET_MEMBERS
from lab.directory import Directory
from tests.support.cast import Integration

NAMES = sorted({*CREDENTIAL_ATTRIBUTES, "mslaps-encryptedpassword", "userpassword;x-old"})


@pytest.mark.parametrize("name", NAMES)
def test_nobody_is_told_a_credential(name: str) -> None:
    [kept] = redacted([{"attribute": name, "before": ["old"], "after": ["new"]}])
    assert (kept["before"], kept["after"]) == ([SECRET], [SECRET])
    assert logs._hide_secrets(None, "info", {"event": "x", name: "new"})[name] == SECRET
    assert security_meaning(name) == "a credential"
    assert not can_be_put_back(AttributeChange(name, ("old",), ("new",)))


def test_no_credential_is_read_or_written(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    for name in NAMES:
        for query in (f"attributes={name}", f"sort={name}", f"filter=({name}=*)"):
            answer = integration.get(f"/api/ad/users?base={organizational_unit}&{query}")
            assert (answer.status, answer.code) == (400, "AD.Attributes.NotReadable"), query
        answer = integration.patch(f"/api/ad/users/{user}", {"replace": {name: "x"}})
        assert (answer.status, answer.code) == (400, "AD.Attributes.NotWritable"), name


def test_no_answer_with_a_secret_is_kept() -> None:
    """A kept answer has null for the members that are secret; whatever reads like one has to be among them."""
    suspicious = re.compile(r"(password|secret|token|value|codes)$", re.IGNORECASE)
    for operation in operations():
        if operation.effect is not Effect.READ and operation.output is not None:
            found = {name for name in _members(operation.output) if suspicious.search(name)}
            assert found <= set(SECRET_MEMBERS), operation.name


def _members(shape: Any) -> set[str]:
    """The members of an answer that are texts."""
    schema = TypeAdapter(shape).json_schema()
    if "$ref" in schema:
        schema = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    return {
        name
        for name, member in schema.get("properties", {}).items()
        if any(choice.get("type") == "string" for choice in member.get("anyOf", [member]))
    }
