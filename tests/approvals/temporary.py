"""What the tests of changes for later and for a while share: a group to lend memberships of, and time that passes."""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from approvals.models import ChangeRequest
from core.database import shared_clock
from core.shapes import render_timestamp
from lab.directory import Directory
from tests.support.cast import Answer, Integration

Later = Callable[..., None]


def in_time(**time: float) -> str:
    return render_timestamp(shared_clock.now() + timedelta(**time)) or ""


def give(by: Integration, group: UUID, *members: UUID, **headers: str) -> Answer:
    return by.post(f"/api/ad/groups/{group}/members", {"add": [str(member) for member in members]}, **headers)


def end_of(answer: Answer) -> ChangeRequest:
    return ChangeRequest.objects.get(id=answer.headers["Gateway-Scheduled-End"])


class Place:
    """A group and users in a unit of their own."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self._directory, self.unit = directory, unit
        self.group = directory.add_group(parent=unit)

    def name_of(self, user: UUID) -> str:
        return self._directory.dn(user)

    def user(self) -> UUID:
        return self._directory.add_user(parent=self.unit)

    def remove(self, member: UUID) -> None:
        """Somebody else takes a member away."""
        self._directory.remove_values(self.group, member=self.name_of(member))

    def members(self) -> set[UUID]:
        return {self._directory.guid(name) for name in self._directory.members(self.group)}
