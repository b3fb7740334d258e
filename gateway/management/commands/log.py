"""`gateway log …`: the operations log's commands under short names."""

from gateway.management.command_line import CommandGroup


class Command(CommandGroup):
    help = (
        "Verify the operations log, export the head of its chain, archive and remove months, drop what only the "
        "release before needs, count anew what statistics show."
    )
    commands = {
        "verify": "verify_operations_log",
        "head": "export_log_head",
        "archive": "archive_operations_log",
        "expire": "expire_operations_log",
        "slim": "slim_operations_log",
        "recount": "recount_operations_log",
    }
