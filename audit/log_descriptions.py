"""How the operations log describes changes of webhook endpoints and deliveries."""

from audit.model_changes.descriptions import Facts, Secret, audited_model, columns_of
from audit.models import WebhookDelivery, WebhookEndpoint
from core.text.messages import message


@audited_model("webhook-endpoints", WebhookEndpoint, one=message("a webhook endpoint"), members=("secret",))
def describe_endpoint(endpoint: WebhookEndpoint) -> Facts:
    return Facts(name=endpoint.name, shown={**columns_of(endpoint), "secret": Secret(endpoint.secret)})


@audited_model(
    "webhook-deliveries",
    WebhookDelivery,
    one=message("a webhook delivery"),
    columns=("event", "state", "attempts", "next_at"),
    members=("endpoint",),
    hidden=("body",),
)
def describe_delivery(delivery: WebhookDelivery) -> Facts:
    return Facts(name=delivery.event, shown={"endpoint": delivery.endpoint.name, **columns_of(delivery)})
