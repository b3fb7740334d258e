"""Celery tasks: they apply approved changes, execute runs, expire overdue requests, and settle open log records.

Every task may run twice, late, or in several workers at once: it claims its work in the database, and the runs of a
directory by a lease.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog
from celery import shared_task
from django.conf import settings

from active_directory import LdapError
from approvals import ends, queue, secrets
from approvals.queue import end_with_run
from approvals.review import notifications
from audit import log
from audit.chain import checkpoint, months, sealing, verifying
from audit.models import OperationRecord
from audit.webhooks import delivery
from audit.webhooks import events as webhooks
from core import shown_once
from core.call import Call, CredentialKind, CredentialRef, Surface
from directory.changes import bind_password_rotation
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.models.runs import Run, RunState
from directory.outcomes.attribution import find_recorded_outcome
from directory.outcomes.evidence import find_created
from directory.runs import worker as run_worker
from directory.runs.requests import EXECUTE_RUN, delete_expired_plans
from gateway import pipeline
from gateway.surfaces.idempotency import forget_old_answers
from keys.agents import grants
from keys.agents.identification import call_for_agent
from keys.people import account_status, notices
from keys.permissions.effective import call_for_key, call_for_person
from keys.permissions.more_privileged_people import more_privileged_people
from keys.sign_in import break_glass, invitations

logger = structlog.get_logger(__name__)


@shared_task(name="gateway.tasks.apply_change_request")
def apply_change_request(change_request_id: str) -> None:
    """Apply one approved change."""
    pipeline.apply_change_request(UUID(change_request_id))


@shared_task(name="gateway.tasks.sweep")
def sweep() -> None:
    """Catch up on everything that a lost message or a killed process has left undone."""
    queue.expire_overdue()
    queue.fail_overdue()
    for change_request_id in queue.take_unclaimed():
        apply_change_request.delay(str(change_request_id))
    log.settle_pending(_find_outcome, _find_created)
    queue.settle_applying()
    ends.tell_ahead()
    bind_password_rotation.settle_interrupted_rotations()
    secrets.wipe_overdue()
    forget_old_answers()
    shown_once.delete_expired()
    grants.sweep()
    webhooks.delete_delivered()
    months.make_months()


@shared_task(name="gateway.tasks.take_up_scheduled")
def take_up_scheduled() -> None:
    """Begin and end the changes whose time has come, also those of lost workers."""
    queue.settle_applying()
    pipeline.take_up_scheduled()


@shared_task(name="gateway.tasks.tell_people")
def tell_people() -> None:
    """E-mail approvers and requesters about their change requests."""
    notifications.collect()
    notifications.send_due()


@shared_task(name=notices.MAIL_TASK, autoretry_for=(OSError,), retry_backoff=30, max_retries=8)
def mail_notice(person_id: str, event: str) -> None:
    """E-mail a person about a change of how they sign in."""
    notices.send(int(person_id), event)


@shared_task(name=invitations.MAIL_TASK, autoretry_for=(OSError,), retry_backoff=30, max_retries=8)
def mail_invitation(person_id: str, inviter: str, moment: str, digest: str) -> None:
    """E-mail a person the link of an invitation."""
    invitations.mail(int(person_id), UUID(inviter), moment, digest)


@shared_task(name=break_glass.MAIL_TASK)
def mail_break_glass_use(sentence: str) -> None:
    """E-mail superusers that the break-glass account was used."""
    break_glass.mail_superusers(sentence)


@shared_task(name="gateway.tasks.check_people")
def check_people() -> None:
    """Deactivate people whose directory account is gone, disabled or expired."""
    account_status.check_all()


@shared_task(name="gateway.tasks.seal_log")
def seal_log() -> None:
    """Seal the records since the last seal."""
    sealing.seal_records()


@shared_task(name="gateway.tasks.verify_log")
def verify_log() -> None:
    """Verify the operations log, on request."""
    verifying.verify_as_asked()


@shared_task(name="gateway.tasks.help_to_verify_log")
def help_to_verify_log(run: str) -> None:
    """Verify a part of the operations log for a verification of all of it."""
    verifying.help_to_verify(run)


@shared_task(name="gateway.tasks.deliver_webhooks")
def deliver_webhooks() -> None:
    """Send the events that are due."""
    delivery.deliver_due()


@shared_task(name="gateway.tasks.keep_log_head")
def keep_log_head() -> None:
    """Copy the head of the log's chain to a file or syslog, outside the database, as configured."""
    configuration = settings.CONFIGURATION.OperationsLog
    head = checkpoint.head()
    if head is None:
        return
    if configuration.HeadFile:
        try:
            checkpoint.append_head(head, Path(configuration.HeadFile))
        except OSError:
            logger.exception("the head of the operations log cannot be kept", file=configuration.HeadFile)
    if configuration.HeadToSyslog:
        checkpoint.log_head(head)


def _find_outcome(record: OperationRecord) -> bool | None:
    """Whether the change of a pending record was applied; None while that cannot be determined."""
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
    """The objectGUID of a created object whose writer was interrupted before it could record it; None if unknown."""
    if record.directory_id is None:
        return None
    return find_created(get_client(record.directory_id), record.evidence or {})


@shared_task(name=EXECUTE_RUN)
def execute_run(run_id: str) -> None:
    """Execute a run and all others waiting in its directory, unless it is completed or a worker has the lease."""
    waiting = Run.objects.filter(id=UUID(run_id)).exclude(state=RunState.COMPLETED)
    for connection_id in waiting.values_list("connection_id", flat=True):
        run_worker.run_pending(
            connection_id,
            make_call=_call_for,
            more_privileged_people=more_privileged_people,
            when_completed=end_with_run,
        )


@shared_task(name="directory.tasks.sweep_runs")
def sweep_runs() -> None:
    """Resume runs whose worker was killed, whose directory was unavailable or whose message was lost."""
    for run_id in run_worker.find_abandoned_runs():
        execute_run.delay(str(run_id))
    delete_expired_plans()


def _call_for(run: Run) -> Call:
    """Return the call of a run's caller with their current permissions; raises Forbidden."""
    work: dict[str, Any] = {
        "connection_id": run.connection_id,
        "surface": Surface.WORKER,
        "request_id": run.request_id,
        "change_request_id": run.change_request_id,
    }
    if run.credential_kind == CredentialKind.API_KEY:
        call = call_for_key(run.credential_id, **work)
    elif run.credential_kind == CredentialKind.AGENT_TOKEN:
        call = call_for_agent(run.credential_id, **work)
    else:
        credential = CredentialRef(CredentialKind(run.credential_kind), run.credential_id, run.credential_name)
        call = call_for_person(run.person_id, credential=credential, **work)
    return replace(call, client_address=run.client_address, reason=run.reason)
