"""The people of a connected directory who sign in: finding their account, trying their password, making their person.

A password is only tried while a wrong one cannot lock the account out of the domain. Errors of the directory leave
these functions as GatewayError.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from django.contrib.auth.hashers import make_password
from django.db import transaction

from directory import errors as directory_errors
from directory.ldap import And, BindResult, Client, Entry, Equals, Not, Scope, filetime_to_datetime
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.policies.password_policy import RESULTANT_POLICY, PasswordPolicy, PolicyReader
from keys.models import FailedSignIn, Person
from keys.people import presence
from keys.people.names import name_key, shown
from keys.sign_in import limits

SPARED_ATTEMPTS = 2
"""How many of the failures that the domain allows are left for the person's other devices."""

_ATTRIBUTES = (*presence.ATTRIBUTES, "sAMAccountName", "displayName", "name", RESULTANT_POLICY)


@dataclass(frozen=True, slots=True)
class Account:
    """Whose password is to be tried. `entry` is None for a name that no account of the directory has."""

    connection: DirectoryConnection
    client: Client
    name: str
    entry: Entry | None

    @property
    def guid(self) -> UUID:
        """The account's objectGUID, or one that no object has."""
        return self.entry.guid if self.entry else uuid4()

    @property
    def subject(self) -> str:
        """What the attempts are counted for: the account, however it is spelled, or the name that is nobody's."""
        return f"{self.connection.id}\\{self.entry.guid if self.entry else self.name}"


def find_account(connection: DirectoryConnection, name: str) -> Account:
    """The account with a sAMAccountName, alone or as DOMAIN\\name, or a userPrincipalName."""
    client = get_client(connection.id)
    name = name.rpartition("\\")[2]
    # [MS-ADTS] 3.1.1.8.1.3: a sAMAccountName cannot contain @, so a name is never both.
    attribute = "userPrincipalName" if "@" in name else "sAMAccountName"
    people = And(Equals("objectClass", "user"), Not(Equals("objectClass", "computer")), Equals(attribute, name))
    with directory_errors.translated():
        found = list(client.search(connection.base_dn, Scope.SUBTREE, people, _ATTRIBUTES, limit=2))
    return Account(connection, client, name, found[0] if len(found) == 1 else None)


def is_spent(account: Account, attempt: FailedSignIn) -> bool:
    """Whether another wrong password would come too near to the domain's lock-out threshold.

    What this gateway has seen and what the domain controller has counted are compared: the latter hears of other
    devices too, but not of everything that other domain controllers hear. A name that is nobody's is treated by the
    domain's policy, like one that is somebody's, and the directory is asked the same of both.
    """
    with directory_errors.translated():
        policy = _policy_of(account)
        window = (policy and policy.lockout_window) or timedelta.max  # failures are never forgotten
        wrong, under_way = limits.known_failures(attempt, window)
        # Read after what was seen here: what ended in between is counted twice then, never not at all.
        counters = account.client.find(account.guid, ("badPwdCount", "badPasswordTime"))
    if policy is None or not policy.lockout_threshold:
        return False
    counted = _counted_by_directory(counters, window) if counters else 0
    return max(wrong, counted) + under_way >= max(1, policy.lockout_threshold - SPARED_ATTEMPTS)


def _policy_of(account: Account) -> PasswordPolicy | None:
    """The policy in force: the account's own where it has one that can be read, else the domain's.

    Both are asked for of every name, and an object that is nobody's stands in for what there is not: the time must not
    tell which names exist, nor which of them have a policy of their own.
    """
    policies = PolicyReader(account.client)
    of_domain, entry = policies.of_domain(), account.entry
    if entry is None or RESULTANT_POLICY not in entry:
        account.client.find(uuid4(), ("objectGUID",))
        return of_domain
    return policies.of(entry) or of_domain


def _counted_by_directory(counters: Entry, window: timedelta) -> int:
    """The wrong passwords in a row that the domain controller knows of; the count stands until the next one is over."""
    last = filetime_to_datetime(counters.integer("badPasswordTime") or 0)
    is_over = last is None or datetime.now(UTC) - last >= window
    return 0 if is_over else counters.integer("badPwdCount") or 0


def try_password(account: Account, password: str, *, is_spent: bool = False) -> BindResult:
    """What the directory says to the password; with `is_spent` it is asked as long, and not for this account."""
    # A name that is nobody's is tried as well, the time must not tell which names exist. But not as it was given: AD
    # takes display names and others in a bind ([MS-ADTS] 5.1.1.1.1), and would count it for an account that is not
    # counted here.
    entry = None if is_spent else account.entry
    name = entry.dn if entry else f"CN={uuid4()},{account.connection.base_dn}"
    with directory_errors.translated():
        result = account.client.authenticate(name, password)
    return result if entry else BindResult.WRONG


def person_of(account: Account) -> Person:
    """The person who an account of the directory is; made on the first sign-in.

    They may do what the groups of the account stand for, and what they are given otherwise. Raises Unavailable when
    the directory does not answer.
    """
    connection, entry = account.connection, account.entry
    assert entry is not None
    username = shown(f"{connection.name}\\{entry.text('sAMAccountName')}")[:255]
    display_name = shown(entry.text("displayName") or entry.text("name") or "")[:256]
    with transaction.atomic():
        person, is_new = Person.objects.get_or_create(
            connection=connection,
            object_guid=entry.guid,
            defaults={"username": f"{connection.name}\\{entry.guid}", "password": make_password(None)},
        )
        if is_new or (person.username, person.display_name) != (username, display_name):
            # The name may have been somebody else's before: they keep their person, not the name. But who is only
            # called like somebody else is to be told from them.
            for other in Person.objects.filter(name_key=name_key(username)[:255]).exclude(pk=person.pk):
                if other.username.casefold() != username.casefold():
                    username = f"{connection.name}\\{entry.guid}"
                    break
                other.username = f"{connection.name}\\{other.object_guid}"
                other.save(update_fields=["username"])
            person.username, person.display_name = username, display_name
            person.save(update_fields=["username", "display_name"])
        presence.note_sign_in(person, entry)
    presence.follow_groups(person, account.client)
    return person
