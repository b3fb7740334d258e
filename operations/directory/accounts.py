"""The search for accounts by state; `directory.queries.account_searches` defines the states."""

from typing import Annotated, Literal, cast

from annotated_types import MinLen
from pydantic import Field, ValidationInfo, field_validator

from core.call import Call
from core.operation import RateCategory, Target, operation
from core.paging import Page
from core.shapes import COMMA_SEPARATED, WHOLE_NUMBER, without_default
from directory.lookup.access import client_of
from directory.queries.account_searches import AccountInState, AccountState, search_by_state
from directory.queries.searches.definitions import SearchQuery
from directory.queries.searches.search import run_search
from directory.shapes.kinds import Kind

AccountKind = Literal[Kind.USER, Kind.COMPUTER, Kind.SERVICE_ACCOUNT]
_WITH_DAYS = frozenset({AccountState.EXPIRING, AccountState.PASSWORD_EXPIRING, AccountState.INACTIVE})


class AccountQuery(SearchQuery):
    """Which accounts to find, and the parameters of every search."""

    state: Annotated[
        AccountState,
        Field(
            description="The state. The directory writes `lastLogonTimestamp` up to 14 days late, and tells `lastLogon`"
            " only of the domain controller that answers: who is `inactive` may have signed in up to 14 days after what"
            " the evidence says."
        ),
    ]
    kinds: Annotated[
        tuple[AccountKind, ...], MinLen(1), COMMA_SEPARATED, Field(description="Kinds of accounts, with commas.")
    ] = (Kind.USER,)
    days: Annotated[
        int,
        Field(
            ge=1,
            le=3650,
            description="How many days ahead (`expiring`, `password-expiring`) or back (`inactive`), 30 unless given;"
            " for those states alone.",
            json_schema_extra=without_default,
        ),
        WHOLE_NUMBER,
    ] = 30

    @field_validator("days")
    @classmethod
    def _require_state_with_days(cls, days: int, info: ValidationInfo) -> int:
        state = info.data.get("state")
        if state is not None and state not in _WITH_DAYS:
            raise ValueError(f"the state {state} has no number of days")
        return days


@operation(
    "accounts.search",
    "GET ad/accounts",
    "Search accounts by their state",
    permission="directory.read_object",
    target=Target.OBJECT,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def search_accounts(call: Call, *, query: AccountQuery) -> Page[AccountInState]:
    """Find accounts by their state, each with the evidence for it."""
    search = search_by_state(client_of(call), query.state, kinds=query.kinds, days=query.days)
    return cast(Page[AccountInState], run_search(call, search, query))
