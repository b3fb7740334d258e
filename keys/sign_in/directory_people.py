"""The people of a connected directory who sign in: finding their account, trying their password, making their person.

A password is only tried while a wrong one cannot lock the account out of the domain. Errors of the directory leave
these functions as GatewayError.
"""

from dataclasses import dataclass
from uuid import uuid4

from django.contrib.auth.hashers import make_password
from django.db import transaction

from active_directory import And, BindResult, Client, Entry, Equals, Not, Scope
from core.text.names import name_key
from core.text.unseen import with_unseen_marked
from directory import errors as directory_errors
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.policies import password_attempts
from keys.models import Person
from keys.people import account_status

_ATTRIBUTES = (*account_status.ATTRIBUTES, "sAMAccountName", "displayName", "name")


@dataclass(frozen=True, slots=True)
class Account:
    """Whose password is to be tried. `entry` is None for a name that no account of the directory has."""

    connection: DirectoryConnection
    client: Client
    name: str
    entry: Entry | None

    @property
    def subject(self) -> str:
        """What the attempts are counted for: the account, however it is spelled, or the name that is nobody's."""
        return f"{self.connection.id}\\{self.entry.guid if self.entry else self.name}"

    @property
    def person(self) -> Person | None:
        """Whoever has signed in with it before."""
        if self.entry is None:
            return None
        return Person.objects.filter(connection=self.connection, object_guid=self.entry.guid).first()


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


def try_password(account: Account, password: str, *, is_known_device: bool) -> BindResult:
    """What the directory says to the password; raises TooManyWrongPasswords after having been asked as long.

    On a device that is known the last try is left that others, who are not, may not take.
    """
    # A name that is nobody's is tried as well, the time must not tell which names exist. But not as it was given: AD
    # takes display names and others in a bind ([MS-ADTS] 5.1.1.1.1), and would count it for an account that is not
    # counted here.
    entry = account.entry
    nobody = f"CN={uuid4()},{account.connection.base_dn}"
    with directory_errors.translated():
        try:
            attempt = password_attempts.begin(
                account.client, entry.guid if entry else None, name=account.subject, may_take_last=is_known_device
            )
        except directory_errors.TooManyWrongPasswords:
            account.client.authenticate(nobody, password)
            raise
        # Where no answer comes nobody knows whether it was looked at: it stays counted.
        result = account.client.authenticate(entry.dn if entry else nobody, password)
    result = result if entry else BindResult.WRONG
    if result is BindResult.OK:
        password_attempts.succeed(attempt)
    elif result in (BindResult.WRONG, BindResult.LOCKED):
        password_attempts.fail(attempt)
    else:
        password_attempts.take_back(attempt)
    return result


def person_of(account: Account) -> Person:
    """The person who an account of the directory is; made on the first sign-in.

    They may do what the groups of the account stand for, and what they are given otherwise. Raises Unavailable when
    the directory does not answer.
    """
    connection, entry = account.connection, account.entry
    assert entry is not None
    username = with_unseen_marked(f"{connection.name}\\{entry.text('sAMAccountName')}")[:255]
    display_name = with_unseen_marked(entry.text("displayName") or entry.text("name") or "")[:256]
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
        account_status.note_sign_in(person, entry)
    account_status.follow_groups(person, account.client)
    return person
