"""A task: the changes that somebody wants to be made together, what each would do, and what came of it.

It is kept for a day, encrypted, in the cache. Were it lost, nothing is: what was done is in the operations log, under
the task's id as the request's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import groupby
from typing import Any, Final
from uuid import UUID, uuid4

from django.core.cache import cache
from django.utils.translation import gettext as _
from pydantic import TypeAdapter
from redis import RedisError

from audit.log import NOT_APPLIED
from audit.models import OPEN_OUTCOMES, Outcome
from console.directory.objects.changes import shortened
from console.page_context import PageContext
from console.shared.titles import title_of_code
from core.errors import Conflict, NotFound, ServiceUnavailable
from core.operation import Risk, find_operation
from core.secrets.encryption import UndecryptableSecret, decrypt, encrypt
from directory.errors import OutcomeUnknown
from gateway.pipeline import Answer
from gateway.pipeline.batches import execute_batch
from gateway.surfaces.problems import error_of
from keys.authentication import check_reason

CHUNK: Final = 20
"""Changes made for one request: the page shows the progress in between."""
_EFFECTS: Final = ("change", "none", "refused")
_OUTCOMES: Final = ("done", "waiting", "late", "failed")
_VALUES_KEPT: Final = 20
_LIFE: Final = timedelta(days=1)
_LOCKED_FOR: Final = timedelta(minutes=5)
"""How long another request leaves a task alone that one is at work on, or was killed at: a domain controller that does
not answer is waited for at several changes."""


@dataclass(slots=True)
class Step:
    """One change: an operation with its whole input, whose name it is told under, and what it does in words.

    With `member_from` the object that the step at that place makes becomes a member besides those in its document.
    `effect` is what the preview said: "change", "none" (it is so already) or "refused". `outcome` is "done", "waiting"
    (for approval), "late" or "failed", empty before. `problem` says why it is refused or has failed. Of one that is
    late the domain controller has not answered yet; `record_id` is its record in the log.
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

    @property
    def is_due(self) -> bool:
        return self.effect == "change" and not self.outcome


@dataclass(slots=True, kw_only=True)
class Task:
    """Several changes with one name, one reason and one way back.

    `title` is a question, `confirm` what its button says for one change and `confirm_many` for several (`{}`). `did` is
    what is told when all are done. `left_out` are objects for which it makes no sense, each with why. `then` is where
    it was begun.
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
        """The steps by what their preview said."""
        return {effect: [step for step in self.steps if step.effect == effect] for effect in _EFFECTS}

    @property
    def by_outcome(self) -> dict[str, list[Step]]:
        """The steps by what came of them; those that are not made yet are in none."""
        return {outcome: [step for step in self.steps if step.outcome == outcome] for outcome in _OUTCOMES}

    @property
    def button(self) -> str:
        """What the button says that confirms it."""
        count = len(self.by_effect["change"])
        return self.confirm if count == 1 else (self.confirm_many or self.confirm).format(count)

    @property
    def has_password(self) -> bool:
        """Whether it has made an account whose password nobody has seen yet."""
        return any(step.document.get("password") for step in self.by_outcome["done"])

    @property
    def common_warnings(self) -> list[str]:
        """What is to be known of every change, so that it need not be said of each."""
        steps = self.by_effect["change"]
        if len(steps) < 2:
            return []
        return [text for text in steps[0].warnings if all(text in step.warnings for step in steps)]

    @property
    def omitted(self) -> int:
        """How many of those chosen nothing is done with."""
        return len(self.by_effect["refused"]) + len(self.left_out)

    @property
    def ended(self) -> list[Step]:
        return [step for step in self.steps if step.outcome not in ("", "late")]

    @property
    def due(self) -> list[Step]:
        """What can be done now."""
        return [step for step in self.steps if step.is_due and not self.waits_for_late(step)]

    def maker_of(self, step: Step) -> Step | None:
        """The step that makes the object which this one needs."""
        return None if step.member_from is None else self.steps[step.member_from]

    def waits_for_late(self, step: Step) -> bool:
        """Whether it needs the object of a step of which nobody knows yet whether it was made."""
        maker = self.maker_of(step)
        return maker is not None and maker.outcome == "late"

    @property
    def is_over(self) -> bool:
        return self.is_started and not self.due and not self.by_outcome["late"]


_KEPT: Final = TypeAdapter(Task)


def begin(page: PageContext, task: Task) -> Task:
    """Keep a new task for the person, so that its page can be opened."""
    assert page.call.directory is not None
    begun = replace(task, id=str(uuid4()), person_id=page.call.person.id, directory_id=str(page.call.directory.id))
    keep(begun)
    return begun


@contextmanager
def _memory() -> Iterator[None]:
    """Where tasks are kept; raises ServiceUnavailable where it does not answer."""
    try:
        yield
    except RedisError as error:
        raise ServiceUnavailable(_("The gateway's memory for unfinished tasks does not answer.")) from error


def keep(task: Task) -> None:
    """Raises ServiceUnavailable where the cache does not answer."""
    # Without what steps do not have: processes of the release before do not know all of it.
    text = _KEPT.dump_json(task, exclude_none=True).decode()
    with _memory():
        cache.set(_key(task.id), encrypt(text), _LIFE.total_seconds())


def find(page: PageContext, task_id: UUID) -> Task:
    """The person's own task in this directory; raises NotFound for every other, and for one whose day is over."""
    with _memory():
        kept = cache.get(_key(str(task_id)))
    try:
        task = _KEPT.validate_json(decrypt(kept)) if kept else None
    except UndecryptableSecret:
        task = None
    if task is None:
        raise NotFound(_("This selection is not kept any more. What was done is in the operations log."))
    here = page.call.directory
    if task.person_id != page.call.person.id or here is None or task.directory_id != str(here.id):
        raise NotFound
    return task


def preview(page: PageContext, task: Task) -> None:
    """Find out what each step would do now, by a dry run; a started task keeps what it was confirmed with."""
    if task.is_started:
        return
    for step, result in _executed(page, task, task.steps, dry_run=True):
        if isinstance(result, Exception):
            step.effect, step.problem = "refused", error_of(result).detail
            continue
        body = result.body if result is not None and isinstance(result.body, Mapping) else {}
        step.changes = [_differences(change) for change in body.get("changes", ())]
        step.warnings, step.risk = list(body.get("warnings", ())), str(body.get("risk", ""))
        step.effect, step.problem = ("change" if step.changes else "none"), ""
        if (maker := task.maker_of(step)) is not None:
            _foresee_member(step, maker)
    task.is_previewed = True
    keep(task)


def _foresee_member(step: Step, maker: Step) -> None:
    """What joining means of an object that is still to be made: the dry run has said what would be refused anyway."""
    if maker.effect != "change":
        step.effect, step.problem = "refused", _("{name} would not be made.").format(name=maker.name)
        return
    step.effect, step.risk = "change", Risk.SECURITY
    step.warnings = [_("This is a security change: it adds members to the group."), *step.warnings]
    step.changes = [*step.changes, {"attribute": "member", "before": [], "after": [maker.place]}]


def _differences(change: Mapping[str, Any]) -> dict[str, Any]:
    """The values that one side alone has: of a large group's members these are all that tells."""
    kept = set(change["before"]) & set(change["after"])
    alone = {side: [value for value in change[side] if value not in kept] for side in ("before", "after")}
    return shortened({**change, **alone}, _VALUES_KEPT)


def advance(page: PageContext, task: Task) -> bool:
    """Make the next changes that are due and note what came of each; False while another request is at it.

    What a request had done that was killed before it could note it, the operations log tells: it is not done again.
    """
    lock, holder = f"{_key(task.id)}:lock", str(uuid4())
    if not cache.add(lock, holder, _LOCKED_FOR.total_seconds()):
        return False
    try:
        task.steps = find(page, UUID(task.id)).steps  # another request may have gone on since it was read
        for step in task.by_outcome["late"]:
            _follow(page, step)
        for step, result in _executed(page, task, task.due[:CHUNK], dry_run=False):
            if isinstance(result, OutcomeUnknown) and "recordId" in result.members:
                step.outcome, step.record_id = "late", result.members["recordId"]
            elif isinstance(result, Exception):
                step.outcome, step.problem = "failed", error_of(result).detail
            else:
                step.outcome = "waiting" if result is not None and result.status == 202 else "done"
                if find_operation(step.operation).creates and result is not None and step.outcome == "done":
                    step.object_id = result.body["id"]
        keep(task)
    finally:
        if cache.get(lock) == holder:  # else it took too long, and another request is at work
            cache.delete(lock)
    return True


def _follow(page: PageContext, step: Step) -> None:
    """Note what has become of a change whose answer was late, if that is known by now."""
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
        step.outcome, step.problem = "failed", title_of_code(change["code"])


def _executed(
    page: PageContext, task: Task, steps: Sequence[Step], *, dry_run: bool
) -> Iterable[tuple[Step, Answer | Exception | None]]:
    """The steps with what came of them. Those of one operation that stand together are one batch of the pipeline."""
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
        part = list(group)
        if not dry_run:
            part = [step for step in part if not task.waits_for_late(step)]  # also for one of this round
            for step in part:
                if (maker := _missing_maker(task, step)) is not None:
                    yield step, Conflict(_("{name} was not made.").format(name=maker.name))
            part = [step for step in part if _missing_maker(task, step) is None]
        items = execute_batch(
            find_operation(name),
            call,
            [_document_of(task, step) for step in part],
            on_error="continue",
            first=places[id(part[0])] if part else 0,
        )
        yield from ((step, item.result) for step, item in zip(part, items, strict=True))


def _missing_maker(task: Task, step: Step) -> Step | None:
    """The step whose object this one waits for in vain."""
    maker = task.maker_of(step)
    return maker if maker is not None and maker.object_id is None else None


def _document_of(task: Task, step: Step) -> dict[str, Any]:
    """What is sent for a step: with the member that another step has made, if that is so by now."""
    maker = task.maker_of(step)
    if maker is None or maker.object_id is None:
        return step.document
    return {**step.document, "add": [*step.document["add"], maker.object_id]}


def _key(task_id: str) -> str:
    return f"selection:{task_id}"
