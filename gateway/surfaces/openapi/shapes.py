"""The shape that all changes of the directory answer with and none of them declares."""

from typing import Literal

from typing_extensions import TypedDict

from audit.redact import ChangeJson
from core.operation import Risk


class DryRun(TypedDict):
    """What a change would do. Nothing was changed and nothing queued."""

    dryRun: Literal[True]
    wouldQueue: bool
    risk: Risk
    changes: list[ChangeJson]
    warnings: list[str]
