"""During an upgrade the workers of the release before run beside ours, and drop the tasks that they do not know."""

import pytest

from core.redis.queues import NEW_QUEUE, NEW_TASKS, QUEUES
from gateway.celery import app
from lab.releases import NoHistory, last_release, tasks_named_in


def test_tasks_that_the_last_release_does_not_know_have_a_queue_of_their_own() -> None:
    try:
        before = tasks_named_in(last_release())
    except NoHistory as error:
        pytest.skip(f"the release before cannot be had: {error}")
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert "gateway.tasks.sweep" in ours & before
    assert set(NEW_TASKS) == ours - before
    queues = {name: app.amqp.router.route({}, name)["queue"].name for name in ours}
    assert {name for name, queue in queues.items() if queue == NEW_QUEUE} == set(NEW_TASKS)
    assert set(app.amqp.queues.consume_from) == set(QUEUES), "a worker takes tasks from both"
