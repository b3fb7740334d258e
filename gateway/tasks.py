"""Celery tasks above the pipeline: approved changes are applied, overdue ones expire, pending records are settled.

Every task may run twice, late, or in several workers at once: what it works on is claimed in the database.
"""

from pathlib import Path
from uuid import UUID

import structlog
from celery import shared_task
from django.conf import settings

from active_directory import LdapError
from approvals import queue, secrets
from approvals.review import mail, notifications
from audit import log
from audit.chain import head_export, sealing, verification_requests
from audit.models import OperationRecord
from audit.webhooks import delivery
from audit.webhooks import events as webhooks
from core import shown_once
from directory.changes import bind_password_rotation
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.outcomes.attribution import find_recorded_outcome
from directory.outcomes.evidence import find_created
from gateway import pipeline
from gateway.surfaces.idempotency import forget_old_answers
from keys.agents import cleanup
from keys.people import account_status

logger = structlog.get_logger(__name__)


@shared_task(name="gateway.tasks.apply_change_request")
def apply_change_request(change_request_id: str) -> None:
    """Apply one approved change."""
    pipeline.apply_change_request(UUID(change_request_id))


@shared_task(name="gateway.tasks.sweep")
def sweep() -> None:
    """Everything that must happen even when a message was lost or a process was killed."""
    queue.expire_overdue()
    queue.fail_late()
    for change_request_id in queue.find_waiting():
        apply_change_request.delay(str(change_request_id))
    log.settle_pending(_find_outcome, _find_created)
    queue.settle_applying()
    bind_password_rotation.settle_interrupted()
    secrets.wipe_overdue()
    forget_old_answers()
    shown_once.forget_overdue()
    cleanup.sweep()
    webhooks.forget_delivered()


@shared_task(name="gateway.tasks.tell_people")
def tell_people() -> None:
    """Tell approvers and requesters by e-mail what has happened to change requests."""
    notifications.collect()
    mail.send_due()


@shared_task(name="gateway.tasks.check_people")
def check_people() -> None:
    """Deactivate the people who have left their directory."""
    account_status.check_all()


@shared_task(name="gateway.tasks.seal_log")
def seal_log() -> None:
    """Seal what was logged since the last time."""
    sealing.seal_records()


@shared_task(name="gateway.tasks.verify_log")
def verify_log() -> None:
    """Verify the operations log, as somebody asked for."""
    verification_requests.verify()


@shared_task(name="gateway.tasks.deliver_webhooks")
def deliver_webhooks() -> None:
    """Send the events that are due."""
    delivery.deliver_due()


@shared_task(name="gateway.tasks.keep_log_head")
def keep_log_head() -> None:
    """Keep the head of the log's chain where the configuration says, outside the database."""
    configuration = settings.CONFIGURATION.OperationsLog
    head = head_export.head()
    if head is None:
        return
    if configuration.HeadFile:
        try:
            head_export.append_head(head, Path(configuration.HeadFile))
        except OSError:
            logger.exception("the head of the operations log cannot be kept", file=configuration.HeadFile)
    if configuration.HeadToSyslog:
        head_export.log_head(head)


def _find_outcome(record: OperationRecord) -> bool | None:
    """Whether the change of a pending record is in the directory; None while that cannot be known."""
    if record.directory_id is None or record.evidence is None:
        return None
    try:
        return find_recorded_outcome(get_client(record.directory_id), record)
    except DirectoryConnection.DoesNotExist:
        return None
    except LdapError as error:
        logger.info("record cannot be settled yet", record=str(record.id), reason=type(error).__name__)
        return None


def _find_created(record: OperationRecord) -> UUID | None:
    """The identity of what a creation has made, which its writer did not come to note."""
    if record.directory_id is None:
        return None
    return find_created(get_client(record.directory_id), record.evidence or {})
