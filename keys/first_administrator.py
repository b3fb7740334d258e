"""The first administrator of a gateway, made on the command line or on a page that asks for a code from the log.

Set-up is open as long as there has never been a local account or a superuser. After that it stays closed, even if they
are deleted, since the operations log remembers them. The first administrator, or the command line, makes others.
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
from core.configuration_sections import RateLimit
from core.database.own_rows import lock_record
from core.errors import Conflict, invalid_member
from core.rate_limits import CountersUnavailable, address_subject, usage_of
from core.text.messages import message
from core.text.names import label_complaint
from keys.models import Person
from keys.people.local_accounts import check_username, save, set_email, set_password

_logger = structlog.stdlib.get_logger(__name__)

_WRONG_CODES = RateLimit(Requests=5, WindowSeconds=900)
"""Per IP address."""

_CODE_BYTES = 15  # 120 bits, 24 characters of base32


class SetUpClosed(Conflict):
    """The gateway has, or had, an administrator."""

    code, title = "SetUp.Closed", "This gateway is set up already"


class WrongCode(Exception):
    """The code is wrong, or was not checked because the caller has tried `too_often`."""

    def __init__(self, *, too_often: bool) -> None:
        super().__init__("the set-up code was tried too often" if too_often else "the set-up code is wrong")
        self.too_often = too_often


def is_open() -> bool:
    """Whether this gateway has never had an administrator.

    People of a directory do not count: they hold no permissions until somebody grants them some.
    """
    if Person.objects.filter(Q(connection__isnull=True) | Q(is_superuser=True)).exists():
        return False
    return not OperationRecord.objects.filter(operation="people.create", outcome="succeeded").exists()


def set_up_code() -> str:
    """The code that proves access to this gateway's log: `ABCD-EFGH-…`, the same in all of its processes.

    It is derived from the secret key and the time of the database's first migration. So it need not be stored, and
    every database has a code of its own.
    """
    migrations = MigrationRecorder(connection).migration_qs.filter(app="keys")
    made_at = migrations.order_by("applied").values_list("applied", flat=True)[0]
    digest = salted_hmac("keys.first_administrator", made_at.isoformat(), algorithm="sha256").digest()[:_CODE_BYTES]
    text = base64.b32encode(digest).decode()
    return "-".join(text[at : at + 4] for at in range(0, len(text), 4))


def require_set_up_code(given: str, *, client_address: str, request_id: str = "") -> None:
    """Compare a code as people type it, in any case and with or without dashes; raises WrongCode.

    Attempts are limited per address. The code is too long to be guessed, but each attempt writes to the log.
    """
    too_often = _wrong_codes_of(client_address, counting=False) >= _WRONG_CODES.Requests
    if not too_often:
        if constant_time_compare(_normalized(given), _normalized(set_up_code())):
            return
        _wrong_codes_of(client_address)
    refusal = WrongCode(too_often=too_often)
    security.log_refusal(str(refusal), client_address=client_address or None, request_id=request_id)
    raise refusal


def _wrong_codes_of(address: str, *, counting: bool = True) -> int:
    try:
        return usage_of("SetUpCode", address_subject(address), _WRONG_CODES, counting=counting).requests
    except CountersUnavailable:  # Redis is away: the code's 120 bits are protection enough
        return 0


def _normalized(given: str) -> str:
    return "".join(given.replace("-", " ").split()).upper()


def make_first_administrator(call: Call, *, username: str, password: str, display_name: str, email: str = "") -> Person:
    """Make the superuser who makes everything else, with a log record. Of two simultaneous attempts one succeeds.

    `call` is `call_of_set_up` or `call_of_command`. Raises SetUpClosed, InvalidRequest at `username`, `displayName`,
    `email` or `password`, or Conflict for a name that looks like another one.
    """
    with recorded(call, operation="people.create") as administration:
        lock_record("people", "first administrator")  # a second attempt waits here for the first
        if not is_open():
            raise SetUpClosed(message("This gateway has, or had, an administrator: sign in."))
        if complaint := label_complaint(display_name):
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
    security.log_event("first administrator made", person=person.username, client_address=call.client_address)
    return person


_announcing, _is_announced = threading.Lock(), threading.Event()


def announce() -> None:
    """Log how to make the first administrator if there is none, once in each process."""
    with _announcing:
        if not _is_announced.is_set() and is_open():
            _logger.warning(
                "Nobody administers this gateway yet: open /console/setup and type the code", code=set_up_code()
            )
            _is_announced.set()


def announce_soon() -> None:
    """Do the same in a thread, so that a starting process does not wait for its database."""
    threading.Thread(target=_announce, name="set-up", daemon=True).start()


def _announce() -> None:
    with closing(connection), suppress(DatabaseError):  # unreachable or not migrated: the page logs it later
        announce()
