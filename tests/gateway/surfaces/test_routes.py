"""One entry of the cache serves all addresses that differ in identifiers alone, and mixes none of them up."""

from uuid import uuid4

import pytest

from gateway.surfaces import routes
from gateway.surfaces.routes import find_route

FIRST_PLACE, SECOND_PLACE = (f"00000000-0000-0000-0000-00000000000{place}" for place in (0, 1))


def test_identifiers_share_an_entry() -> None:
    find_route(f"/api/ad/users/{uuid4()}")
    before = routes._resolve.cache_info()
    id = str(uuid4())
    route = find_route(f"/api/ad/users/{id}")
    assert route is not None
    assert route.arguments == {"id": id}
    assert route.operations["GET"].name == "users.read"
    assert routes._resolve.cache_info().misses == before.misses


def test_another_text_than_an_identifier_stays_as_it_is() -> None:
    route = find_route("/api/ad/users/no-identifier")
    assert route is not None
    assert route.arguments == {"id": "no-identifier"}


@pytest.mark.parametrize(
    "ids",
    [
        (str(uuid4()), str(uuid4())),
        (SECOND_PLACE, FIRST_PLACE),
        (SECOND_PLACE, str(uuid4())),
        (str(uuid4()).upper(), str(uuid4())),
    ],
)
def test_two_identifiers_are_not_mixed_up(ids: tuple[str, str]) -> None:
    """Nor when one is what stands in the cache for another."""
    one, two = ids
    route = find_route(f"/api/ad/users/{one}-{two}")
    assert route is not None
    assert route.arguments == {"id": f"{one}-{two}"}


def test_what_is_unknown_has_no_route() -> None:
    assert find_route(f"/api/nothing/{uuid4()}") is None
