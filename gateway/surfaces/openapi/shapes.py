"""The shapes that many operations answer with and none of them declares: problems, dry runs, held changes."""

from typing import Annotated

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from audit.redact import ChangeJson
from gateway.core.operation import Risk


class ProblemField(TypedDict):
    """What is wrong with one member of the body (`pointer`) or one parameter or header (`parameter`)."""

    pointer: NotRequired[Annotated[str, Field(description="A JSON pointer such as `#/replace/mail`.")]]
    parameter: NotRequired[str]
    code: str
    detail: str


class Problem(TypedDict):
    """RFC 9457 problem details. Some codes add members, such as `maxBodyBytes`."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: Annotated[str, Field(description="Stable, for programs: `AD.Object.NotFound`.")]
    requestId: str
    errors: NotRequired[list[ProblemField]]


class DryRun(TypedDict):
    """What a change would do. Nothing was changed and nothing queued."""

    dryRun: bool
    wouldQueue: bool
    risk: Risk
    changes: list[ChangeJson]
    warnings: list[str]
