"""Where events are sent to, and what is still to be sent. The sending is in `events` and `delivery`."""

import secrets
from base64 import b64encode
from uuid import uuid4

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import models

from core.secrets.encryption import EncryptedTextField


class EventGroup(models.TextChoices):
    """What an endpoint can ask for."""

    CHANGES = "changes", "Changes: every record of a change, done, refused, queued or failed"
    READS = "reads", "Reads: every record of a read"
    CHANGE_REQUESTS = "change-requests", "Change requests: every step from queued to applied"


class EndpointFormat(models.TextChoices):
    """How an event is written for an endpoint."""

    STANDARD = "standard", "Standard Webhooks: the whole event, signed, for programs"
    SLACK = "slack", "Slack: a message for people, of change requests"
    TEAMS = "teams", "Microsoft Teams: a card for people, of change requests"


def new_secret() -> str:
    """A signing secret in the form of Standard Webhooks: 32 random bytes."""
    return "whsec_" + b64encode(secrets.token_bytes(32)).decode("ascii")


def validate_groups(value: list[str]) -> None:
    if not isinstance(value, list) or not value or not set(value) <= set(EventGroup.values):
        raise ValidationError("choose at least one kind of event")


class WebhookEndpoint(models.Model):
    """An address that events are posted to, signed with a secret of its own."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    name = models.CharField(max_length=128, unique=True)
    url = models.CharField(
        "URL",
        max_length=1000,
        validators=[URLValidator(schemes=["https", "http"])],
        help_text="HTTPS, unless Webhooks:AllowPlainHttp says otherwise. Private addresses are refused unless "
        "Webhooks:AllowedNetworks has them.",
    )
    secret = EncryptedTextField(default=new_secret, editable=False)
    events = models.JSONField(default=list, validators=[validate_groups])
    format = models.CharField(
        max_length=16,
        choices=EndpointFormat,
        default=EndpointFormat.STANDARD,
        db_default=EndpointFormat.STANDARD,
        help_text="A message for people tells of change requests only, without any values.",
    )
    enabled = models.BooleanField(default=True, help_text="Nothing is kept for an endpoint that is not enabled.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.format != EndpointFormat.STANDARD and self.events != [EventGroup.CHANGE_REQUESTS]:
            raise ValidationError({"events": "a message for people tells of change requests only"})


class DeliveryState(models.TextChoices):
    """Waiting until it is delivered, or given up and left for a person."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"


class WebhookDelivery(models.Model):
    """One event for one endpoint. `next_at` is when it is tried (again), and the lease of who is trying."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=64)
    body = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=16, choices=DeliveryState, default=DeliveryState.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-created_at"]
        verbose_name_plural = "webhook deliveries"
        default_permissions = ("view", "change")
        indexes = [
            models.Index(fields=["next_at"], name="audit_webhook_due", condition=models.Q(state="waiting")),
            models.Index(fields=["state", "created_at"], name="audit_webhook_by_state"),
        ]

    def __str__(self) -> str:
        return f"{self.event} for {self.endpoint}"
