"""Pages of a list: the query, the answer and the cursor that leads to the next page.

The cursor is sealed (authenticated encryption), so it works in every process and after a restart, tells nothing and
cannot be made up. It is bound to the credential and the parameters it was made with. Lists of our own tables are
paged by key (`page_of`): rows that come or go meanwhile make no other row appear twice or not at all.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Annotated, Any, Generic, TypeVar, cast

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import Field, Q, QuerySet
from pydantic import Field as Limits
from typing_extensions import TypedDict

from core.call import Call
from core.errors import FieldError, GatewayError
from core.secrets.encryption import UndecryptableSecret, decrypt, encrypt
from core.shapes import WHOLE_NUMBER, Query, without_default
from core.streams import RecordStream, StreamFormat
from core.text.messages import message

CURSOR_LIFE = timedelta(hours=24)
_STREAMED_AT_ONCE = 500
"""Rows of a stream that are in memory."""

ItemT = TypeVar("ItemT")


class CursorInvalid(GatewayError):
    status, code, title = 400, "Search.CursorInvalid", "The cursor is not valid here; start again without one"

    def __init__(self) -> None:
        super().__init__(errors=[FieldError(self.code, message("is no cursor of this list"), parameter="cursor")])


class PageQuery(Query):
    """The parameters of every list. A list with filters of its own inherits from it."""

    page_size: Annotated[
        int,
        # A stream has no pages: a client that sent the default with every request could not ask for one.
        Limits(ge=1, le=1000, description="Records in a page, 100 unless given.", json_schema_extra=without_default),
        WHOLE_NUMBER,
    ] = 100
    cursor: Annotated[str | None, Limits(description="`nextCursor` of the page before.")] = None


class Page(TypedDict, Generic[ItemT]):
    """One page. `total` is null where counting would cost too much; `truncated` tells that a limit cut the result."""

    items: list[ItemT]
    nextCursor: str | None
    total: int | None
    truncated: bool


def seal_cursor(call: Call, query: Query, position: Any, *, bound_to: str = "") -> str:
    """A cursor holding `position` (any JSON value). `bound_to` names what else it belongs to, say the path's object."""
    content = {
        "for": _binding(call, query, bound_to),
        "until": (datetime.now(UTC) + CURSOR_LIFE).timestamp(),
        "position": position,
    }
    return encrypt(json.dumps(content, separators=(",", ":")))


def open_cursor(call: Call, query: Query, cursor: str, *, bound_to: str = "") -> Any:
    """The position that `seal_cursor` put in; raises CursorInvalid for any other credential, parameter or time."""
    try:
        content = json.loads(decrypt(cursor))
    except (UndecryptableSecret, ValueError):
        raise CursorInvalid from None
    # An encrypted secret of another kind is no cursor either.
    if not isinstance(content, dict) or content.get("for") != _binding(call, query, bound_to):
        raise CursorInvalid
    if datetime.now(UTC).timestamp() > content["until"]:
        raise CursorInvalid
    return content["position"]


def _binding(call: Call, query: Query, bound_to: str) -> str:
    parameters = query.model_dump(mode="json", exclude={"cursor"})
    caller = [call.credential.kind, call.credential.unique_id, call.surface]
    whole = [*caller, type(query).__qualname__, parameters, bound_to]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def page_of(
    call: Call,
    queryset: QuerySet[Any],
    *,
    query: PageQuery,
    order: tuple[str, ...],
    render: Callable[[Any], ItemT],
    counted: bool = True,
    bound_to: str = "",
) -> Page[ItemT]:
    """One page of a table of the gateway's own, or all of it as a RecordStream where the call asks for one.

    `order` names fields or annotations (`-` before one for descending) that are never NULL, the last one unique. The
    rows are counted once, for the first page, unless `counted` is False.
    """
    if call.stream_as is not None:
        # A surface that asks for a stream takes one; nobody else gets anything but the page that the type promises.
        return cast(Page[ItemT], _stream(queryset, call.stream_as, order, render))
    bound_to = f"{queryset.model._meta.label} {' '.join(order)} {bound_to}"
    if query.cursor is None:
        total = queryset.count() if counted else None
    else:
        position = open_cursor(call, query, query.cursor, bound_to=bound_to)
        total = position["total"]
        queryset = queryset.filter(_after(queryset, order, position["keys"]))
    rows = list(queryset.order_by(*order)[: query.page_size + 1])
    next_cursor = None
    if len(rows) > query.page_size:
        rows.pop()
        next_cursor = seal_cursor(call, query, {"keys": _keys(rows[-1], order), "total": total}, bound_to=bound_to)
    return {"items": [render(row) for row in rows], "nextCursor": next_cursor, "total": total, "truncated": False}


def _stream(
    queryset: QuerySet[Any], form: StreamFormat, order: tuple[str, ...], render: Callable[[Any], Any]
) -> RecordStream:
    """All rows, read a few at a time; a failure before the first of them is raised here."""
    parts = _parts(queryset, order, render)
    first = next(parts, [])
    return RecordStream(parts=chain([first], parts), form=form)


def _parts(
    queryset: QuerySet[Any], order: tuple[str, ...], render: Callable[[Any], Any]
) -> Iterator[list[dict[str, Any]]]:
    """By key, too: neither a cursor of the database nor a transaction is held while a client reads slowly."""
    rows = list(queryset.order_by(*order)[:_STREAMED_AT_ONCE])
    while rows:
        yield [render(row) for row in rows]
        rest = queryset.filter(_after(queryset, order, _keys(rows[-1], order)))
        rows = list(rest.order_by(*order)[:_STREAMED_AT_ONCE]) if len(rows) == _STREAMED_AT_ONCE else []


def _keys(row: Any, order: tuple[str, ...]) -> list[str]:
    return [_as_text(getattr(row, name.lstrip("-"))) for name in order]


def _as_text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _after(queryset: QuerySet[Any], order: tuple[str, ...], keys: list[str]) -> Q:
    """The rows behind the one with these keys: (a, b) > (x, y), written out, as directions may differ."""
    behind = Q()
    equal = Q()
    for name, text in zip(order, keys, strict=True):
        field, step = name.lstrip("-"), "lt" if name.startswith("-") else "gt"
        value = _parsed(queryset, field, text)
        behind |= equal & Q(**{f"{field}__{step}": value})
        if not equal:
            bound = Q(**{f"{field}__{step}e": value})  # implied, but an index can be entered by it
        equal &= Q(**{field: value})
    return bound & behind


def _parsed(queryset: QuerySet[Any], name: str, text: str) -> Any:
    try:
        field: Field[Any, Any] = queryset.model._meta.get_field(name)
    except FieldDoesNotExist:
        field = queryset.query.annotations[name].output_field
    try:
        return field.to_python(text)
    except ValidationError:
        raise CursorInvalid from None
