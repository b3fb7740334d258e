"""The words behind names: of kinds, resources, operations and states, as people read them in their language.

English words are made from the names themselves, so that a name without a translation is still read as words.
"""

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import get_language, pgettext_lazy
from django.utils.translation import gettext_lazy as _


def humanize(name: str) -> str:
    """`organizationalUnit`, `reset-password` and `user_with_spn` as words, in English."""
    text = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return text.replace("-", " ").replace("_", " ").strip()


def noun_label(name: str) -> str:
    """What people call what has this name; English words as they are."""
    text = humanize(name)
    return translate_label(text) if text in _WORDS else text


def translate_label(text: str) -> str:
    """English words in the reader's language; those that are not listed here as they are."""
    return str(_WORDS.get(text, text))


def risk_words(risk: str) -> str:
    """What the risk of a change is called."""
    return str(_RISKS.get(risk, risk))


def capitalized(text: str) -> str:
    """With its first letter as it begins a sentence; German nouns keep theirs."""
    return text[:1].upper() + text[1:]


def in_sentence(label: str) -> str:
    """A label in the middle of a sentence: in English only what is written in capitals stays so."""
    if not (get_language() or "en").startswith("en"):  # German writes its nouns with capitals everywhere
        return label
    first = label.partition(" ")[0]
    return label if first.isupper() or any(letter.isupper() for letter in first[1:]) else label[:1].lower() + label[1:]


def action_phrase(action: str) -> str:
    """What the action of an operation (`reset-password`) does, as a command with a place for its `{object}`."""
    known = _COMMANDS.get(action)
    return str(known) if known is not None else f"{capitalized(humanize(action))} {{object}}"


_RISKS: Final[Mapping[str, Promise]] = {
    "ordinary": pgettext_lazy("risk", "ordinary"),
    "destructive": pgettext_lazy("risk", "destructive"),
    "security": pgettext_lazy("risk", "security"),
}

_WORDS: Final[Mapping[str, Promise]] = {
    # kinds of objects and resources of the gateway, one and many
    "user": pgettext_lazy("word", "user"),
    "users": pgettext_lazy("word", "users"),
    "group": pgettext_lazy("word", "group"),
    "groups": pgettext_lazy("word", "groups"),
    "computer": pgettext_lazy("word", "computer"),
    "computers": pgettext_lazy("word", "computers"),
    "organizational unit": pgettext_lazy("word", "organizational unit"),
    "organizational units": pgettext_lazy("word", "organizational units"),
    "organization unit": pgettext_lazy("word", "organization unit"),
    "organization units": pgettext_lazy("word", "organization units"),
    "service account": pgettext_lazy("word", "service account"),
    "service accounts": pgettext_lazy("word", "service accounts"),
    "contact": pgettext_lazy("word", "contact"),
    "contacts": pgettext_lazy("word", "contacts"),
    "container": pgettext_lazy("word", "container"),
    "containers": pgettext_lazy("word", "containers"),
    "objects of any kind": pgettext_lazy("word", "objects of any kind"),
    "another object": pgettext_lazy("word", "another object"),
    "object": pgettext_lazy("word", "object"),
    "objects": pgettext_lazy("word", "objects"),
    "deleted object": pgettext_lazy("word", "deleted object"),
    "deleted objects": pgettext_lazy("word", "deleted objects"),
    "account": pgettext_lazy("word", "account"),
    "accounts": pgettext_lazy("word", "accounts"),
    "API key": pgettext_lazy("word", "API key"),
    "API keys": pgettext_lazy("word", "API keys"),
    "api key": pgettext_lazy("word", "api key"),
    "api keys": pgettext_lazy("word", "api keys"),
    "person": pgettext_lazy("word", "person"),
    "people": pgettext_lazy("word", "people"),
    "role": pgettext_lazy("word", "role"),
    "roles": pgettext_lazy("word", "roles"),
    "directory": pgettext_lazy("word", "directory"),
    "directories": pgettext_lazy("word", "directories"),
    "directory connection": pgettext_lazy("word", "directory connection"),
    "directory connections": pgettext_lazy("word", "directory connections"),
    "agent": pgettext_lazy("word", "agent"),
    "agents": pgettext_lazy("word", "agents"),
    "agent client": pgettext_lazy("word", "agent client"),
    "agent clients": pgettext_lazy("word", "agent clients"),
    "permission group": pgettext_lazy("word", "permission group"),
    "permission groups": pgettext_lazy("word", "permission groups"),
    "permission": pgettext_lazy("word", "permission"),
    "permissions": pgettext_lazy("word", "permissions"),
    "saved filter": pgettext_lazy("word", "saved filter"),
    "saved filters": pgettext_lazy("word", "saved filters"),
    "change request": pgettext_lazy("word", "change request"),
    "change requests": pgettext_lazy("word", "change requests"),
    "operation": pgettext_lazy("word", "operation"),
    "operations": pgettext_lazy("word", "operations"),
    "run": pgettext_lazy("word", "run"),
    "runs": pgettext_lazy("word", "runs"),
    "webhook endpoint": pgettext_lazy("word", "webhook endpoint"),
    "webhook endpoints": pgettext_lazy("word", "webhook endpoints"),
    "webhook delivery": pgettext_lazy("word", "webhook delivery"),
    "webhook deliveries": pgettext_lazy("word", "webhook deliveries"),
    "schema": pgettext_lazy("word", "schema"),
    "health": pgettext_lazy("word", "health"),
    "me": pgettext_lazy("word", "me"),
    "key": pgettext_lazy("word", "key"),
    # what is done, by itself
    "create": pgettext_lazy("word", "create"),
    "update": pgettext_lazy("word", "update"),
    "delete": pgettext_lazy("word", "delete"),
    "move": pgettext_lazy("word", "move"),
    "rename": pgettext_lazy("word", "rename"),
    "enable": pgettext_lazy("word", "enable"),
    "disable": pgettext_lazy("word", "disable"),
    "unlock": pgettext_lazy("word", "unlock"),
    "restore": pgettext_lazy("word", "restore"),
    "revert": pgettext_lazy("word", "revert"),
    "change members": pgettext_lazy("word", "change members"),
    "change password": pgettext_lazy("word", "change password"),
    "reset password": pgettext_lazy("word", "reset password"),
    "enable accounts": pgettext_lazy("word", "enable accounts"),
    "disable accounts": pgettext_lazy("word", "disable accounts"),
    # how something stands
    "pending": pgettext_lazy("word", "pending"),
    "approved": pgettext_lazy("word", "approved"),
    "applying": pgettext_lazy("word", "applying"),
    "applied": pgettext_lazy("word", "applied"),
    "failed": pgettext_lazy("word", "failed"),
    "partly-failed": pgettext_lazy("word", "partly failed"),
    "unknown": pgettext_lazy("word", "unknown"),
    "stale": pgettext_lazy("word", "stale"),
    "rejected": pgettext_lazy("word", "rejected"),
    "expired": pgettext_lazy("word", "expired"),
    "cancelled": pgettext_lazy("word", "cancelled"),
    "succeeded": pgettext_lazy("word", "succeeded"),
    "queued": pgettext_lazy("word", "queued"),
    "running": pgettext_lazy("word", "running"),
    "completed": pgettext_lazy("word", "completed"),
    "unchanged": pgettext_lazy("word", "unchanged"),
    "active": pgettext_lazy("word", "active"),
    "revoked": pgettext_lazy("word", "revoked"),
    # what the gateway works with
    "database": pgettext_lazy("word", "database"),
    "redis": pgettext_lazy("word", "redis"),
    "workers": pgettext_lazy("word", "workers"),
    # members of the gateway's own tables
    "allowed addresses": pgettext_lazy("word", "allowed addresses"),
    "description": pgettext_lazy("word", "description"),
    "directory group objects": pgettext_lazy("word", "directory group objects"),
    "directory groups": pgettext_lazy("word", "directory groups"),
    "display name": pgettext_lazy("word", "display name"),
    "email": pgettext_lazy("word", "email"),
    "expires at": pgettext_lazy("word", "expires at"),
    "links": pgettext_lazy("word", "links"),
    "members": pgettext_lazy("word", "members"),
    "name": pgettext_lazy("word", "name"),
    "owner": pgettext_lazy("word", "owner"),
    "password": pgettext_lazy("word", "password"),
    "passwords to requester": pgettext_lazy("word", "passwords to requester"),
    "previous valid until": pgettext_lazy("word", "previous valid until"),
    "previous value": pgettext_lazy("word", "previous value"),
    "recovery codes": pgettext_lazy("word", "recovery codes"),
    "revoked at": pgettext_lazy("word", "revoked at"),
    "revoked by": pgettext_lazy("word", "revoked by"),
    "role name": pgettext_lazy("word", "role name"),
    "scope objects": pgettext_lazy("word", "scope objects"),
    "scopes": pgettext_lazy("word", "scopes"),
    "second factor": pgettext_lazy("word", "second factor"),
    "sessions ended": pgettext_lazy("word", "sessions ended"),
    "staff": pgettext_lazy("word", "staff"),
    "superuser": pgettext_lazy("word", "superuser"),
    "supervision level": pgettext_lazy("word", "supervision level"),
    "username": pgettext_lazy("word", "username"),
    "value": pgettext_lazy("word", "value"),
    "assigned to": pgettext_lazy("word", "assigned to"),
    "comment": pgettext_lazy("word", "comment"),
    "comments": pgettext_lazy("word", "comments"),
    "decided by": pgettext_lazy("word", "decided by"),
    "first approved by": pgettext_lazy("word", "first approved by"),
    "first comment": pgettext_lazy("word", "first comment"),
    "secret": pgettext_lazy("word", "secret"),
    "status": pgettext_lazy("word", "status"),
    "attributes": pgettext_lazy("word", "attributes"),
    "base": pgettext_lazy("word", "base"),
    "base dn": pgettext_lazy("word", "base dn"),
    "base id": pgettext_lazy("word", "base id"),
    "bind dn": pgettext_lazy("word", "bind dn"),
    "bind password": pgettext_lazy("word", "bind password"),
    "ca certificate": pgettext_lazy("word", "ca certificate"),
    "client id": pgettext_lazy("word", "client id"),
    "enabled": pgettext_lazy("word", "enabled"),
    "filter": pgettext_lazy("word", "filter"),
    "kind": pgettext_lazy("word", "kind"),
    "scope": pgettext_lazy("word", "scope"),
    "shared": pgettext_lazy("word", "shared"),
    "start tls": pgettext_lazy("word", "start tls"),
    "urls": pgettext_lazy("word", "urls"),
    # how far a search or a group reaches
    "subtree": pgettext_lazy("word", "subtree"),
    "one level": pgettext_lazy("word", "one level"),
    "global": pgettext_lazy("word", "global"),
    "domain local": pgettext_lazy("word", "domain local"),
    "universal": pgettext_lazy("word", "universal"),
    "security": pgettext_lazy("word", "security"),
    "distribution": pgettext_lazy("word", "distribution"),
}

_COMMANDS: Final[Mapping[str, Promise]] = {
    "read": _("Read {object}"),
    "search": _("Search {object}"),
    "list": _("List {object}"),
    "create": _("Create {object}"),
    "update": _("Update {object}"),
    "delete": _("Delete {object}"),
    "restore": _("Restore {object}"),
    "move": _("Move {object}"),
    "rename": _("Rename {object}"),
    "enable": _("Enable {object}"),
    "disable": _("Disable {object}"),
    "unlock": _("Unlock {object}"),
    "revoke": _("Revoke {object}"),
    "rotate": _("Rotate {object}"),
    "test": _("Test {object}"),
    "verify": _("Verify {object}"),
    "approve": _("Approve {object}"),
    "reject": _("Reject {object}"),
    "cancel": _("Cancel {object}"),
    "assign": _("Assign {object}"),
    "comment": _("Comment {object}"),
    "decide": _("Decide {object}"),
    "revert": _("Revert {object}"),
    "run": _("Run {object}"),
    "rights": _("Read the rights needed in {object}"),
    "history": _("Read the history of {object}"),
    "change-members": _("Change the members of {object}"),
    "change-password": _("Change the password of {object}"),
    "reset-password": _("Reset the password of {object}"),
    "disable-accounts": _("Disable the accounts of {object}"),
    "enable-accounts": _("Enable the accounts of {object}"),
    "ask-anew": _("Resubmit {object}"),
    "count-waiting": _("Count waiting {object}"),
    "create-link": _("Create a link to {object}"),
    "delete-link": _("Delete the link to {object}"),
    "end-sessions": _("End the sessions of {object}"),
    "find-next": _("Find the next of the {object}"),
    "find-scopes": _("Find scopes for {object}"),
    "list-attributes": _("List the attributes of {object}"),
    "list-due": _("List due {object}"),
    "list-groups": _("List the groups of {object}"),
    "list-inbox": _("List the inbox of {object}"),
    "list-members": _("List the members of {object}"),
    "list-own": _("List own {object}"),
    "list-sessions": _("List the sessions of {object}"),
    "plan-accounts": _("Plan a run for {object}"),
    "plan-retry": _("Plan a retry of {object}"),
    "read-access-control": _("Read the access control of {object}"),
    "read-by-dn": _("Read {object} by distinguished name"),
    "read-chain": _("Read the chain of {object}"),
    "read-delegations": _("Read the delegations of {object}"),
    "read-details": _("Read the details of {object}"),
    "read-effective-permissions": _("Read the effective permissions of {object}"),
    "read-forecast": _("Read the forecast of {object}"),
    "read-forecasts": _("Read the forecasts of {object}"),
    "read-own": _("Read own {object}"),
    "read-password-policy": _("Read the password policy of {object}"),
    "read-review": _("Read the review of {object}"),
    "read-run-plan": _("Read the run plan of {object}"),
    "read-scopes": _("Read the scopes of {object}"),
    "read-sign-in-report": _("Read the sign-in report of {object}"),
    "read-statistics": _("Read the statistics of {object}"),
    "read-together": _("Read {object} together"),
    "read-usage": _("Read the usage of {object}"),
    "reset-second-factor": _("Reset the second factor of {object}"),
    "reveal-secret": _("Reveal the secret of {object}"),
    "revoke-own": _("Revoke {object} of one's own"),
    "rotate-password": _("Rotate the password of {object}"),
    "test-new": _("Test {object} before it is added"),
    "who-can": _("List who can change {object}"),
}
