"""What rows have in common that several people change: when, and how often."""

from typing import Any

from django.db import models
from django.db.models import F


class Revised(models.Model):
    """`revision` grows with every change."""

    revision = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save and count the revision up in the database itself, so that two changes at once are two revisions."""
        if not self._state.adding:
            self.revision = F("revision") + 1
        super().save(*args, **kwargs)
        self.refresh_from_db(fields=["revision"])
