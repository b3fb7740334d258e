"""Enabling, disabling and unlocking one account."""

from uuid import UUID

import pytest

from audit.models import OperationRecord
from lab.directory import Directory
from tests.support.cast import Integration


def records() -> int:
    return OperationRecord.objects.exclude(operation__endswith=".read").count()


@pytest.mark.parametrize("resource", ["users", "computers"])
def test_it_works(integration: Integration, directory: Directory, organizational_unit: str, resource: str) -> None:
    add = directory.add_user if resource == "users" else directory.add_computer
    guid = add(parent=organizational_unit)
    directory.modify(guid, userAccountControl=str(int(directory.text(guid, "userAccountControl") or 0) | 0x10000))
    answer = integration.post(f"/api/ad/{resource}/{guid}/disable")
    assert (answer.status, answer.body["account"]["enabled"]) == (200, False)
    assert not directory.is_enabled(guid)
    assert integration.post(f"/api/ad/{resource}/{guid}/enable").body["account"]["enabled"] is True
    assert directory.is_enabled(guid)
    assert int(directory.text(guid, "userAccountControl") or 0) & 0x10020 == 0x10020  # other bits are kept


def test_nothing_to_do_is_no_change(integration: Integration, ada: UUID) -> None:
    before = integration.get(f"/api/ad/users/{ada}").body["version"]
    for action in ("enable", "unlock"):
        answer = integration.post(f"/api/ad/users/{ada}/{action}")
        assert (answer.status, answer.body["version"]) == (200, before)
    assert records() == 0


def test_unlock(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    guid = directory.add_user(parent=organizational_unit, password="Correct-Horse-9")
    threshold = directory.text(directory.base_dn, "lockoutThreshold")
    directory.modify(directory.base_dn, lockoutThreshold="2")
    try:
        for _ in range(3):
            assert not directory.can_sign_in(guid, "wrong")
        assert integration.get(f"/api/ad/users/{guid}").body["account"]["lockedOut"] is True
        answer = integration.post(f"/api/ad/users/{guid}/unlock")
        assert (answer.status, answer.body["account"]["lockedOut"]) == (200, False)
        assert directory.can_sign_in(guid, "Correct-Horse-9")
    finally:
        directory.modify(directory.base_dn, lockoutThreshold=threshold or "0")


def test_a_group_has_no_account(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    group = directory.add_group(parent=organizational_unit)
    assert integration.post(f"/api/ad/users/{group}/disable").status == 404
    assert integration.post(f"/api/ad/groups/{group}/disable").status == 404
