"""Whom a provider's claim names: one present, enabled account of the connected directories, or nobody."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from active_directory import Equals, text_to_sid
from core.configuration_sections import OidcProvider
from directory.models import DirectoryConnection
from keys.people.account_status import departure_reason
from keys.sign_in.credentials import Account, accounts_where
from keys.sign_in.oidc.tokens import NotVerified


def find_account(provider: OidcProvider, claims: Mapping[str, Any]) -> Account:
    """The account that the claim names; raises NotVerified if it is not exactly one, and the error of a directory that
    does not answer: it might have another one.
    """
    condition = _condition(provider, claims.get(provider.Claim))
    connections = DirectoryConnection.objects.filter(enabled=True)
    if provider.Directory:
        connections = connections.filter(name__iexact=provider.Directory)
    found: list[Account] = []
    for connection in connections.order_by("name"):
        found += accounts_where(connection, condition)
    if len(found) != 1:
        raise NotVerified(f"{provider.Claim} names {'several accounts' if found else 'no account'}")
    account = found[0]
    assert account.entry is not None
    if "userAccountControl" not in account.entry:
        raise NotVerified("the gateway's account may not read whether the account is enabled")
    if reason := departure_reason(account.client, account.entry):
        raise NotVerified(reason)
    return account


def _condition(provider: OidcProvider, value: object) -> Equals:
    if not isinstance(value, str) or not value or "\0" in value:
        raise NotVerified(f"there is no {provider.Claim}, or it is no text")
    try:
        if provider.ClaimNames == "objectGUID":
            return Equals("objectGUID", _guid(value).bytes_le)
        if provider.ClaimNames == "objectSid":
            return Equals("objectSid", text_to_sid(value))
    except (ValueError, binascii.Error) as error:
        raise NotVerified(f"{provider.Claim} is no {provider.ClaimNames}") from error
    return Equals("userPrincipalName", value)


def _guid(text: str) -> UUID:
    """A GUID as text, or its octets in base64, as AD FS and Entra ID write them."""
    try:
        return UUID(text)
    except ValueError:
        return UUID(bytes_le=base64.b64decode(text, validate=True))
