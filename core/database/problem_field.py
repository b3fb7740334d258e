"""The column of a refusal that is kept: its problem details, and what its sentence was made of."""

from typing import Any

from django.db import models

from core.text.messages import worded, wording_of

_WORDING = "wording"


class ProblemField(models.JSONField):
    """Problem details as an answer has them. Their `detail` is the message that it was when it was kept."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        problem = super().from_db_value(value, expression, connection)
        if isinstance(problem, dict) and (wording := problem.pop(_WORDING, None)):
            problem["detail"] = worded(problem["detail"], wording)
        return problem

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if isinstance(value, dict) and (wording := wording_of([value.get("detail", "")])):
            value = {**value, _WORDING: wording}
        return super().get_db_prep_value(value, connection, prepared)

    def deconstruct(self) -> Any:
        name, _path, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs
