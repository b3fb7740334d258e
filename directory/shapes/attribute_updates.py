"""The four kinds of attribute updates of a write (replace, add, remove, clear): their shape, limits and consistency.

What they mean for an entry, and whether the schema allows it, is in `modifications`.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from typing_extensions import Self

from core.shapes import Part
from core.text.messages import message
from directory import errors

MAX_NAMES = 100
MAX_VALUES = 1000
MAX_VALUE_BYTES = 262_144


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise ValueError(message("must be a string or a list of strings"))  # noqa: TRY004 - pydantic reports ValueError
    return value


def _refuse_on_create(value: Any) -> Any:
    if value:
        raise ValueError(message("a new object has nothing to remove or clear"))
    return value


def _must_be_empty(limit: str) -> Any:
    return Field(description="Must be empty.", json_schema_extra={limit: 0})


Values = Annotated[
    list[str],
    BeforeValidator(_as_list),
    WithJsonSchema({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
AttributeUpdate = dict[str, Values]


class AttributeUpdates(Part):
    """The attribute updates of a write. An attribute in `replace` or `clear` may be in no other."""

    replace: Annotated[AttributeUpdate, Field(description="Attributes that shall have exactly these values.")] = {}
    add: Annotated[AttributeUpdate, Field(description="Values to add; one that is present already is no change.")] = {}
    remove: Annotated[AttributeUpdate, Field(description="Values to remove; one that is absent is no change.")] = {}
    clear: Annotated[list[str], Field(description="Attributes that shall have no value.")] = []


class RequestedUpdates(AttributeUpdates):
    """The attribute updates of a request, which carries no more than one write may.

    Raises AttributesTooMany, TooManyValues or ValueTooLong when all else of its shape is right.
    """

    @model_validator(mode="after")
    def _require_limits(self) -> Self:
        check_limits(self)
        return self


class CreateAttributes(RequestedUpdates):
    """The attribute updates of a new object: `replace` and `add` mean the same, the others have no meaning."""

    remove: Annotated[AttributeUpdate, BeforeValidator(_refuse_on_create), _must_be_empty("maxProperties")] = {}
    clear: Annotated[list[str], BeforeValidator(_refuse_on_create), _must_be_empty("maxItems")] = []


def named_updates(updates: AttributeUpdates) -> Iterator[tuple[str, AttributeUpdate]]:
    """The updates that hold values, each with its name."""
    yield from (("replace", updates.replace), ("add", updates.add), ("remove", updates.remove))


def attribute_names(updates: AttributeUpdates) -> frozenset[str]:
    """All attribute names of all updates, in lower case: a name counts once however it is written."""
    return frozenset(name.lower() for _, update in named_updates(updates) for name in update) | {
        name.lower() for name in updates.clear
    }


def pointer(*parts: str) -> str:
    """The JSON pointer of a member of the body."""
    return "#" + "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def check_limits(updates: AttributeUpdates) -> None:
    """Refuse more names, values or bytes than a write may carry, before anything reaches the directory.

    Raises AttributesTooMany, TooManyValues or ValueTooLong; exactly the limit passes. A value is measured in bytes of
    UTF-8 as sent, so binary values by their base64.
    """
    names = attribute_names(updates)
    if len(names) > MAX_NAMES:
        raise errors.AttributesTooMany(
            message(
                "{count} different attributes are named; at most {limit} may be.",
                count=len(names),
                limit=MAX_NAMES,
            ),
            maxAttributes=MAX_NAMES,
        )
    for update_name, update in named_updates(updates):
        counts: dict[str, int] = {}
        for name, values in update.items():
            where = pointer(update_name, name)
            counts[name.lower()] = counts.get(name.lower(), 0) + len(values)
            if counts[name.lower()] > MAX_VALUES:
                detail = message("more than {count} values for one attribute", count=MAX_VALUES)
                raise errors.TooManyValues.naming(
                    detail,
                    pointer=where,
                    subject=name,
                    maxValues=MAX_VALUES,
                )
            if any(len(value) * 4 > MAX_VALUE_BYTES and len(value.encode()) > MAX_VALUE_BYTES for value in values):
                detail = message("a value longer than {count} bytes", count=MAX_VALUE_BYTES)
                raise errors.ValueTooLong.naming(
                    detail,
                    pointer=where,
                    subject=name,
                    maxValueBytes=MAX_VALUE_BYTES,
                )


def require_consistency(updates: AttributeUpdates) -> None:
    """Refuse updates that contradict each other. Raises AttributesConflict.

    An attribute that is replaced or cleared is in no other update and written in one way only; no value is both added
    and removed.
    """
    exclusive: dict[str, str] = {}
    cleared = sorted({name.lower() for name in updates.clear})
    for update_name, names in (
        ("replace", updates.replace),
        ("clear", cleared),
        ("add", updates.add),
        ("remove", updates.remove),
    ):
        for name in names:
            if name.lower() in exclusive:
                raise _conflict(update_name, name, f"is also in {exclusive[name.lower()]}")
            if update_name in ("replace", "clear"):
                exclusive[name.lower()] = update_name
    removed = {(name.lower(), value) for name, values in updates.remove.items() for value in values}
    for name, values in updates.add.items():
        if any((name.lower(), value) in removed for value in values):
            raise _conflict("add", name, "the same value is added and removed")


def _conflict(update_name: str, name: str, detail: str) -> errors.AttributesConflict:
    return errors.AttributesConflict.naming(detail, pointer=pointer(update_name, name), subject=name)
