"""Webhooks as the operations log tells of them."""

from audit.model_changes.descriptions import Facts, Secret, audited_model, columns_of
from audit.webhooks.models import WebhookDelivery, WebhookEndpoint
from core.text.messages import message


@audited_model("webhook-endpoints", WebhookEndpoint, one=message("a webhook endpoint"))
def describe_endpoint(endpoint: WebhookEndpoint) -> Facts:
    return Facts(name=endpoint.name, shown={**columns_of(endpoint), "secret": Secret(endpoint.secret)})


@audited_model("webhook-deliveries", WebhookDelivery, one=message("a webhook delivery"), hidden=("body",))
def describe_delivery(delivery: WebhookDelivery) -> Facts:
    shown = columns_of(delivery, "event", "state", "attempts", "next_at")
    return Facts(name=delivery.event, shown={"endpoint": delivery.endpoint.name, **shown})
