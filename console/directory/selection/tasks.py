"""Tasks: several changes made together, with the preview and the outcome of each.

The cache keeps a task for a day, encrypted. Losing it loses nothing: the operations log has every change that was made,
with the task's id as request id.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import groupby
from typing import Any
from uuid import UUID, uuid4

from django.core.cache import cache
from django.utils.translation import gettext as _
from pydantic import TypeAdapter
from redis import RedisError

from audit.log import NOT_APPLIED
from audit.models import OPEN_OUTCOMES, Outcome
from console.directory.objects.changes import shorten_values
from console.page_context import PageContext
from console.shared.texts import error_title
from core.errors import Conflict, NotFound, ServiceUnavailable
from core.operation import Risk, find_operation
from core.secrets.encryption import UndecryptableSecret, decrypt, encrypt
from directory.errors import OutcomeUnknown
from gateway.pipeline import Answer
from gateway.pipeline.batches import execute_batch
from gateway.surfaces.problems import error_of
from keys.authentication import check_reason

CHUNK = 20
"""Changes made by one request; the page shows the progress in between."""
_EFFECTS = ("change", "none", "refused")
_OUTCOMES = ("done", "waiting", "late", "failed")
_MAX_VALUES = 20
_KEPT_FOR = timedelta(days=1)
_LOCKED_FOR = timedelta(minutes=5)
"""How long a request may work on a task before another takes over, since a killed one never unlocks it. It is long
because several changes in a row may wait for a domain controller that does not answer."""


@dataclass(slots=True)
class Step:
    """One change: an operation with its whole input, the name and place of its object, and a description (`says`).

    `member_from` is the index of the step that creates a further member for this step's group. `effect` is the result
    of the preview: "change", "none" (nothing to change) or "refused". `outcome` is empty at first, then "done",
    "waiting" (for approval of `request_id`), "late" (the domain controller has not answered yet; `record_id` is the log
    record) or "failed". `problem` says why it is refused or has failed.
    """

    operation: str
    document: dict[str, Any]
    name: str
    place: str = ""
    object_id: str | None = None
    says: str = ""
    member_from: int | None = None
    effect: str = ""
    risk: str = ""
    changes: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    outcome: str = ""
    problem: str = ""
    record_id: str | None = None
    request_id: str | None = None


@dataclass(slots=True, kw_only=True)
class Task:
    """Several changes with one title and one reason, undone together.

    `title` is a question. The button says `confirm` for one change and `confirm_many` for several (`{}` is their
    number). `did` is said when all are done. `left_out` are the names of objects that it does not fit, each with the
    reason. `then` is the page where it was started.
    """

    title: str
    confirm: str
    did: str
    steps: list[Step]
    then: str
    confirm_many: str = ""
    left_out: list[tuple[str, str]] = field(default_factory=list)
    is_dangerous: bool = False
    is_undo: bool = False
    reason: str = ""
    is_started: bool = False
    is_previewed: bool = False
    id: str = ""
    person_id: int = 0
    directory_id: str = ""

    @property
    def by_effect(self) -> dict[str, list[Step]]:
        """The steps by the result of their preview."""
        return {effect: [step for step in self.steps if step.effect == effect] for effect in _EFFECTS}

    @property
    def by_outcome(self) -> dict[str, list[Step]]:
        """The finished and late steps by their outcome."""
        return {outcome: [step for step in self.steps if step.outcome == outcome] for outcome in _OUTCOMES}

    @property
    def button(self) -> str:
        """The label of the button that confirms the task."""
        count = len(self.by_effect["change"])
        return self.confirm if count == 1 else (self.confirm_many or self.confirm).format(count)

    @property
    def has_password(self) -> bool:
        """Whether it has created an account whose password nobody has seen yet."""
        return any(step.document.get("password") for step in self.by_outcome["done"])

    @property
    def common_warnings(self) -> list[str]:
        """Warnings of every change, which the page shows once."""
        steps = self.by_effect["change"]
        if len(steps) < 2:
            return []
        return [text for text in steps[0].warnings if all(text in step.warnings for step in steps)]

    @property
    def omitted(self) -> int:
        """How many of the chosen objects are not changed."""
        return len(self.by_effect["refused"]) + len(self.left_out)

    @property
    def ended(self) -> list[Step]:
        return [step for step in self.steps if step.outcome not in ("", "late")]

    @property
    def due(self) -> list[Step]:
        """The steps to make now; a step waits while the step that creates its member is late."""
        due = (step for step in self.steps if step.effect == "change" and not step.outcome)
        return [step for step in due if (maker := self.maker_of(step)) is None or maker.outcome != "late"]

    def maker_of(self, step: Step) -> Step | None:
        """The step that creates the member that this one adds, if any."""
        return None if step.member_from is None else self.steps[step.member_from]

    @property
    def is_over(self) -> bool:
        return self.is_started and not self.due and not self.by_outcome["late"]


_STORED_TASK = TypeAdapter(Task)


def create_task(page: PageContext, task: Task) -> Task:
    """Give a new task an id and its owner, and save it."""
    assert page.call.directory is not None
    begun = replace(task, id=str(uuid4()), person_id=page.person.pk, directory_id=str(page.call.directory.id))
    save_task(begun)
    return begun


@contextmanager
def _translate_cache_errors() -> Iterator[None]:
    """Turn errors of Redis into ServiceUnavailable."""
    try:
        yield
    except RedisError as error:
        raise ServiceUnavailable(_("The gateway's memory for unfinished tasks does not answer.")) from error


def save_task(task: Task) -> None:
    """Save the task for a day; raises ServiceUnavailable."""
    # Leave out empty fields: during an upgrade, processes of the last release do not know the new ones.
    text = _STORED_TASK.dump_json(task, exclude_none=True).decode()
    with _translate_cache_errors():
        cache.set(_key(task.id), encrypt(text), _KEPT_FOR.total_seconds())


def find_task(page: PageContext, task_id: UUID) -> Task:
    """The person's own task in this directory; raises NotFound for other people's and expired tasks."""
    with _translate_cache_errors():
        kept = cache.get(_key(str(task_id)))
    try:
        task = _STORED_TASK.validate_json(decrypt(kept)) if kept else None
    except UndecryptableSecret:
        task = None
    if task is None:
        raise NotFound(_("This selection is not kept any more. What was done is in the operations log."))
    here = page.call.directory
    if task.person_id != page.person.pk or here is None or task.directory_id != str(here.id):
        raise NotFound
    return task


def preview_task(page: PageContext, task: Task) -> None:
    """Dry-run each step and save the results. A started task keeps the preview that was confirmed."""
    if task.is_started:
        return
    for step, result in _execute(page, task, task.steps, dry_run=True):
        if isinstance(result, Exception):
            step.effect, step.problem = "refused", error_of(result).detail
            continue
        body = result.body if result is not None and isinstance(result.body, Mapping) else {}
        step.changes = [_differences(change) for change in body.get("changes", ())]
        step.warnings, step.risk = list(body.get("warnings", ())), str(body.get("risk", ""))
        step.effect, step.problem = ("change" if step.changes else "none"), ""
        if (maker := task.maker_of(step)) is not None:
            _preview_membership(step, maker)
    task.is_previewed = True
    save_task(task)


def _preview_membership(step: Step, maker: Step) -> None:
    """Complete the preview of adding an object that does not exist yet; the dry run has covered the rest."""
    if maker.effect != "change":
        step.effect, step.problem = "refused", _("{name} would not be made.").format(name=maker.name)
        return
    step.effect, step.risk = "change", Risk.SECURITY
    step.warnings = [_("This is a security change: it adds members to the group."), *step.warnings]
    step.changes = [*step.changes, {"attribute": "member", "before": [], "after": [maker.place]}]


def _differences(change: Mapping[str, Any]) -> dict[str, Any]:
    """A change without the values on both sides: of a large group's members, only the difference matters."""
    kept = set(change["before"]) & set(change["after"])
    alone = {side: [value for value in change[side] if value not in kept] for side in ("before", "after")}
    return shorten_values({**change, **alone}, _MAX_VALUES)


def advance_task(page: PageContext, task: Task) -> None:
    """Make the next changes that are due and save their outcomes, unless another request is at it.

    If a request was killed before it saved its outcomes, the operations log has them, and the changes are not repeated.
    """
    lock, holder = f"{_key(task.id)}:lock", str(uuid4())
    if not cache.add(lock, holder, _LOCKED_FOR.total_seconds()):
        return
    try:
        # Read it again under the lock: another request may have made changes since the caller read it.
        task.steps = find_task(page, UUID(task.id)).steps
        for step in task.by_outcome["late"]:
            _update_late_step(page, step)
        for step, result in _execute(page, task, task.due[:CHUNK], dry_run=False):
            if isinstance(result, OutcomeUnknown) and "recordId" in result.members:
                step.outcome, step.record_id = "late", result.members["recordId"]
            elif isinstance(result, Exception):
                step.outcome, step.problem = "failed", error_of(result).detail
            else:
                step.outcome = "done"
                if result is not None and result.status == 202:
                    step.outcome, step.request_id = "waiting", result.body["changeRequest"]["id"]
                if find_operation(step.operation).creates and result is not None and step.outcome == "done":
                    step.object_id = result.body["id"]
        save_task(task)
    finally:
        if cache.get(lock) == holder:  # otherwise the lock has expired and belongs to another request
            cache.delete(lock)


def _update_late_step(page: PageContext, step: Step) -> None:
    """Record the outcome of a late change, if it is known by now."""
    change = page.perform("operations.read-own", id=step.record_id)
    if change["outcome"] in OPEN_OUTCOMES:
        return
    if change["outcome"] == Outcome.SUCCEEDED:
        step.outcome = "done"
        if find_operation(step.operation).creates:
            step.object_id = change["target"]["id"]
    elif change["code"] == NOT_APPLIED:
        step.outcome, step.problem = "failed", _("The change was not made.")
    else:
        step.outcome, step.problem = "failed", error_title(change["code"])


def _execute(
    page: PageContext, task: Task, steps: Sequence[Step], *, dry_run: bool
) -> Iterable[tuple[Step, Answer | Exception | None]]:
    """Execute the steps and yield their results. Adjacent steps of one operation form one batch of the pipeline."""
    call = replace(
        page.call,
        request_id=task.id,
        call_id=UUID(task.id),
        reason=check_reason(task.reason or None),
        dry_run=dry_run,
        interrupted=() if dry_run else (UUID(task.id),),
    )
    places = {id(step): place for place, step in enumerate(task.steps)}
    for name, group in groupby(steps, key=lambda step: step.operation):
        part, documents = [], []
        for step in group:
            document, maker = step.document, task.maker_of(step)
            if maker is not None and maker.object_id is not None:
                document = {**document, "add": [*document["add"], maker.object_id]}
            elif maker is not None and not dry_run:
                if maker.outcome != "late":  # a late one may still succeed: leave the step for a later round
                    yield step, Conflict(_("{name} was not made.").format(name=maker.name))
                continue
            part.append(step)
            documents.append(document)
        if part:
            operation, place = find_operation(name), places[id(part[0])]
            items = execute_batch(operation, call, documents, on_error="continue", first=place)
            yield from ((step, item.result) for step, item in zip(part, items, strict=True))


def _key(task_id: str) -> str:
    return f"selection:{task_id}"
