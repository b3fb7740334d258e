"""Finding records of the operations log by what people know of them: names, words for what was done, values.

These conditions have no indexes of their own: they are checked on the records of a time, which has one.
"""

import json
import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any, Final

from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, QuerySet, Value

from audit.model_changes.descriptions import names_of_changes
from audit.models import OperationRecord
from core.operation import operations

_SYNONYMS: Final = {
    "create": "make new add",
    "delete": "remove",
    "update": "change edit",
    "move": "transfer",
    "revoke": "end",
    "reset": "set",
    "change members": "add remove member join",
}
"""Words that people use for what an operation is called."""


def of_words(records: QuerySet[OperationRecord], text: str, *, people: Any) -> QuerySet[OperationRecord]:
    """The records in which each word occurs: in the object's own name, the person, the key, or what was done.

    `people` makes, of a word, a query of the user names of people who are called so.
    """
    for word in text.replace(",", " ").split():
        # Of a distinguished name only the object's own part: everything of Sales is not what "sales" looks for.
        own_name = rf"^([^=,]+=)?(\\.|[^,\\])*{re.escape(word)}"
        found = Q(target_dn__icontains=word, target_dn__iregex=own_name)
        found |= Q(owner__icontains=word) | Q(key_name__icontains=word) | Q(owner__in=people(word))
        found |= Q(operation__in=operations_called(word))
        records = records.filter(found)
    return records


def operations_called(word: str) -> list[str]:
    """The operations in whose name, or in a usual word for them, a word occurs."""
    return [name for name, text in _names_in_words().items() if word.casefold() in text]


@cache
def _names_in_words() -> dict[str, str]:
    names = sorted({*(item.name for item in operations()), *names_of_changes()})
    return {name: _in_words(name) for name in names}


def _in_words(name: str) -> str:
    text = re.sub("[.-]", " ", name)
    return " ".join([name, text, *(words for called, words in _SYNONYMS.items() if called in text)])


def of_values(
    records: QuerySet[OperationRecord], *, attribute: str | None, value: str | None, hidden: Iterable[str] = ()
) -> QuerySet[OperationRecord]:
    """The records that change an attribute, or have a value before or after in which this text occurs.

    Values of `hidden` attributes, in lower case, are not looked at: finding a record by one would tell it.
    """
    if not attribute and not value:
        return records
    return records.filter(_HasChange(attribute or "", value or "", frozenset(hidden if value else ())))


class _HasChange(Func):
    """Whether one of a record's changes is of the attribute and has the text among its values.

    The column may hold anything that somebody else wrote into it: what has another form has no values.
    """

    output_field = BooleanField()

    def __init__(self, attribute: str, text: str, hidden: Collection[str]) -> None:
        escaped = re.sub(r"([\\%_])", r"\\\1", text)
        pattern = f"%{escaped}%" if text else ""
        # Most records are told apart by their changes as one text: what JSON writes as it is occurs there, too.
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


def folded(records: QuerySet[OperationRecord]) -> QuerySet[OperationRecord]:
    """Of each run and of each batch only the newest record that is among these."""
    newer = records.filter(id__gt=OuterRef("id"))
    in_run = newer.filter(run_id=OuterRef("run_id"))
    in_batch = newer.filter(call_id=OuterRef("call_id"), batch_index__isnull=False)
    is_single = Q(batch_index__isnull=True) | Q(call_id__isnull=True)
    return records.filter(Q(run_id__isnull=True) | ~Exists(in_run), is_single | ~Exists(in_batch))
