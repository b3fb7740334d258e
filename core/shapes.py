"""Input shapes: strict pydantic models for bodies and queries, whose errors become problem details (RFC 9457).

Output shapes are TypedDicts, which cost nothing at run time. Both describe themselves in OpenAPI.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, TypeVar, cast
from uuid import UUID

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticKnownError, PydanticSerializationError, to_json
from typing_extensions import NotRequired, TypedDict

from core.errors import FieldError, GatewayError, InvalidRequest, UnknownMember, UnknownParameter
from core.text.messages import Message, join_messages, message

_DASHED_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
# datetime.fromisoformat also reads most of ISO 8601, and offsets of 99 minutes, which RFC 3339 does not allow.
RFC3339 = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
"""The pattern of timestamps, also in OpenAPI."""


def _parse_guid(value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    # UUID() itself also takes braces, urn: and missing dashes; an identifier has one form here.
    if isinstance(value, str) and (guid := _guid_of(value)) is not None:
        return guid
    raise ValueError(message("must be a dashed UUID"))


@lru_cache(maxsize=4096)
def _guid_of(text: str) -> UUID | None:  # a request reads the same one several times
    return UUID(text) if _DASHED_UUID.fullmatch(text) else None


def parse_guid(value: str) -> UUID | None:
    """The UUID written in dashed form, in any case; None if the text is not one."""
    return _guid_of(value)


def parse_timestamp(value: Any) -> datetime:
    """The time that RFC 3339 text stands for, in UTC; raises ValueError with a message."""
    if not isinstance(value, str) or not re.fullmatch(RFC3339, value):
        raise ValueError(message("must be an RFC 3339 timestamp with an offset or Z"))
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except ValueError:
        raise ValueError(message("must be an RFC 3339 timestamp of a day and time that exist")) from None
    except OverflowError:
        raise ValueError(message("must be a time between the years 1 and 9999 in UTC")) from None


_DURATION = re.compile(r"P(?:(\d{1,3})W|(?:(\d{1,3})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?)")


def parse_duration(value: Any) -> timedelta:
    """The while that ISO 8601 text without months and years stands for; raises ValueError with a message."""
    parts = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    numbers = [int(part or 0) for part in parts.groups()] if parts else []
    if not any(numbers):
        raise ValueError(message("must be an ISO 8601 duration of weeks, days, hours, minutes and seconds"))
    return timedelta(**dict(zip(("weeks", "days", "hours", "minutes", "seconds"), numbers, strict=True)))


def render_duration(lasts: timedelta) -> str:
    """A duration as ISO 8601 text in the largest unit, up to days, that divides it: `PT90M`."""
    seconds = int(lasts.total_seconds())
    units = {86_400: "P{}D", 3_600: "PT{}H", 60: "PT{}M", 1: "PT{}S"}
    return next(text.format(seconds // unit) for unit, text in units.items() if seconds % unit == 0)


def _split_commas(value: Any) -> Any:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return value


def _parse_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise ValueError(message("must be true or false"))


def _parse_whole_number(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,9}", value):
        raise ValueError(message("must be a whole number"))
    return value


def render_timestamp(value: datetime | None) -> str | None:
    """RFC 3339 in UTC with Z, the form of every timestamp in an answer."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Guid = Annotated[UUID, BeforeValidator(_parse_guid), WithJsonSchema({"type": "string", "format": "uuid"})]
Timestamp = Annotated[
    datetime,
    BeforeValidator(parse_timestamp),
    PlainSerializer(render_timestamp),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(render_duration),
    WithJsonSchema({"type": "string", "pattern": "^P"}),
]
Id = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
"""A UUID of an answer, dashed and in lower case."""
Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A timestamp of an answer, as `render_timestamp` makes it."""


Json = dict[str, Any]
"""A JSON object."""
RecordT = TypeVar("RecordT", bound=Mapping[str, Any])
_snake = cache(to_snake)  # a page has thousands of members, of a few names


def as_record(shape: type[RecordT], row: object, **given: Any) -> RecordT:
    """Build an answer of a shape from `given` members and, for the others, the row's attributes of the same name.

    UUIDs become text, datetimes RFC 3339 and durations ISO 8601. Optional members are included only if given.
    """
    optional: frozenset[str] = getattr(shape, "__optional_keys__", frozenset())
    names = (name for name in shape.__annotations__ if name in given or name not in optional)
    return cast(
        RecordT, {name: given[name] if name in given else _rendered(getattr(row, _snake(name))) for name in names}
    )


def _rendered(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, timedelta):
        return render_duration(value)
    return render_timestamp(value) if isinstance(value, datetime) else value


def documented_as(shape: Any) -> GetPydanticSchema:
    """Document a member whose Python type says less than its shape: a value of an enumeration, JSON as it is stored."""
    return GetPydanticSchema(lambda _, handler: handler(shape))


class ProblemField(TypedDict):
    """What is wrong with one member of the body (`pointer`) or one parameter or header (`parameter`)."""

    pointer: NotRequired[Annotated[str, Field(description="A JSON pointer such as `#/replace/mail`.")]]
    parameter: NotRequired[str]
    code: str
    detail: str


class KeptProblem(TypedDict):
    """Why something failed that no response tells of by itself: a problem without `instance` and `requestId`.

    Some codes add members.
    """

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Field(description="Stable, for programs: `AD.Object.NotFound`.")]
    errors: NotRequired[list[ProblemField]]


class Problem(KeptProblem):
    """RFC 9457 problem details. Some codes add members, such as `maxBodyBytes`."""

    instance: str
    requestId: str


KEPT_PROBLEM = documented_as(KeptProblem)
"""Documents a problem that is stored as JSON."""


Flag = Annotated[bool, BeforeValidator(_parse_flag), WithJsonSchema({"type": "boolean"})]
"""A boolean of a query: `true` or `false`, nothing else."""
WHOLE_NUMBER = BeforeValidator(_parse_whole_number)
"""An `int` of a query: plain digits, and no other spelling that Python accepts (`1_000`, `+1`)."""
COMMA_SEPARATED = BeforeValidator(_split_commas)
CommaList = Annotated[tuple[str, ...], COMMA_SEPARATED]
"""A list of a query: values separated by commas, or the parameter repeated."""


class Body(BaseModel):
    """Base of request bodies: camelCase members, no coercion, no unknown members."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
    )

    forms: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Bodies that exclude each other, by the name of their component, with the members that only this one has.

    It needs one of them. OpenAPI describes the body as one of these: a single shape would say nothing of it.
    """


def example(**members: Any) -> ConfigDict:
    """The model configuration of a request body with one example of it."""
    return examples(members)


def examples(*bodies: dict[str, Any]) -> ConfigDict:
    """The model configuration of a request body with several examples of it."""
    return ConfigDict(**Body.model_config, json_schema_extra={"examples": [*bodies]})


class PartialBody(Body):
    """Base of bodies in which an absent member means what no value can say, mostly "unchanged".

    They document no defaults: a generated client sends every default it knows and so would change what its user never
    mentioned.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        for member in handler.resolve_ref_schema(schema).get("properties", {}).values():
            without_default(member)
        return schema


class PartialUpdate(PartialBody):
    """Base of bodies that update what another body created: `class UpdateRole(CreateRole, PartialUpdate)`.

    It has the members of the creation except the `fixed` ones, and requires none. `sent_values` tells which count.
    """

    fixed: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for name in cls.fixed:
            del cls.model_fields[name]
        for field in cls.model_fields.values():
            if field.is_required():
                field.default = None
        cls.model_rebuild(force=True)

    def sent_values(self) -> dict[str, Any]:
        """The values of the members that the caller sent, by field name."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def without_default(schema: dict[str, Any]) -> None:
    """Document no default for a member or parameter that some requests must not carry."""
    schema.pop("default", None)


class Query(BaseModel):
    """Base of query strings: camelCase parameters, values parsed from text, no unknown parameters.

    A shape that allows others has schemas of the most usual ones in `documented`.
    """

    documented: ClassVar[Mapping[str, JsonSchemaValue]] = MappingProxyType({})

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=False, validate_by_alias=True
    )


class NoQuery(Query):
    """An operation without parameters."""


@cache
def list_parameters(shape: type[Query]) -> frozenset[str]:
    """The names of the query parameters that are lists and may therefore be repeated."""
    described = shape.model_json_schema(by_alias=True).get("properties", {})
    return frozenset(
        name
        for name, schema in described.items()
        if any(choice.get("type") == "array" for choice in (schema, *schema.get("anyOf", ())))
    )


ShapeT = TypeVar("ShapeT", bound=BaseModel)


def load_body(shape: type[ShapeT], document: Any) -> ShapeT:
    """Validate a parsed JSON document. Raises UnknownMember or InvalidRequest, with a JSON pointer to each offender."""
    if not isinstance(document, dict):
        raise InvalidRequest.naming(
            message("must be a JSON object"), pointer="#", sentence=message("The body must be a JSON object.")
        )
    try:
        return shape.model_validate(document)
    except ValidationError as refusal:
        raise _refusal(refusal, in_query=False) from None


@cache
def _without_parameters(shape: type[ShapeT]) -> ShapeT:
    return shape.model_validate({})


def load_query(shape: type[ShapeT], parameters: Mapping[str, object]) -> ShapeT:
    """Validate query parameters, given as text or as parsed values.

    Raises UnknownParameter or InvalidRequest, which names each offender.
    """
    try:
        return shape.model_validate(dict(parameters)) if parameters else _without_parameters(shape)
    except ValidationError as refusal:
        raise _refusal(refusal, in_query=True) from None


_ENUM_MEMBER = re.compile(r"<\w+\.\w+: ('[^']*')>")


def _refusal(refusal: ValidationError, *, in_query: bool) -> GatewayError:
    unknown: type[GatewayError] = UnknownParameter if in_query else UnknownMember
    errors = []
    found_unknown = False
    found = refusal.errors(include_url=False, include_input=False)
    for error in found:
        if error["type"] == "too_short" and any(error["loc"] == other["loc"][:-1] for other in found):
            continue  # pydantic did not count the invalid item, which has an error of its own
        is_unknown = error["type"] == "extra_forbidden"
        found_unknown |= is_unknown
        detail = message("is not known here") if is_unknown else _detail(error)
        code = unknown.code if is_unknown else InvalidRequest.code
        if in_query:
            errors.append(FieldError(code, detail, parameter=str(error["loc"][0]) if error["loc"] else ""))
        else:
            path = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in error["loc"])
            errors.append(FieldError(code, detail, pointer="#" + path))
    named = (
        message("{where}: {detail}", where=item.parameter if in_query else item.pointer, detail=item.detail)
        for item in errors
    )
    return (unknown if found_unknown else InvalidRequest)(join_messages(named), errors=errors)


def _detail(error: ErrorDetails) -> str:
    """The complaint of pydantic, or of one of our validators, as a translatable message."""
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        said = context["error"].args[0]
        return said if isinstance(said, Message) else str(said)
    if "expected" in context:
        context["expected"] = _ENUM_MEMBER.sub(r"\1", context["expected"])
    template = PydanticKnownError(cast("Any", error["type"]), context).message_template
    counted = context.get("min_length", context.get("max_length"))
    made, text = message(template, **context, expected_plural="" if counted == 1 else "s"), error["msg"]
    # Programs read pydantic's English: the message is used only if its template gives the same sentence.
    return made if made == _ENUM_MEMBER.sub(r"\1", text) else text


class Encoded(bytes):
    """A record as JSON."""


class EncodedWhole(dict[str, Any]):
    """A record as JSON, and besides some of its members as they are. Only a whole answer may be one."""

    json: Encoded


_NO_ITEMS = b'{"items":['


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON. Octets are text; those that are not UTF-8 become U+FFFD.

    Records that are Encoded already stand alone, or are the `items` of a page, which come first in it.
    """
    if isinstance(value, Encoded):
        return value
    if isinstance(value, EncodedWhole):
        return value.json
    if isinstance(value, dict) and (items := value.get("items")) and isinstance(items[0], Encoded):
        parts = list(items)  # a page of a thousand is a megabyte, which is put together in one go
        parts[0] = _NO_ITEMS + parts[0]
        parts[-1] += encode_json({**value, "items": []}).removeprefix(_NO_ITEMS)
        return b",".join(parts)
    try:
        return to_json(value)
    except PydanticSerializationError:
        return to_json(_decoded(value))


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {name: _decoded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_decoded(inner) for inner in value]
    return value
