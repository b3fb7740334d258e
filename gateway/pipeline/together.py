"""Several changes of the gateway's own tables in one commit, or none of them: what commands do for an administrator."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from audit.model_changes.descriptions import Changed
from core.call import Call
from core.errors import GatewayError
from core.operation import Effect, Operation, find_operation
from directory import errors as directory_errors
from gateway.pipeline.inputs import Inputs
from gateway.pipeline.perform import administer
from gateway.pipeline.prepare import require_admitted
from gateway.pipeline.recording import record_refusal


@dataclass(slots=True)
class Together:
    """Performs operations on the gateway's own tables inside the caller's transaction."""

    call: Call
    made: list[Changed]
    """What became different so far."""
    _last: tuple[Operation, Mapping[str, str]] | None = None

    def perform(self, name: str, *, body: Any = None, **arguments: Any) -> Any:
        """The answer of an operation, after the same checks as on every surface; raises GatewayError."""
        operation = find_operation(name)
        if operation.effect is not Effect.ADMINISTER:
            raise ValueError(f"{name} does not change the gateway's own tables")
        given = {argument: str(value) for argument, value in arguments.items()}
        self._last = operation, given
        require_admitted(operation, self.call)
        inputs = Inputs(arguments=given, query=dict, document=lambda: body)
        accepted, call = inputs.validate(operation, self.call)
        with directory_errors.translated():
            result, made = administer(operation, call, accepted)
        self._last = None
        self.made += made
        return result

    def record_refusal(self, refusal: GatewayError) -> None:
        """Record which operation was refused, once the transaction is over."""
        if self._last is not None:
            operation, arguments = self._last
            record_refusal(operation, self.call, arguments, refusal.code)


@contextmanager
def all_or_nothing(call: Call, *, dry_run: bool = False) -> Iterator[Together]:
    """Perform operations in one transaction; a refusal takes all of them back, and a dry run does so at the end."""
    together = Together(call, [])
    try:
        with transaction.atomic():
            yield together
            transaction.set_rollback(dry_run)
    except GatewayError as refusal:
        if not dry_run:
            together.record_refusal(refusal)
        raise
