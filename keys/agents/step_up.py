"""Steps up to a scope: an agent tries what its person has not consented to yet, and its program asks them for it.

The person decides on the consent page, as at the first time. Nothing is asked for that they have taken away there or
may not do themselves, and nothing for agents whose program cannot ask: those with an issued token.
"""

from django.http import HttpRequest

from core.call import Call
from core.errors import GatewayError
from keys.agents.metadata import resource_metadata_of
from keys.agents.scopes import SCOPES, WITHDRAW_ALL, known_scopes, missing_scopes
from keys.models.agents import AgentGrant
from keys.permissions.cache import access_of_person


class InsufficientScope(GatewayError):
    """The agent's person could allow this, and has not been asked (RFC 6750 section 3.1)."""

    status, code, title = 403, "Auth.InsufficientScope", "The agent's program has to ask its person for more"


def consentable(call: Call) -> frozenset[str]:
    """The permissions that the agent's person could let it have besides those of the call."""
    return frozenset[str]().union(*_offers(call)[1].values())


def lacking_scopes(call: Call, missing: frozenset[str]) -> list[str]:
    """The scopes that the agent has not got and that bring any of these permissions."""
    return missing_scopes(_offers(call)[0], missing)


def challenge(request: HttpRequest, call: Call, missing: frozenset[str]) -> InsufficientScope | None:
    """The answer that makes a program ask its person for the scopes with these permissions; None if they lack one."""
    granted, offers = _offers(call)
    needed: list[str] = []
    for name, brings in offers.items():
        if missing & brings:
            needed.append(name)
            missing -= brings
    if missing or not needed:
        return None
    scope, metadata = " ".join(known_scopes([*granted, *needed])), resource_metadata_of(request)
    told = f'Bearer realm="directory-gateway", error="insufficient_scope", scope="{scope}"'
    return InsufficientScope(
        f"This needs the scope {' and '.join(needed)}, which the person has not been asked for.",
        headers={"WWW-Authenticate": f'{told}, resource_metadata="{metadata}"'},
    )


def _offers(call: Call) -> tuple[list[str], dict[str, frozenset[str]]]:
    """The scopes that the agent has, and those its person could add now, each with the permissions that it brings."""
    grant = AgentGrant.objects.select_related("person").filter(pk=call.credential.unique_id).first()
    if grant is None or grant.refused_scopes is None:
        return [] if grant is None else grant.scopes, {}
    held = access_of_person(grant.person).permissions
    # A scope without permissions stands for itself.
    given = call.permissions if call.credential.withdraws_own_only else call.permissions | {WITHDRAW_ALL}
    offers = {
        name: (scope.permissions & held if scope.permissions else frozenset({name})) - given
        for name, scope in SCOPES.items()
        if name not in grant.refused_scopes
    }
    return grant.scopes, {name: brings for name, brings in offers.items() if brings}
