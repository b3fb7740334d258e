"""Asking a worker for a task: what the broker did not get is told in one way, whatever was in the way."""

from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app
from kombu.common import ignore_errors

from core.redis.broker import BrokerUnavailable, send_task
from core.redis.urls import broker_from
from lab.redis import RedisServer


@pytest.mark.usefixtures("redis_server")
def test_a_channel_closed_after_the_queue_was_declared_is_a_broker_that_did_not_get_the_task() -> None:
    producers: Any = current_app.producer_pool
    with producers.acquire(block=True) as producer:
        connection = producer.connection
        producer.channel.close()
    try:
        with pytest.raises(BrokerUnavailable, match="connection to the broker was closed"):
            send_task("nobody.does.this", declare=())
    finally:
        connection.collect()


def test_a_lost_connection_is_closed_whatever_waits_on_it(redis_server: RedisServer) -> None:
    """As a worker closes it that hears of the loss while it asks for the next task and has not acknowledged one."""
    app: Any = current_app
    connection = app.connection()
    channels = (connection.default_channel, connection.channel())
    for channel in channels:
        queue = connection.SimpleQueue(f"test-{uuid4()}", channel=channel)
        queue.put("a task")
        queue.get(timeout=60)
    connection.transport.cycle.on_poll_start()
    redis_server.stop()
    try:
        with suppress(*connection.connection_errors):
            connection.collect()
        ignore_errors(connection, connection.close)
    finally:
        redis_server.start_and_wait()
        for channel in channels:
            with suppress(*connection.connection_errors):
                channel.close()


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:1/0",
        "rediss://127.0.0.1:1/0",
        "unix:///nowhere/redis.sock",
        "sentinel://127.0.0.1:1/primary",
    ],
)
def test_a_closed_connection_is_a_lost_one_whichever_way_redis_is_reached(url: str) -> None:
    app: Any = current_app
    connection = app.connection(broker_from(url), transport_options={"master_name": "primary"})
    transport = connection.transport
    # A channel as one is left by a connection that was lost: without the connection's address, and not closed itself.
    channel = transport.Channel.__new__(transport.Channel)
    channel.connection = transport
    connection._do_close_transport()
    with pytest.raises(transport.connection_errors, match="was closed"):
        channel._connparams()
