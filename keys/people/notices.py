"""E-mail to a person about a change of how they sign in, which somebody else may have made."""

from functools import partial
from typing import Final

import structlog
from django.conf import settings
from django.db import transaction

from core.mail import make_email
from core.redis.broker import BrokerUnavailable, send_task
from keys.models import Person

MAIL_TASK = "gateway.tasks.mail_notice"
_logger = structlog.stdlib.get_logger(__name__)

_NOTICES: Final = {
    "second factor reset": "An administrator has turned your second factor off. Your passkeys are gone, too.",
    "passkey added": "A passkey was added to your account. It signs in as you.",
    "passkey removed": "A passkey was removed from your account.",
}


def tell(person: Person, event: str) -> None:
    """Have a worker tell the person by e-mail once the transaction is committed, if they have an address."""
    if person.email:
        transaction.on_commit(partial(_enqueue, person.pk, event))


def _enqueue(person_id: int, event: str) -> None:
    try:
        send_task(MAIL_TASK, str(person_id), event, ignore_result=True)
    except BrokerUnavailable:
        _logger.exception("a person was not told by e-mail", person=person_id, about=event)


def send(person_id: int, event: str) -> None:
    """Send the e-mail; raises OSError if the mail server does not take it."""
    person = Person.objects.filter(pk=person_id).exclude(email="").first()
    if person is None:
        return
    account = settings.CONFIGURATION.Approvals.BaseUrl.rstrip("/")
    lines = [
        _NOTICES[event],
        f"Account: {person.username}",
        "If you know nothing of it, tell your administrators at once.",
        f"{account}/console/account" if account else "",
    ]
    body = "\n\n".join(filter(None, lines))
    make_email(person.email, subject=event.capitalize(), body=body, about="account").send()
