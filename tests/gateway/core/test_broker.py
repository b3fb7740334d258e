"""Asking a worker for a task: what the broker did not get is told in one way, whatever was in the way."""

from typing import Any

import pytest
from celery import current_app

from gateway.core.broker import BrokerUnavailable, send_task


@pytest.mark.usefixtures("redis_server")
def test_a_channel_closed_after_the_queue_was_declared_is_a_broker_that_did_not_get_the_task() -> None:
    producers: Any = current_app.producer_pool
    with producers.acquire(block=True) as producer:
        connection = producer.connection
        producer.channel.close()
    try:
        with pytest.raises(BrokerUnavailable, match="the connection was lost"):
            send_task("nobody.does.this", declare=())
    finally:
        connection.collect()
