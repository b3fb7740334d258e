"""Which requests form one line of the inbox: those of one call, and single ones that a key asked for one by one.

Single requests belong together if the same key asked for the same operation on the same attributes in the same hour.
X-Request-Id groups nothing: the client chooses it, and could hide a request among others.
"""

from datetime import UTC, timedelta
from typing import Any

from django.db.models import Case, Exists, Func, OuterRef, Q, QuerySet, TextField, Value, When
from django.db.models.functions import MD5, Cast, Concat, TruncHour

from approvals.models import ChangeRequest
from audit.identifiers import identifier_bounds

_HOUR = timedelta(hours=1)


class _Attributes(Func):
    """The names of the attributes that a request changes, as text."""

    output_field = TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "CAST(jsonb_path_query_array(%(expressions)s, '$[*].attribute') AS text)"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        template = "(SELECT json_group_array(json_extract(value, '$.attribute')) FROM json_each(%(expressions)s))"
        return self.as_sql(compiler, connection, template=template, **context)


# `ends` as text, which has no index: without statistics of the table PostgreSQL would read for each request the index
# of all that end nothing, 10,000 times 10,000.
_OTHERS_OF_CALL = (
    ChangeRequest.objects.alias(ending=Cast("ends", TextField()))
    .filter(call_id=OuterRef("call_id"), ending=None)
    .exclude(id=OuterRef("id"))
)
# The changes of the gateway's own tables have no directory. A run is looked at account by account.
_STANDS_ALONE = Q(directory_id=None) | Q(operation__endswith="-accounts")
_ALIKE = Concat(
    *(Cast(name, TextField()) for name in ("directory_id", "key_id", "operation")),
    # Those of a deletion are what the object has.
    Case(When(operation__endswith=".delete", then=Value("")), default=_Attributes("changes"), output_field=TextField()),
    Cast(TruncHour("created_at", tzinfo=UTC), TextField()),
)
LINE = Case(
    When(ends__isnull=False, then=Cast("id", TextField())),  # the end of a change, of which nobody decides
    When(Exists(_OTHERS_OF_CALL), then=Cast("call_id", TextField())),
    When(_STANDS_ALONE, then=Cast("id", TextField())),
    default=MD5(_ALIKE),
    output_field=TextField(),
)
"""What the requests of one line have in common."""


def in_line_of(request: ChangeRequest) -> QuerySet[ChangeRequest]:
    """The requests, in any state, of the same line, if each of them may be seen."""
    line = ChangeRequest.objects.filter(id=request.id).values_list(LINE, flat=True).get()
    if request.call_id is not None and line.replace("-", "") == request.call_id.hex:
        return ChangeRequest.objects.filter(request.of_same_call())
    # The index of the identifiers finds those made about then.
    since, until = (identifier_bounds(request.created_at + offset)[0] for offset in (-_HOUR, _HOUR))
    return ChangeRequest.objects.filter(id__gte=since, id__lt=until).alias(line=LINE).filter(line=line)
