"""The shapes of problem details (RFC 9457), as errors describe themselves."""

from typing import Annotated

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from core.shapes import documented_as


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
