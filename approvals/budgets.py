"""Budgets: how many destructive and security changes a key, an agent and a directory may see in an hour and in a day.

A change beyond a budget waits for a person, as if supervision had asked for that (docs/api.md#budgets). Changes are
counted in the transaction that records their intents, under a lock, so that concurrent writers never exceed a budget.
An approved change is a person's decision: it is neither counted nor held.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, Literal

from django.conf import settings
from django.db import transaction
from typing_extensions import TypedDict

from approvals.models import BudgetUse
from approvals.supervision import Assessment
from audit.webhooks import events as webhooks
from core.call import Call, CredentialKind
from core.configuration_sections import Section
from core.database import shared_clock
from core.database.own_rows import lock_record
from core.operation import Risk
from core.text.messages import Message, message
from keys.models import ApiKey
from keys.models.api_keys import BUDGETS

Holder = Literal["key", "agent", "directory"]

_PERIODS: Final[dict[Literal["hour", "day"], int]] = {"hour": 3600, "day": 86400}
_BUCKET_SECONDS: Final = 300
"""Changes are counted in buckets of this length; a bucket counts as long as a part of it lies in the period."""

_WORDS: Final = {
    "key": message("The key"),
    "agent": message("The agent"),
    "directory": message("The directory"),
    Risk.DESTRUCTIVE: message("destructive"),
    Risk.SECURITY: message("security"),
    "hour": message("an hour"),
    "day": message("a day"),
}


class BudgetJson(TypedDict):
    """How many changes of a risk a key, an agent or a directory may see in a period, and how many of them are left."""

    of: Holder
    risk: Literal["destructive", "security"]
    period: Literal["hour", "day"]
    limit: int
    remaining: int


class ExceededBudgetJson(BudgetJson):
    """The budget, and whose change was the first that it held."""

    directory: str
    owner: str
    keyName: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit; `holder` identifies the key, agent or directory that `of` speaks of."""

    of: Holder
    holder: str
    risk: Risk
    period: Literal["hour", "day"]
    limit: int
    remaining: int = 0

    def as_json(self) -> BudgetJson:
        return {
            "of": self.of,
            "risk": self.risk.value,  # type: ignore[typeddict-item]  # never ordinary
            "period": self.period,
            "limit": self.limit,
            "remaining": self.remaining,
        }

    @property
    def sentence(self) -> Message:
        """Says that it is used up."""
        return message(
            "{holder} has used up its budget of {limit} {risk} changes in {period}.",
            holder=_WORDS[self.of],
            limit=self.limit,
            risk=_WORDS[self.risk],
            period=_WORDS[self.period],
        )


def budgets_of(call: Call) -> list[Budget]:
    """The budgets that a call's changes count against, with what remains of them now."""
    return _read_remainders(_limits_of(call))


def budgets_of_key(key: ApiKey) -> list[Budget]:
    """The budgets of an API key, with what remains of them now."""
    return _read_remainders(_limits_of_key(key))


def _read_remainders(budgets: list[Budget]) -> list[Budget]:
    used = {row.holder: row.used for row in BudgetUse.objects.filter(holder__in={each.holder for each in budgets})}
    return _with_remainders(budgets, used)


def find_exceeded(budgets: Iterable[Budget], risk: Risk, changes: int = 1) -> Budget | None:
    """The first budget that so many more changes of a risk would exceed."""
    return next((each for each in budgets if each.risk is risk and changes > each.remaining), None)


def with_exceeded(assessment: Assessment, exceeded: Budget) -> Assessment:
    """An assessment that says first that the change waits because a budget is used up."""
    reason = exceeded.sentence
    return replace(assessment, reasons=(reason, *assessment.reasons), plain_reasons=(reason, *assessment.plain_reasons))


def count_in_dry_runs(shown: Iterable[dict[str, Any]]) -> None:
    """Let the dry runs of one batch say what the budgets would hold if they were made one after another."""
    taken: Counter[str] = Counter()
    for each in shown:
        left: list[BudgetJson] = each.get("budgets", [])
        if each["wouldQueue"] or not left:
            continue
        for budget in left:
            budget["remaining"] = max(0, budget["remaining"] - taken[each["risk"]])
        used_up = next((budget for budget in left if not budget["remaining"]), None)
        if used_up is None:
            taken[each["risk"]] += 1
            continue
        risk = Risk(used_up["risk"])
        exceeded = Budget(of=used_up["of"], holder="", risk=risk, period=used_up["period"], limit=used_up["limit"])
        each |= {"wouldQueue": True, "warnings": [exceeded.sentence, *each["warnings"]]}


class Ledger:
    """The budgets of a call, locked until the end of the transaction."""

    def __init__(self, call: Call) -> None:
        self._call, self._limits = call, _limits_of(call)
        holders = sorted({each.holder for each in self._limits})  # in one order, so that two never wait for each other
        for holder in holders:
            lock_record("budgets", holder)
        self._rows = {holder: BudgetUse.objects.get_or_create(holder=holder)[0] for holder in holders}

    def take(self, risk: Risk, changes: int = 1) -> Budget | None:
        """Count changes about to be made. If they would exceed a budget, count nothing and return that.

        Fewer than none gives back what was counted a moment before.
        """
        used = {holder: row.used for holder, row in self._rows.items()}
        exceeded = find_exceeded(_with_remainders(self._limits, used), risk, changes)
        if exceeded is not None:
            self._tell_once(exceeded)
        elif risk is not Risk.ORDINARY:
            for row in self._rows.values():
                counted = row.used.setdefault(risk.value, {})
                counted[_bucket()] = counted.get(_bucket(), 0) + changes
        return exceeded

    def save(self) -> None:
        oldest = _bucket(before=_PERIODS["day"])
        for row in self._rows.values():
            row.used = {
                risk: {at: changes for at, changes in counted.items() if at >= oldest}
                for risk, counted in row.used.items()
            }
            row.save()

    def _tell_once(self, exceeded: Budget) -> None:
        """Send the event, once in the budget's period."""
        row, name = self._rows[exceeded.holder], f"{exceeded.risk.value} {exceeded.period}"
        if row.told.get(name, "") >= _bucket(before=_PERIODS[exceeded.period]):
            return
        row.told[name] = _bucket()
        call = self._call
        facts: ExceededBudgetJson = {
            **exceeded.as_json(),
            "directory": call.directory.name if call.directory else "",
            "owner": call.person.username,
            "keyName": call.credential.name,
        }
        webhooks.enqueue_exceeded_budget(facts, exceeded.sentence)


@contextmanager
def open_ledger(call: Call) -> Iterator[Ledger]:
    """Lock the budgets of a call; what was taken is counted if the caller's transaction, which is joined, commits."""
    with transaction.atomic():
        ledger = Ledger(call)
        yield ledger
        ledger.save()


def _limits_of(call: Call) -> list[Budget]:
    configured, credential = settings.CONFIGURATION.Budgets, call.credential
    if call.directory is None:
        return []
    limits = _limits("directory", str(call.directory.id), configured.Directory)
    if credential.kind is CredentialKind.AGENT_TOKEN:
        limits += _limits("agent", credential.unique_id, configured.Agent)
    elif credential.kind is CredentialKind.API_KEY:
        for key in ApiKey.objects.filter(pk=credential.id).only(*BUDGETS).order_by():
            limits += _limits_of_key(key)
    return limits


def _limits_of_key(key: ApiKey) -> list[Budget]:
    return _limits("key", str(key.id), settings.CONFIGURATION.Budgets.Key, own=key)


def _limits(of: Holder, holder: str, configured: Section, *, own: ApiKey | None = None) -> list[Budget]:
    """The limits of a holder: those configured, but for those that a key has of its own."""
    limits = []
    for risk, period in product((Risk.DESTRUCTIVE, Risk.SECURITY), _PERIODS):
        limit = getattr(own, f"{risk.value}_changes_per_{period}", None)
        if limit is None:
            limit = getattr(configured, f"{risk.value.capitalize()}ChangesPer{period.capitalize()}")
        if limit is not None:
            limits.append(Budget(of=of, holder=holder, risk=risk, period=period, limit=limit))
    return limits


def _with_remainders(budgets: Iterable[Budget], used: Mapping[str, Mapping[str, Mapping[str, int]]]) -> list[Budget]:
    """The budgets with what remains of them, by what their holders have used."""
    counted = []
    for budget in budgets:
        buckets, oldest = (
            used.get(budget.holder, {}).get(budget.risk.value, {}),
            _bucket(before=_PERIODS[budget.period]),
        )
        made = sum(changes for at, changes in buckets.items() if at >= oldest)
        counted.append(replace(budget, remaining=max(0, budget.limit - made)))
    return counted


def _bucket(*, before: int = 0) -> str:
    """The bucket of now, or of so many seconds ago, by the database's clock; buckets are ordered as text."""
    return f"{int(shared_clock.now().timestamp() - before) // _BUCKET_SECONDS:010d}"
