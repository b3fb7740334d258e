"""Webhooks as the operations log tells of them."""

from audit.model_changes.descriptions import Facts, Secret, audited_model
from audit.webhooks.models import WebhookDelivery, WebhookEndpoint
from core.shapes import render_timestamp


@audited_model("webhook-endpoints", WebhookEndpoint)
def describe_endpoint(endpoint: WebhookEndpoint) -> Facts:
    return Facts(
        name=endpoint.name,
        shown={
            "name": (endpoint.name,),
            "url": (endpoint.url,),
            "events": tuple(endpoint.events),
            "format": (endpoint.format,),
            "enabled": ("true" if endpoint.enabled else "false",),
            "secret": Secret(endpoint.secret),
        },
    )


@audited_model("webhook-deliveries", WebhookDelivery, hidden=("body",))
def describe_delivery(delivery: WebhookDelivery) -> Facts:
    next_at = render_timestamp(delivery.next_at)
    return Facts(
        name=delivery.event,
        shown={
            "endpoint": (delivery.endpoint.name,),
            "event": (delivery.event,),
            "state": (delivery.state,),
            "attempts": (str(delivery.attempts),),
            "nextAt": (next_at,) if next_at else (),
        },
    )
