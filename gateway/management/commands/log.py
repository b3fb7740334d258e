"""`gateway log …`: the operations log's commands under short names."""

from gateway.management.group import CommandGroup


class Command(CommandGroup):
    help = "Verify the operations log, export the head of its chain, remove months that need not be kept."
    commands = {
        "verify": "verify_operations_log",
        "head": "export_log_head",
        "expire": "expire_operations_log",
    }
