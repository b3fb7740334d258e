"""After a fail-over the domain controller in use may lack what was changed at another one; no answer hides that.

A change that was judged by an earlier state is refused until the object's own changes have arrived, whatever was found:
nothing to do, another version, no such object, the result of a dry run. Reads are answered, with a header that says
that they may be behind.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from active_directory import servers_asked
from core.call import Call
from core.errors import GatewayError
from core.operation import Operation
from core.streams import RecordStream
from directory.lookup.access import client_of
from directory.lookup.replication import may_lack_changes
from directory.outcomes.replication import require_judged_by_all
from directory.shapes.proposal import Proposal, Target
from gateway.pipeline.inputs import REPLICATION, ValidatedInput

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_PENDING: Final[Mapping[str, str]] = MappingProxyType({REPLICATION: "pending"})
_ABOUT_STATE: Final = frozenset({404, 409, 412})
"""The statuses of refusals that say how things are in the directory."""


def judged_by_all(operation: Operation, call: Call, accepted: ValidatedInput) -> Proposal:
    """The proposal of a change, made from all that the log has of the objects it rests on; raises NotReplicatedYet.

    A refusal for the object's state counts only when no change of it is on its way.
    """
    with servers_asked() as servers:
        try:
            proposal: Proposal = operation.function(call, **accepted.kwargs)
        except GatewayError as refusal:
            if operation.names_object and "id" in accepted.kwargs and refusal.status in _ABOUT_STATE:
                named = Target(accepted.kwargs["id"], operation.resource, "")
                require_judged_by_all(client_of(call), servers, [named])
            raise
    require_judged_by_all(client_of(call), servers, proposal.judged)
    return proposal


def read(operation: Operation, call: Call, accepted: ValidatedInput) -> tuple[Any, Mapping[str, str]]:
    """What a read answers, and the header that it may be behind; a refusal gets that, too."""
    with servers_asked() as servers:
        try:
            result = operation.function(call, **accepted.kwargs)
        except GatewayError as refusal:
            refusal.headers |= _headers(call, servers)
            raise
    if operation.on_directory and isinstance(result, RecordStream) and len(client_of(call).settings.urls) > 1:
        servers.add(client_of(call).choose_server())  # its parts are read while it is written
    return result, _headers(call, servers)


def _headers(call: Call, servers: set[str]) -> Mapping[str, str]:
    if not servers or call.directory is None or not may_lack_changes(client_of(call), servers):
        return _NOTHING
    return _PENDING
