"""The list of accounts that services run under; `directory.queries.account_searches` defines the types."""

from typing import Annotated, cast, get_args

from annotated_types import MinLen
from pydantic import Field

from core.call import Call
from core.operation import RateCategory, Target, operation
from core.paging import Page
from core.shapes import COMMA_SEPARATED
from directory.lookup.access import client_of
from directory.lookup.visibility import visibility_of
from directory.queries.account_searches import ServiceAccount, ServiceAccountType, search_by_type
from directory.queries.searches.definitions import SearchQuery
from directory.queries.searches.search import run_search


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
)
def search_service_accounts(call: Call, *, query: ServiceAccountQuery) -> Page[ServiceAccount]:
    """List managed service accounts and the users that services run under."""
    search = search_by_type(client_of(call), query.types, visibility=visibility_of(call))
    return cast(Page[ServiceAccount], run_search(call, search, query))
