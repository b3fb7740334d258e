"""A unit of the directory with its accounts, and the runs over it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from lab.directory import Directory
from tests.support.cast import Answer, Integration


@dataclass
class Unit:
    """One organizational unit; calls go over HTTP."""

    directory: Directory
    dn: str

    @property
    def id(self) -> UUID:
        return self.directory.guid(self.dn)

    def add_users(self, count: int, **fields: Any) -> list[UUID]:
        return [self.directory.add_user(parent=self.dn, **fields) for _ in range(count)]

    def plan(self, integration: Integration, query: str = "action=disable") -> Answer:
        return integration.get(f"/api/ad/organization-units/{self.id}/accounts/plan?{query}")

    def run(self, integration: Integration, body: Any, action: str = "disable", **headers: str) -> Answer:
        return integration.post(f"/api/ad/organization-units/{self.id}/accounts/{action}", body, **headers)

    def count_enabled(self, accounts: list[UUID]) -> int:
        return sum(self.directory.is_enabled(account) for account in accounts)
