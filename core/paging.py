"""Pages of a list: the query, the answer and the cursor that leads to the next page.

Authenticated encryption seals the cursor: it works in every process and after a restart, reveals nothing and cannot be
forged. It is bound to the credential and the parameters it was made with. Lists of our own tables use keyset
pagination (`page_of`): rows that come or go in between make no other row appear twice or not at all.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, cast

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import Field, Q, QuerySet
from pydantic import Field as Limits
from typing_extensions import TypedDict

from core.call import Call, RecordStream, StreamFormat
from core.errors import FieldError, GatewayError
from core.secrets.encryption import UndecryptableSecret, decrypt, encrypt
from core.shapes import WHOLE_NUMBER, Moment, Query, without_default
from core.text.messages import message

CURSOR_LIFE = timedelta(hours=24)
_NEW = frozenset({"expand"})
"""Parameters that the release before does not know: without them, its cursors go on here, and ours there."""
_STREAMED_AT_ONCE = 500
"""Rows of a stream that are in memory at a time."""

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


class SearchedPage(Page[ItemT], Generic[ItemT]):
    """A page of a search that stops after a while. `searchedBackTo` says how far it has come, null if it has not.

    Then the page may have few items or none, and `nextCursor` leads to where the search continues.
    """

    searchedBackTo: Moment | None


class Found(NamedTuple):
    """The rows that a search has found, and if it has stopped the keys down to which it has searched."""

    rows: list[Any]
    stopped_at: list[str] | None = None


SearchRows = Callable[[QuerySet[Any], int, list[str] | None], Found]
"""Finds rows of a list in its order: how many, and after the row with these keys."""


def seal_cursor(call: Call, query: Query, position: Any, *, bound_to: str = "") -> str:
    """Make a cursor that holds `position` (any JSON value). `bound_to` names what else it is for: the path's object."""
    content = {
        "for": _binding(call, query, bound_to),
        "until": (datetime.now(UTC) + CURSOR_LIFE).timestamp(),
        "position": position,
    }
    return encrypt(json.dumps(content, separators=(",", ":")))


def open_cursor(call: Call, query: Query, cursor: str, *, bound_to: str = "") -> Any:
    """The position in a cursor. Raises CursorInvalid if it has expired or belongs to another credential or query."""
    try:
        content = json.loads(decrypt(cursor))
    except (UndecryptableSecret, ValueError):
        raise CursorInvalid from None
    # Whatever else the gateway encrypts with the same keys decrypts too, but is not a cursor.
    if not isinstance(content, dict) or content.get("for") != _binding(call, query, bound_to):
        raise CursorInvalid
    if datetime.now(UTC).timestamp() > content["until"]:
        raise CursorInvalid
    return content["position"]


def _binding(call: Call, query: Query, bound_to: str) -> str:
    parameters = query.model_dump(mode="json", exclude={"cursor"})
    for name in _NEW.intersection(parameters):
        if parameters[name] is None:
            del parameters[name]
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
    search: SearchRows | None = None,
) -> Page[ItemT]:
    """One page of one of our own tables, or all of it as a RecordStream if the call asks for one.

    `order` names fields or annotations that are never NULL, `-` for descending; the last one is unique. Rows are
    counted once, for the first page, unless it has them all, or `counted` is False. `search` reads them in a way of its
    own.
    """
    search = search or partial(_find_rows, order)
    if call.stream_as is not None:
        # Only a surface that asked for a stream gets one; everybody else gets the page that the type promises.
        return cast(Page[ItemT], _stream(queryset, call.stream_as, order, render, search))
    bound_to = f"{queryset.model._meta.label} {' '.join(order)} {bound_to}"
    keys = total = None
    if query.cursor is not None:
        position = open_cursor(call, query, query.cursor, bound_to=bound_to)
        keys, total = position["keys"], position["total"]  # from the first page: counting can cost more than a page
    rows, next_keys = search(queryset, query.page_size + 1, keys)
    if len(rows) > query.page_size:
        rows.pop()
        next_keys = _keys(rows[-1], order)
    if query.cursor is None and counted:
        total = len(rows) if next_keys is None else queryset.count()
    next_cursor = None
    if next_keys is not None:
        next_cursor = seal_cursor(call, query, {"keys": next_keys, "total": total}, bound_to=bound_to)
    return {"items": [render(row) for row in rows], "nextCursor": next_cursor, "total": total, "truncated": False}


def _find_rows(order: tuple[str, ...], queryset: QuerySet[Any], count: int, after: list[str] | None) -> Found:
    if after is not None:
        names = (name.lstrip("-") for name in order)
        values = {name: _parsed(queryset, name, text) for name, text in zip(names, after, strict=True)}
        queryset = queryset.filter(rows_after(order, values))
    return Found(list(queryset.order_by(*order)[:count]))


def _stream(
    queryset: QuerySet[Any],
    form: StreamFormat,
    order: tuple[str, ...],
    render: Callable[[Any], Any],
    search: SearchRows,
) -> RecordStream:
    """All rows, read a few at a time. A failure before the first is raised here, while the status can still tell it."""
    parts = _parts(queryset, order, render, search)
    first = next(parts, [])
    return RecordStream(parts=chain([first], parts), form=form)


def _parts(
    queryset: QuerySet[Any], order: tuple[str, ...], render: Callable[[Any], Any], search: SearchRows
) -> Iterator[list[dict[str, Any]]]:
    """Read by key, too: a client that reads slowly must not keep a database cursor or a transaction open."""
    keys = None
    while True:
        rows, stopped_at = search(queryset, _STREAMED_AT_ONCE, keys)
        if not rows and stopped_at is None:
            return
        yield [render(row) for row in rows]
        keys = stopped_at or _keys(rows[-1], order)
        if stopped_at is None and len(rows) < _STREAMED_AT_ONCE:
            return


def _keys(row: Any, order: tuple[str, ...]) -> list[str]:
    return [_as_text(getattr(row, name.lstrip("-"))) for name in order]


def _as_text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def rows_after(order: Sequence[str], values: Mapping[str, Any]) -> Q:
    """The rows after the one with these values: (a, b) > (x, y), spelled out because directions may differ."""
    behind, equal = Q(), Q()
    for name in order:
        field, step = name.lstrip("-"), "lt" if name.startswith("-") else "gt"
        behind |= equal & Q(**{f"{field}__{step}": values[field]})
        if not equal:
            bound = Q(**{f"{field}__{step}e": values[field]})  # redundant, but lets the database start in its index
        equal &= Q(**{field: values[field]})
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
