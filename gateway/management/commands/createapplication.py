"""In the place of the OAuth toolkit's command of the same name, which would write no record."""

from gateway.management.refused import RefusedCommand


class Command(RefusedCommand):
    pass
