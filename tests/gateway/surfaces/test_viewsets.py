"""Operations are actions of REST framework's ViewSets, and its own dispatch runs them."""

import gc
import json
from typing import Any

import pytest
from django.test import RequestFactory
from django.test.client import ClientHandler
from django.urls import resolve
from rest_framework.response import Response
from rest_framework.views import APIView

from core.call import Surface
from core.operation import HTTP_SURFACES, operations
from gateway.pipeline.batches import batch_path
from gateway.surfaces.viewsets import urls_of
from lab.directory import Directory
from tests.gateway.server.test_every_operation import Requests
from tests.support.cast import Integration


@pytest.mark.parametrize("surface", sorted(HTTP_SURFACES))
def test_every_operation_is_the_action_of_one_address_and_its_batches_of_another(surface: Surface) -> None:
    found = []
    for url in urls_of(surface):
        view: Any = url.callback
        assert view.cls.dispatch is APIView.dispatch
        assert all(callable(getattr(view.cls, action)) for action in view.actions.values())
        found += [(view.cls.operations[action].name, str(url.pattern)) for action in view.actions.values()]
    expected = [(item.name, item.path.replace("{", "<").replace("}", ">")) for item in operations(surface)]
    expected += [(item.name, batch_path(item)) for item in operations(surface) if item.batchable]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("surface", sorted(HTTP_SURFACES))
def test_no_placeholder_takes_the_address_of_another_operation(surface: Surface) -> None:
    for item in operations(surface):
        view: Any = resolve(f"/{surface}/{item.path}").func
        assert view.cls.operations[view.actions[item.method.lower()]] is item


def test_no_answer_waits_for_the_garbage_collector(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    """It would keep the memory of all answers between two of its rounds: a page of a thousand people takes 3 MB."""
    application = ClientHandler()
    for name, (method, path, body) in Requests(integration, directory, organizational_unit).all():
        headers = {"X-API-Key": integration.value, "Host": "localhost"}
        content = "" if body is None else json.dumps(body)
        gc.collect()
        before = _responses()
        gc.disable()
        try:
            application(RequestFactory().generic(method, path, content, "application/json", headers=headers).environ)
            left = _responses() - before
        finally:
            gc.enable()
        assert not left, name


def _responses() -> set[int]:
    return {id(each) for each in gc.get_objects() if isinstance(each, Response)}
