"""Input shapes: strict pydantic models for bodies and queries, and how their errors become problem details.

Output shapes are TypedDicts (no cost at run time), those of problem details (RFC 9457) among them; both kinds describe
themselves in OpenAPI.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
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
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, PydanticKnownError
from typing_extensions import NotRequired, TypedDict

from core.errors import FieldError, GatewayError, InvalidRequest, UnknownMember, UnknownParameter
from core.text.messages import Message, listed, message

_DASHED_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")
# The form that RFC 3339 allows; datetime.fromisoformat reads most of ISO 8601, and offsets of 99 minutes.
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


def _parse_guid(value: Any) -> UUID:
    if isinstance(value, UUID):
        return value
    # UUID() itself also takes braces, urn: and missing dashes; an identifier has one form here.
    if isinstance(value, str) and _DASHED_UUID.fullmatch(value):
        return UUID(value)
    raise ValueError(message("must be a dashed UUID"))


def parse_guid(value: str) -> UUID | None:
    """The UUID a text stands for in its dashed form (any case), else None."""
    try:
        return _parse_guid(value)
    except ValueError:
        return None


def _parse_timestamp(value: Any) -> datetime:
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError(message("must be an RFC 3339 timestamp with an offset or Z"))
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except ValueError:
        raise ValueError(message("must be an RFC 3339 timestamp of a day and time that exist")) from None
    except OverflowError:
        raise ValueError(message("must be a time between the years 1 and 9999 in UTC")) from None


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
    """RFC 3339 in UTC with Z, as every timestamp of every answer."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Guid = Annotated[UUID, BeforeValidator(_parse_guid), WithJsonSchema({"type": "string", "format": "uuid"})]
Timestamp = Annotated[
    datetime,
    BeforeValidator(_parse_timestamp),
    PlainSerializer(render_timestamp),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Id = Annotated[str, WithJsonSchema({"type": "string", "format": "uuid"})]
"""A UUID of an answer, dashed and in lower case."""
Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A timestamp of an answer, as `render_timestamp` makes it."""


def documented_as(shape: Any) -> GetPydanticSchema:
    """How a member of an answer is documented whose Python type says less: a word of an enumeration, a stored shape."""
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
"""Documents a problem that is kept as JSON."""


Flag = Annotated[bool, BeforeValidator(_parse_flag), WithJsonSchema({"type": "boolean"})]
"""A boolean of a query: `true` or `false`, nothing else."""
WHOLE_NUMBER = BeforeValidator(_parse_whole_number)
"""An `int` of a query: digits, without what Python would read besides."""
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


class Part(Body):
    """Base of bodies in which an absent member means something that no value of it means, mostly "unchanged".

    They document no defaults: a generated client sends every default that it knows of, and would change what its user
    never named.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        for member in handler.resolve_ref_schema(schema).get("properties", {}).values():
            without_default(member)
        return schema


class Changes(Part):
    """Base of bodies that change what the body of a creation made: `class UpdateRole(CreateRole, Changes)`.

    Its members are those of the creation but the `fixed` ones, and none is required; a value counts where it is
    `given`.
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

    def given(self) -> dict[str, Any]:
        """The values of the members that were sent, by the names of the fields."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def without_default(schema: dict[str, Any]) -> None:
    """Document no default for a member or parameter that some requests must not carry."""
    schema.pop("default", None)


class Query(BaseModel):
    """Base of query strings: camelCase parameters, values parsed from text, no unknown parameters."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=False, validate_by_alias=True
    )


class NoQuery(Query):
    """An operation without parameters."""


@cache
def list_parameters(shape: type[Query]) -> frozenset[str]:
    """The parameters of a query that are lists, and so may be repeated."""
    described = shape.model_json_schema(by_alias=True).get("properties", {})
    return frozenset(
        name
        for name, schema in described.items()
        if any(choice.get("type") == "array" for choice in (schema, *schema.get("anyOf", ())))
    )


ShapeT = TypeVar("ShapeT", bound=BaseModel)


def load_body(shape: type[ShapeT], document: Any) -> ShapeT:
    """Validate a parsed JSON document; raises UnknownMember or InvalidRequest naming each offender by JSON pointer."""
    if not isinstance(document, dict):
        raise InvalidRequest.naming(
            message("must be a JSON object"), pointer="#", sentence=message("The body must be a JSON object.")
        )
    try:
        return shape.model_validate(document)
    except ValidationError as refusal:
        raise _refusal(refusal, in_query=False) from None


def load_query(shape: type[ShapeT], parameters: Mapping[str, object]) -> ShapeT:
    """Validate query parameters, as text or as what that stands for.

    Raises UnknownParameter or InvalidRequest naming each offender.
    """
    try:
        return shape.model_validate(dict(parameters))
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
            continue  # what is wrong is the item that is there
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
    return (unknown if found_unknown else InvalidRequest)(listed(named), errors=errors)


def _detail(error: ErrorDetails) -> str:
    """What pydantic or a validator of ours says of a value, as a message."""
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        said = context["error"].args[0]
        return said if isinstance(said, Message) else str(said)
    if "expected" in context:
        context["expected"] = _ENUM_MEMBER.sub(r"\1", context["expected"])
    template = PydanticKnownError(cast("Any", error["type"]), context).message_template
    counted = context.get("min_length", context.get("max_length"))
    made, text = message(template, **context, expected_plural="" if counted == 1 else "s"), error["msg"]
    return made if made == _ENUM_MEMBER.sub(r"\1", text) else text
