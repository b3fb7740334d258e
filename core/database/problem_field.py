"""A column for problem details that keeps the template and values of their sentence, so that it can be translated."""

from typing import Any

from django.db import models

from core.text.messages import restore_message, wording_of

_WORDING = "wording"


class ProblemField(models.JSONField):
    """Problem details as in an answer; `detail` is read back as the Message that was stored."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        problem = super().from_db_value(value, expression, connection)
        if isinstance(problem, dict) and (wording := problem.pop(_WORDING, None)):
            problem["detail"] = restore_message(problem["detail"], wording)
        return problem

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if isinstance(value, dict) and (wording := wording_of([value.get("detail", "")])):
            value = {**value, _WORDING: wording}
        return super().get_db_prep_value(value, connection, prepared)

    def deconstruct(self) -> Any:
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs
