"""A superuser in the console and one thing of each kind for them to change, the directory's included."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID, uuid4

from django.urls import reverse
from django.utils import timezone

from approvals.models import ChangeRequest
from audit.models import OperationRecord, Outcome
from console.directory.selection import tasks
from core.call import SupervisionLevel
from core.operation import Effect, find_operation
from directory.models.filters_and_templates import ChangeTemplate
from directory.models.runs import AccountResult, AccountStatus, Run, RunState
from keys.sign_in import second_factor
from lab.directory import Directory, random_name
from tests.contracts.own_tables import World, contents
from tests.keys.authenticator import code_of
from tests.support.cast import make_integration


def changes() -> set[UUID]:
    """The records of what was done, so far: not those of reads, dry runs and refusals."""
    done = OperationRecord.objects.filter(outcome__in=(Outcome.SUCCEEDED, Outcome.PENDING))
    return {key for key, name in done.values_list("pk", "operation") if find_operation(name).effect is not Effect.READ}


@dataclass
class Site(World):
    """A superuser in the console, with one thing of each kind for them to change."""

    tree: Directory
    unit: str
    headers: Mapping[str, str] = field(default_factory=dict)
    known: set[UUID] = field(init=False)
    """The records of what was done before the last form."""

    @cached_property
    def ada(self) -> UUID:
        return self.tree.add_user("Ada Lovelace", parent=self.unit, password="Correct-Horse-9", title="Analyst")

    @cached_property
    def analysts(self) -> UUID:
        return self.tree.add_group(parent=self.unit)

    @cached_property
    def gone(self) -> UUID:
        user = self.tree.add_user(parent=self.unit)
        self.tree.delete(user)
        return user

    @cached_property
    def joined(self) -> UUID:
        """A group that Ada is a member of."""
        return self.tree.add_group(parent=self.unit, members=[self.ada])

    @cached_property
    def disabled(self) -> UUID:
        return self.tree.add_user(parent=self.unit, enabled=False)

    @cached_property
    def locked(self) -> UUID:
        self.tree.lock_out(self.ada)
        return self.ada

    @cached_property
    def record(self) -> UUID:
        """Of a change that can be reverted."""
        changed = self.console.patch(f"/rest/ad/users/{self.ada}", {"replace": {"title": ["Countess"]}})
        assert changed.status == 200, changed
        return OperationRecord.objects.get(operation="users.update").id

    @property
    def end(self) -> UUID:
        """Of a change that was made for a while."""
        user = self.tree.add_user(parent=self.unit)
        made = self.console.post(f"/rest/ad/users/{user}/disable", X_Revert_After="P1D")
        end = UUID(made.headers["Gateway-Scheduled-End"])
        ChangeRequest.objects.filter(id=end).update(made_at=timezone.now())
        return end

    @cached_property
    def stale(self) -> UUID:
        careful = make_integration(self.connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
        asked = careful.patch(f"/api/ad/users/{self.ada}", {"replace": {"title": ["Countess"]}})
        self.tree.modify(self.ada, title="Baroness")
        return UUID(asked.body["changeRequest"]["id"])

    @cached_property
    def failed_run(self) -> UUID:
        return self._run(AccountStatus.FAILED, {"code": "AD.Directory.Rejected", "detail": "The directory refused it."})

    @cached_property
    def done_run(self) -> UUID:
        return self._run(AccountStatus.SUCCEEDED)

    def _run(self, status: AccountStatus, problem: dict[str, str] | None = None) -> UUID:
        run = Run.objects.create(
            connection=self.connection,
            operation="organization-units.disable-accounts",
            action="disable",
            unit=self.tree.guid(self.unit),
            unit_dn=self.unit,
            accounts=[str(self.ada)],
            state=RunState.COMPLETED,
            person_id=self.console.person.pk,
            requester="grace",
            credential_kind="apiKey",
            credential_id="x",
            request_id="r",
        )
        AccountResult.objects.create(run=run, position=0, account=self.ada, status=status, problem=problem)
        return run.id

    def template(self) -> ChangeTemplate:
        return ChangeTemplate.objects.create(
            connection=self.connection, name=random_name("template"), occasion="leaver", account="disable"
        )

    def task(self, *, started: bool = False, done: bool = False) -> str:
        """Ada is disabled, previewed or as far as it says; the page of its task."""
        sent = self.submit("selection", chosen=str(self.ada), action="disable")
        place = str(sent.headers.get("Location") or sent["HX-Redirect"])
        self.console.get(place)
        for _ in range(started + done):
            self.console.submit(f"{place}/go")
        return place.rpartition("/")[2]

    def made_account(self) -> str:
        """A task that has made an account whose password nobody has seen yet."""
        step = tasks.Step("users.create", {"password": "Correct-Horse-9"}, "Ada", object_id=str(self.ada))
        step.outcome = "done"
        task = tasks.Task(title="Join?", confirm="Join", did="joined", steps=[step], then="/console/")
        task.id, task.person_id, task.directory_id = str(uuid4()), self.console.person.pk, str(self.connection.pk)
        tasks.save_task(task)
        return task.id

    def enrolled(self) -> str:
        """The secret of a second factor that is being set up."""
        second_factor.enrol(self.console.person)
        found = second_factor.find_enrolment(self.console.person)
        assert found is not None
        return found.secret

    def confirmed(self) -> str:
        """The next code of a second factor that is on."""
        secret = self.enrolled()
        self.console.submit("/console/account/second-factor/confirm", code=code_of(secret))
        return code_of(secret, steps=1)

    def version(self, path: str) -> str:
        return str(self.console.get(f"/rest/{path}").body["version"])

    def submit(self, name: str, arguments: Mapping[str, Any] | None = None, /, **fields: Any) -> Any:
        address = reverse(f"console:{name}", kwargs=dict(arguments or {}))
        return self.send(address, fields)

    def send(self, address: str, fields: Mapping[str, Any]) -> Any:
        self.before, self.known = contents(), changes()
        return self.console.client.post(
            address, {"csrfmiddlewaretoken": self.console.token, **fields}, headers=dict(self.headers)
        )
