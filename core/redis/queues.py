"""The queues of tasks, and which task is in which."""

from typing import Final

QUEUE: Final = "celery"
NEW_QUEUE: Final = "celery-new"
QUEUES: Final = (QUEUE, NEW_QUEUE)

NEW_TASKS: Final = tuple(
    f"gateway.tasks.{name}"
    for name in (
        "help_to_verify_log",
        "mail_break_glass_use",
        "mail_invitation",
        "mail_notice",
        "take_up_scheduled",
        "verify_log",
    )
)
"""The tasks that the release before does not know, in a queue from which it takes none.

During an upgrade its workers run beside ours, and would drop them. A test compares with that release.
"""
