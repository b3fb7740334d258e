"""Which requests form one line of the inbox: those of one call, and single ones that a key asked for one by one.

Single requests belong together if the same key asked for the same operation on the same attributes in the same hour.
X-Request-Id groups nothing: the client chooses it, and could hide a request among others.
"""

from datetime import timedelta
from typing import Any

from django.db.models import Func, QuerySet, TextField

from approvals.models import ChangeRequest
from audit.identifiers import identifier_bounds

_HOUR = timedelta(hours=1)


class _Line(Func):
    """SQL of our own: a page needs it in several queries, and Django took longer to write it than for all the rest."""

    output_field = TextField()
    # Nobody decides the end of a change. The changes of the gateway's own tables have no directory. A run is looked at
    # account by account. The changes of a deletion are what the object has.
    # `ends` as text, which has no index: without statistics of the table PostgreSQL would read for each request the
    # index of all that end nothing, 10,000 times 10,000.
    template = """
    CASE WHEN {ends} IS NOT NULL THEN CAST({id} AS text)
      WHEN EXISTS (
        SELECT 1 FROM approvals_changerequest other
        WHERE other.call_id = {call_id} AND CAST(other.ends AS text) IS NULL AND other.id <> {id}
      ) THEN CAST({call_id} AS text)
      WHEN {directory_id} IS NULL OR {operation} LIKE '%%-accounts' THEN CAST({id} AS text)
      ELSE MD5(
        CAST({directory_id} AS text) || ' ' || {key_id} || ' ' || {operation} || ' '
        || SUBSTR(CAST({created_at} AS text), 1, LENGTH('2026-11-28 10')) || ' '
        || CASE WHEN {operation} LIKE '%%.delete' THEN '' ELSE CAST({attributes} AS text) END
      )
    END
    """

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        return self._as_sql(compiler, "jsonb_path_query_array({changes}, '$[*].attribute')")

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        attributes = "(SELECT json_group_array(json_extract(value, '$.attribute')) FROM json_each({changes}))"
        return self._as_sql(compiler, attributes)

    def _as_sql(self, compiler: Any, attributes: str) -> tuple[str, list[Any]]:
        columns = {each.target.attname: compiler.compile(each)[0] for each in self.get_source_expressions()}
        return self.template.replace("{attributes}", attributes).format(**columns), []


LINE = _Line("id", "ends", "call_id", "directory_id", "operation", "key_id", "created_at", "changes")
"""What the requests of one line have in common."""


def in_line_of(request: ChangeRequest) -> QuerySet[ChangeRequest]:
    """The requests, in any state, of the same line, if each of them may be seen."""
    line = ChangeRequest.objects.filter(id=request.id).values_list(LINE, flat=True).get()
    if request.call_id is not None and line.replace("-", "") == request.call_id.hex:
        return ChangeRequest.objects.filter(request.of_same_call())
    # The index of the identifiers finds those made about then.
    since, until = (identifier_bounds(request.created_at + offset)[0] for offset in (-_HOUR, _HOUR))
    return ChangeRequest.objects.filter(id__gte=since, id__lt=until).alias(line=LINE).filter(line=line)
