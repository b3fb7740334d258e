"""What domain controllers said to the passwords that connections sign in with, for all processes and hosts."""

from django.db import models


class BindPassword(models.Model):
    """One password at one server. `digest` is keyed, over the connection, the bind name and the password.

    `tried_until` is until when a process is trying it: the others wait for what comes of that. No foreign key: it is
    written whatever becomes of the transaction in which a connection is opened.
    """

    digest = models.CharField(max_length=64)
    server = models.CharField(max_length=300)
    worked_at = models.DateTimeField(null=True)
    refused_at = models.DateTimeField(null=True)
    tried_until = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=("digest", "server"), name="directory_bind_password_once")]

    def __str__(self) -> str:
        return f"a bind password at {self.server}"
