"""Connections to Redis for single commands."""

from concurrent.futures import ThreadPoolExecutor

from core.redis.clients import QuickRedis
from lab.redis import RedisServer


def test_any_number_of_threads_may_come_and_go(redis_server: RedisServer) -> None:
    redis = QuickRedis(redis_server.url, without="nothing")
    for _ in range(150):
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(redis.execute, "PING").result() == b"PONG"
