"""`gateway keys …`: the gateway's own keys."""

from gateway.management.group import CommandGroup


class Command(CommandGroup):
    help = "Make keys, say which are needed, and put stored secrets under the first encryption key."
    commands = {
        "new": "new_keys",
        "needed": "needed_keys",
        "rotate": "rotate_encryption_keys",
    }
