"""Pages of a single button: each performs an operation on what its address names and goes on to a page that says so."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.urls import URLPattern, path
from pydantic.alias_generators import to_camel

from console.page_context import PageContext, console_page
from core.errors import GatewayError


def button(
    address: str,
    name: str,
    operation: str,
    said: Any,
    show: Callable[..., HttpResponseBase],
    *,
    to: str = "",
    to_list: str = "",
    body: Callable[[PageContext], Any] = lambda _: None,
) -> URLPattern:
    """The page of a button. The first name in its address is the operation's `{id}`; `show` tells a refusal.

    It leads `to` the page of the same thing, or `to_list`, and says there what was `said`, a lazy text.
    """

    @console_page("POST", post=operation)
    def press(page: PageContext, /, **named: UUID) -> HttpResponseBase:
        (first, id), *others = named.items()
        arguments: dict[str, Any] = {to_camel(other): value for other, value in others}
        try:
            page.perform(operation, body=body(page), id=id, **arguments)
        except GatewayError as refusal:
            return show(page, id, problem=refusal)
        return page.redirect(to_list, said=str(said)) if to_list else page.redirect(to, said=str(said), **{first: id})

    return path(address, press, name=name)
