"""`gateway keys …`: the gateway's own keys, and API keys."""

from gateway.management.command_line import CommandGroup


class Command(CommandGroup):
    help = (
        "Create an API key (create). Make the gateway's own keys (new), say which are needed, "
        "and put stored secrets under the first encryption key (rotate)."
    )
    commands = {
        "create": "create_key",
        "new": "new_keys",
        "needed": "needed_keys",
        "rotate": "rotate_encryption_keys",
    }
