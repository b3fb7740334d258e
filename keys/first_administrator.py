"""The first administrator of a gateway: made on a page with a code that only the server's own log shows, or by whoever
sits at its command line.

Set-up is open while there has never been a local account or a superuser. Then it is closed for good: deleting them
does not open it again (the log remembers them), and further administrators are made by the first, or at the command
line.
"""

import base64
import threading
from contextlib import closing, suppress

import structlog
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Q
from django.utils.crypto import constant_time_compare, salted_hmac

from audit import security
from audit.model_changes.recording import recorded
from audit.models import OperationRecord
from core.call import Call
from core.configuration import RateLimit
from core.errors import Conflict, invalid_member
from core.occasional_limits import usage_of
from core.rate_limits import CountersUnavailable, address_subject
from core.text.messages import message
from core.text.names import refuse_label
from core.versions import lock_record
from keys.models import Person
from keys.people.local_accounts import check_username, save, set_email, set_password

_logger = structlog.stdlib.get_logger(__name__)

_WRONG_CODES = RateLimit(Requests=5, WindowSeconds=900)
"""How many an address may try."""

_BYTES = 15  # 120 bits, 24 characters of base32


class SetUpClosed(Conflict):
    """There is, or was, an administrator already."""

    code, title = "SetUp.Closed", "This gateway is set up already"


class WrongCode(Exception):
    """The code is not the one that the server shows; `too_often` when it was not even looked at."""

    def __init__(self, *, too_often: bool) -> None:
        super().__init__("the set-up code was tried too often" if too_often else "the set-up code is wrong")
        self.too_often = too_often


def is_open() -> bool:
    """Whether this gateway has never had an administrator.

    People of a directory may have signed in: they hold no permissions until somebody gives them some.
    """
    if Person.objects.filter(Q(connection__isnull=True) | Q(is_superuser=True)).exists():
        return False
    return not OperationRecord.objects.filter(operation="people.create", outcome="succeeded").exists()


def code() -> str:
    """What proves that somebody reads this gateway's log: `ABCD-EFGH-…`, the same in all of its processes.

    It is made of the secret key and the moment at which the database was made, so that it is stored nowhere, and
    another one holds for another database.
    """
    migrations = MigrationRecorder(connection).migration_qs.filter(app="keys")
    made_at = migrations.order_by("applied").values_list("applied", flat=True)[0]
    digest = salted_hmac("keys.first_administrator", made_at.isoformat(), algorithm="sha256").digest()[:_BYTES]
    text = base64.b32encode(digest).decode()
    return "-".join(text[at : at + 4] for at in range(0, len(text), 4))


def require_code(given: str, *, client_address: str, request_id: str = "") -> None:
    """Compare a code as people type it, in any case and with or without dashes; raises WrongCode.

    Attempts are counted for each address: the code is too long to be guessed, this keeps the log from being filled.
    """
    too_often = _wrong_codes_of(client_address, counting=False) >= _WRONG_CODES.Requests
    if not too_often:
        if constant_time_compare(_plain(given), _plain(code())):
            return
        _wrong_codes_of(client_address)
    refusal = WrongCode(too_often=too_often)
    security.refused(str(refusal), client_address=client_address or None, request_id=request_id)
    raise refusal


def _wrong_codes_of(address: str, *, counting: bool = True) -> int:
    try:
        return usage_of("SetUpCode", address_subject(address), _WRONG_CODES, counting=counting).count
    except CountersUnavailable:
        return 0


def _plain(given: str) -> str:
    return "".join(given.replace("-", " ").split()).upper()


def make_first_administrator(call: Call, *, username: str, password: str, display_name: str, email: str = "") -> Person:
    """Make the superuser who makes everything else, with a record in the log. Two attempts at once make one.

    `call` is one of `audit.model_changes.unattended`. Raises SetUpClosed, InvalidRequest at `username`,
    `displayName`, `email` or `password`, or Conflict for a name that cannot be told from another one.
    """
    with recorded(call, operation="people.create") as administration:
        lock_record("people", "first administrator")  # whoever comes second waits here, and finds the first one's
        if not is_open():
            raise SetUpClosed(message("This gateway has, or had, an administrator: sign in."))
        if complaint := refuse_label(display_name):
            raise invalid_member("displayName", complaint)
        person = Person(
            username=Person.normalize_username(username.strip()),
            display_name=display_name.strip(),
            is_staff=True,
            is_superuser=True,
        )
        check_username(person)
        set_email(person, email)
        set_password(person, password)
        save(person)
        administration.note_new_row(person)
    security.noted("first administrator made", person=person.username, client_address=call.client_address)
    return person


_announcing, _is_announced = threading.Lock(), threading.Event()


def announce() -> None:
    """Say in the server's log how the first administrator is made, if there is none; once in each process."""
    with _announcing:
        if not _is_announced.is_set() and is_open():
            _logger.warning("Nobody administers this gateway yet: open /console/setup and type the code", code=code())
            _is_announced.set()


def announce_soon() -> None:
    """The same for a process that starts, which does not wait for its database."""
    threading.Thread(target=_announce, name="set-up", daemon=True).start()


def _announce() -> None:
    with closing(connection), suppress(DatabaseError):  # not reachable or not migrated: the page says it, once opened
        announce()
