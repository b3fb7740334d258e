"""Operations are actions of REST framework's ViewSets, and its own dispatch runs them."""

from typing import Any

import pytest
from django.urls import resolve
from rest_framework.views import APIView

from core.call import Surface
from core.operation import HTTP_SURFACES, operations
from gateway.pipeline.batches import batch_path
from gateway.surfaces.viewsets import urls_of


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
