"""The one local account that signs in with its password where passwords are switched off: its use is told at once."""

from functools import partial
from typing import Final

import structlog
from django.conf import settings
from django.db import transaction

from audit import security
from audit.webhooks.events import enqueue_break_glass
from core.database import shared_clock
from core.mail import make_email
from core.redis.broker import BrokerUnavailable, send_task
from core.shapes import render_timestamp
from keys.models import Person

MAIL_TASK: Final = "gateway.tasks.mail_break_glass_use"

_logger = structlog.stdlib.get_logger(__name__)


def note_use(person: Person, address: str) -> None:
    """Log, report and mail the sign-in if the person is the break-glass account and passwords are switched off."""
    configured = settings.CONFIGURATION.SignIn
    if configured.PasswordForm or not person.is_local or person.username != configured.BreakGlassAccount:
        return
    now = render_timestamp(shared_clock.now())
    sentence = f"The break-glass account {person.username} has signed in from {address} at {now}."
    security.log_event("break-glass account used", person=person.username, client_address=address)
    with transaction.atomic():
        enqueue_break_glass({"username": person.username, "address": address, "signedInAt": now}, sentence)
        transaction.on_commit(partial(_enqueue, sentence))


def _enqueue(sentence: str) -> None:
    try:
        send_task(MAIL_TASK, sentence, ignore_result=True)
    except BrokerUnavailable:
        _logger.exception("superusers were not told of the break-glass account by e-mail")


def mail_superusers(sentence: str) -> None:
    """Send the e-mail; raises OSError if the mail server does not take it."""
    told = Person.objects.filter(is_superuser=True, is_active=True).exclude(email="")
    subject = "The break-glass account was used"
    body = f"{sentence}\n\nIf you know nothing of it, look into the operations log at once."
    for address in told.order_by("email").values_list("email", flat=True).distinct():
        make_email(address, subject=subject, body=body, about="break-glass").send()
