"""Reverting what makes, ends and moves objects."""

from uuid import UUID

from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.directory.changes.reverting import (
    NOT_REVERTIBLE,
    latest,
    refused,
    revert,
    succeeded,
)
from tests.support.cast import Integration, make_connection, make_integration


class TestCreatingAndDeleting:
    def test_a_create_is_reverted_by_a_delete(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        body = {"name": "New One", "parent": organizational_unit}
        created = UUID(succeeded(integration.post("/api/ad/users", body)).body["id"])
        made = latest(integration, target=created)
        assert made["reversible"] == "full"
        answer = succeeded(revert(integration, made))
        assert answer.body == {"reverts": made["id"], "operation": "users.delete", "object": None}
        assert not directory.exists(created)
        record = latest(integration, target=created)
        assert (record["operation"], record["reversible"]) == ("users.delete", "partial")
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

        succeeded(revert(integration, record))
        assert directory.exists(created)

    def test_as_a_delete_is_refused(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        body = {"name": "Inner", "parent": organizational_unit}
        unit = succeeded(integration.post("/api/ad/organization-units", body)).body
        made = latest(integration, target=unit["id"])
        directory.add_user(parent=unit["distinguishedName"])
        assert refused(revert(integration, made)) == (409, "AD.Object.NotEmpty")

    def test_a_delete_is_reverted_by_a_restore(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        group = directory.add_group(parent=organizational_unit, members=[ada])
        before, dn = directory.read(ada), directory.dn(ada)
        succeeded(integration.delete(f"/api/ad/users/{ada}"))
        made = latest(integration, target=ada)
        assert made["reversible"] == "partial"
        answer = succeeded(revert(integration, made))
        assert (answer.body["operation"], answer.body["object"]["distinguishedName"]) == ("deleted-objects.restore", dn)
        after = directory.read(ada)
        for name in ("objectSid", "title", "userAccountControl", "memberOf"):
            assert after[name] == before[name], name
        assert directory.members(group) == {dn}
        record = latest(integration, target=ada)
        assert (record["operation"], record["reversible"]) == ("deleted-objects.restore", "full")
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

        succeeded(integration.delete(f"/api/ad/users/{ada}"))
        again = revert(integration, made)
        assert refused(again) == NOT_REVERTIBLE, "that is another deletion"
        assert "deleted again" in again.body["detail"]

    def test_a_restore_is_reverted_by_a_delete(self, integration: Integration, ada: UUID, directory: Directory) -> None:
        directory.delete(ada)
        succeeded(integration.post(f"/api/ad/deleted-objects/{ada}/restore"))
        made = latest(integration, target=ada)
        assert succeeded(revert(integration, made)).body["operation"] == "users.delete"
        assert not directory.exists(ada)
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

    def test_the_place_is_taken(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        succeeded(integration.delete(f"/api/ad/users/{ada}"))
        made = latest(integration, target=ada)
        directory.add_user("Ada Lovelace", parent=organizational_unit)
        assert refused(revert(integration, made)) == (409, "AD.Object.AlreadyExists")


class TestTombstones:
    def test_a_delete_is_refilled(
        self, db: None, domain_without_recycle_bin: Domain, tombstone_directory: Directory
    ) -> None:
        integration = make_integration(make_connection(domain_without_recycle_bin))
        unit = tombstone_directory.add_unit(random_name("unit"))
        user = tombstone_directory.add_user(parent=unit, title="Analyst", mail="ada@corp.example.test")
        group = tombstone_directory.add_group(parent=unit, members=[user])
        succeeded(integration.delete(f"/api/ad/users/{user}"))
        made = latest(integration, target=user)
        succeeded(revert(integration, made))
        assert (tombstone_directory.text(user, "title"), tombstone_directory.text(user, "mail")) == (
            "Analyst",
            "ada@corp.example.test",
        )
        assert tombstone_directory.members(group) == {tombstone_directory.dn(user)}
        joined = latest(integration, target=group)
        assert (joined["operation"], joined["reversible"]) == ("groups.update", "full")
        succeeded(revert(integration, joined))
        assert not tombstone_directory.members(group)


class TestPlaces:
    def test_a_move(self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str) -> None:
        inner = directory.add_unit("Inner", parent=organizational_unit)
        before = directory.dn(ada)
        succeeded(integration.post(f"/api/ad/users/{ada}/move", {"parent": inner}))
        made = latest(integration, target=ada)
        assert made["reversible"] == "full"
        directory.rename(ada, "Countess")  # its name is not what the move was about
        assert succeeded(revert(integration, made)).body["operation"] == "users.move"
        assert directory.dn(ada) == before.replace("Ada Lovelace", "Countess")
        answer = revert(integration, made)
        assert refused(answer) == NOT_REVERTIBLE
        assert answer.body["differences"][0]["current"] == [directory.dn(ada)]

    def test_a_move_from_where_nothing_is_any_more(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        inner = directory.add_unit("Inner", parent=organizational_unit)
        user = directory.add_user(parent=inner)
        succeeded(integration.post(f"/api/ad/users/{user}/move", {"parent": organizational_unit}))
        made = latest(integration, target=user)
        directory.delete(inner)
        assert refused(revert(integration, made)) == NOT_REVERTIBLE

    def test_a_rename(
        self, integration: Integration, ada: UUID, directory: Directory, organizational_unit: str
    ) -> None:
        succeeded(integration.post(f"/api/ad/users/{ada}/rename", {"name": "Lovelace, Ada"}))
        made = latest(integration, target=ada)
        inner = directory.add_unit("Inner", parent=organizational_unit)
        directory.move(ada, parent=inner)
        assert succeeded(revert(integration, made)).body["operation"] == "users.rename"
        assert directory.dn(ada) == f"CN=Ada Lovelace,{inner}"
        assert refused(revert(integration, made)) == NOT_REVERTIBLE
