"""Finds records of the operations log by words and values, reverts by what they revert, and deletions.

Conditions on words and values have no index of their own: they are checked on the records of a period, which has one.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, cast
from uuid import UUID

from django.conf import settings
from django.db.models import BooleanField, CharField, Exists, F, Func, OuterRef, Q, QuerySet, Value
from django.utils.translation import override

from audit.bounded_search import newest_records
from audit.model_changes.descriptions import change_operations, label_of_change
from audit.models import BEGINNING_OF_REVERTS, OperationRecord, Outcome, reason_of_revert, reverted_by
from core.database.own_rows import containing
from core.operation import Effect, operations
from core.text.messages import translated

_SYNONYMS: Final = {
    "create": "make new add",
    "delete": "remove",
    "update": "change edit",
    "move": "transfer",
    "revoke": "end",
    "reset": "set",
    "change members": "add remove member join",
}
"""Words that people use for the action in an operation's name."""


def filter_by_words(records: QuerySet[OperationRecord], text: str, *, people: Any) -> QuerySet[OperationRecord]:
    """The records that contain every word: in the object's RDN, the person, the key or the operation.

    `people` returns for a word a query of the user names of people with that name.
    """
    for word in text.replace(",", " ").split():
        # Only the RDN: whoever looks for "sales" does not want every object below OU=Sales.
        in_rdn = rf"^([^=,]+=)?(\\.|[^,\\])*{pattern_in_names(word)}"
        plain = max(re.split(r'[^ -~]|[+"\\<>;=#]', word), key=len)  # what SQLite, too, compares in any case of letters
        condition = Q(target_dn__icontains=plain, target_dn__iregex=in_rdn)
        condition |= containing(word, "owner", "key_name") | Q(owner__in=people(word))
        condition |= Q(operation__in=operations_matching(word))
        records = records.filter(condition)
    return records


def pattern_in_names(text: str) -> str:
    """A pattern that finds a text, as people write it, in distinguished names."""
    return _ESCAPED_IN_NAMES.sub(_in_name, re.escape(text))


_ESCAPED_IN_NAMES: Final = re.compile(r'\\?[+"<>;=#]|\\\\')
"""In a pattern, what directories escape in distinguished names, as it is or in hex (RFC 4514 section 2.4)."""


def _in_name(found: re.Match[str]) -> str:
    character = found[0][-1]
    escaped = re.escape(character)
    return rf"(\\?{escaped}|\\{ord(character):02x})"


def operations_matching(word: str) -> list[str]:
    """The names of the operations whose name, or a synonym of it, contains the word."""
    return [name for name, text in _names_in_words().items() if word.casefold() in text]


@cache
def _names_in_words() -> dict[str, str]:
    labels = {item.name: item.label for item in operations()}
    labels |= {name: label_of_change(*name.split(".", 1)) or "" for name in change_operations() if name not in labels}
    words = {name: _in_words(name) for name in sorted(labels)}
    for language, _ in settings.LANGUAGES:  # whoever reads German searches in German
        with override(language):
            words = {name: f"{text} {translated(labels[name]).casefold()}" for name, text in words.items()}
    return words


def _in_words(name: str) -> str:
    text = re.sub("[.-]", " ", name)
    return " ".join([name, text, *(words for called, words in _SYNONYMS.items() if called in text)])


def filter_by_values(
    records: QuerySet[OperationRecord], *, attribute: str | None, value: str | None, hidden: Iterable[str] = ()
) -> QuerySet[OperationRecord]:
    """The records that change the attribute and contain the text in a value before or after the change.

    Values of `hidden` attributes (lower case) are not searched: finding a record by one would reveal it.
    """
    if not attribute and not value:
        return records
    return records.filter(_HasChange(attribute or "", value or "", frozenset(hidden if value else ())))


class _HasChange(Func):
    """Whether one of a record's changes is of the attribute and has the text in a value.

    Somebody may have written anything into the column past the gateway: JSON of another form has no values.
    """

    output_field = BooleanField()

    def __init__(self, attribute: str, text: str, hidden: Collection[str]) -> None:
        escaped = re.sub(r"([\\%_])", r"\\\1", text)
        pattern = f"%{escaped}%" if text else ""
        # Searching the JSON as text rules most records out quickly. It works for text that JSON does not escape.
        whole = pattern if text.isascii() and text.isprintable() and not re.search(r'["\\]', text) else ""
        given = (attribute.lower(), pattern, json.dumps(sorted(hidden)), whole)
        super().__init__(F("changes"), *map(Value, given))

    def as_postgresql(self, compiler: Any, _: Any) -> Any:
        return self._compiled(
            compiler,
            "({whole} = '' OR {changes}::text ILIKE {whole}) AND"
            " EXISTS (SELECT 1 FROM jsonb_path_query({changes}, '$[*] ? (@.type() == \"object\")') AS c"
            " WHERE ({attribute} = '' OR lower(c->>'attribute') = {attribute})"
            " AND ({pattern} = '' OR (NOT jsonb_exists({hidden}::jsonb, lower(c->>'attribute'))"
            " AND EXISTS (SELECT 1 FROM jsonb_path_query(c - 'attribute', '$.*[*]') AS v"
            " WHERE v #>> '{{}}' ILIKE {pattern}))))",
        )

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        return self._compiled(
            compiler,
            "({whole} = '' OR {changes} LIKE {whole} ESCAPE '\\') AND"
            " EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid({changes}) THEN {changes} ELSE '[]' END) AS c"
            " WHERE c.type = 'object'"
            " AND ({attribute} = '' OR lower(json_extract(c.value, '$.attribute')) = {attribute})"
            " AND ({pattern} = '' OR (NOT EXISTS (SELECT 1 FROM json_each({hidden}) AS h"
            " WHERE h.value = lower(json_extract(c.value, '$.attribute')))"
            " AND (EXISTS (SELECT 1 FROM json_each(c.value, '$.before') AS v"
            " WHERE v.value LIKE {pattern} ESCAPE '\\')"
            " OR EXISTS (SELECT 1 FROM json_each(c.value, '$.after') AS v"
            " WHERE v.value LIKE {pattern} ESCAPE '\\')))))",
        )

    def _compiled(self, compiler: Any, template: str) -> tuple[str, list[Any]]:
        names = ("changes", "attribute", "pattern", "hidden", "whole")
        compiled = dict(zip(names, map(compiler.compile, self.get_source_expressions()), strict=True))
        parameters: list[Any] = []

        def put(match: re.Match[str]) -> str:
            sql, given = compiled[match[1]]
            parameters.extend(given)
            text: str = sql
            return text

        filled = re.sub(r"\{(changes|attribute|pattern|hidden|whole)\}", put, template).replace("{{}}", "{}")
        return filled, parameters


def fold_runs_and_batches(records: QuerySet[OperationRecord]) -> QuerySet[OperationRecord]:
    """Keep only the newest record of each run and of each batch."""
    newer = records.filter(id__gt=OuterRef("id"))
    in_run = newer.filter(run_id=OuterRef("run_id"))
    in_batch = newer.filter(call_id=OuterRef("call_id"), batch_index__isnull=False)
    is_single = Q(batch_index__isnull=True) | Q(call_id__isnull=True)
    return records.filter(Q(run_id__isnull=True) | ~Exists(in_run), is_single | ~Exists(in_batch))


class _IsRevert(Func):
    """The condition of the index `audit_by_reverted` in its words: SQLite takes it for no other, nor for parameters."""

    output_field = BooleanField()
    template = rf"%(expressions)s LIKE '{BEGINNING_OF_REVERTS}%%%%' ESCAPE '\'"


class _RevertedRecord(Func):
    """The beginning of a revert's reason, which names the reverted record; as in the index."""

    output_field = CharField()
    function = "SUBSTRING"
    template = "%(function)s(%(expressions)s, 1, 44)"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="SUBSTR", **context)


def find_reverts(records: Collection[UUID]) -> dict[UUID, UUID]:
    """The first revert that succeeded of each of these records that has one."""
    if not records:
        return {}
    reverts = OperationRecord.objects.filter(_IsRevert("reason"), id__gt=min(records)).alias(
        of=_RevertedRecord("reason")
    )
    rows = reverts.filter(of__in=[reason_of_revert(record, None) for record in records]).order_by()
    # Sorted and chosen here: asked for an outcome or an order, SQLite would take the index of that one.
    found = sorted(rows.values_list("id", "reason", "outcome"), reverse=True)
    return {cast(UUID, reverted_by(reason)): id for id, reason, outcome in found if outcome == Outcome.SUCCEEDED}


def names_of_reads() -> list[str]:
    """The names of the operations that change nothing."""
    return [item.name for item in operations() if item.effect is Effect.READ]


def only_changes(records: QuerySet[OperationRecord]) -> QuerySet[OperationRecord]:
    """Leave out reads, which are usually most of the log."""
    return records.exclude(operation__in=names_of_reads())


CLOCKS_DIFFER_BY = timedelta(minutes=5)
"""How far clocks in a domain may differ (the default of Kerberos), so also ours and the domain controller's."""


def last_deletion(directory_id: UUID, target: UUID, *, deleted_at: datetime) -> OperationRecord | None:
    """The record of an object's deletion at that time; None if the gateway did not delete it.

    An earlier deletion, undone since, does not count: it shows the object as it was then.
    """
    return (
        OperationRecord.objects.filter(
            directory_id=directory_id,
            target_id=target,
            operation__endswith=".delete",
            outcome__in=(Outcome.SUCCEEDED, Outcome.PENDING, Outcome.UNKNOWN),
            at__range=(deleted_at - CLOCKS_DIFFER_BY, deleted_at + CLOCKS_DIFFER_BY),
        )
        .order_by("-id")
        .first()
    )


_MAX_RECORDS: Final = 8_000
"""How many of the newest records `attributes_written` reads."""


def attributes_written(directory_id: UUID, operations: Iterable[str], *, since: datetime) -> dict[str, set[str]]:
    """The attributes that these operations wrote, by kind of object; refused changes do not count.

    In a long log this goes back as far as two seconds lead.
    """
    updates = OperationRecord.objects.filter(
        directory_id=directory_id, operation__in=list(operations), outcome=Outcome.SUCCEEDED
    )
    by_kind: dict[str, set[str]] = defaultdict(set)
    for kind, changes in newest_records(updates.values_list("target_kind", "changes"), _MAX_RECORDS, since=since):
        if kind:
            by_kind[kind].update(change["attribute"] for change in changes or ())
    return by_kind
