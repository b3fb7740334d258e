"""What commands that administer the gateway share: on whose behalf they call operations, and how a refusal is told."""

from dataclasses import replace

from audit.model_changes.unattended import call_of_command
from core.call import Call
from core.errors import GatewayError
from keys.permissions.effective import permissions_of_person


def administrator_call(command: str) -> Call:
    """The call of a command that may administer everything: whoever runs it holds the database and its keys."""
    call = call_of_command(command)
    everything = permissions_of_person(call.person.id, is_active=True, is_superuser=True)
    return replace(call, permissions=everything)


def in_words(refusal: GatewayError) -> str:
    """What an operation refused, with the names of the members."""
    named = (f"{error.pointer}: {error.detail}" if error.pointer else error.detail for error in refusal.errors)
    return "; ".join(named) or refusal.detail
