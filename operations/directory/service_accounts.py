"""The list of accounts that services run under. What the types are is in `directory.queries.service_accounts`."""

from typing import Annotated, cast, get_args

from annotated_types import MinLen
from pydantic import Field

from core.call import Call
from core.operation import RateCategory, Target, operation
from core.paging import Page
from core.shapes import COMMA_SEPARATED
from directory.lookup.access import client_of
from directory.lookup.visibility import visibility_of
from directory.queries.searches.search import SearchQuery, run_search
from directory.queries.service_accounts import search_for
from directory.shapes.service_account import ServiceAccount, ServiceAccountType


class ServiceAccountQuery(SearchQuery):
    """Which types of service accounts to list, and the parameters of every search."""

    types: Annotated[
        tuple[ServiceAccountType, ...],
        MinLen(1),
        COMMA_SEPARATED,
        Field(description="Types, with commas. `user-with-spn` is a user that has a servicePrincipalName."),
    ] = get_args(ServiceAccountType)


@operation(
    "service-accounts.search",
    "GET ad/service-accounts",
    "Search service accounts",
    permission="directory.read_object",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
    query=ServiceAccountQuery,
    output=Page[ServiceAccount],
)
def search_service_accounts(call: Call, *, query: ServiceAccountQuery) -> Page[ServiceAccount]:
    """List managed service accounts and the users that services run under."""
    search = search_for(client_of(call), query.types, visibility=visibility_of(call))
    return cast(Page[ServiceAccount], run_search(call, search, query))
