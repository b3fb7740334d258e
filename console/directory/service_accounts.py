"""The accounts that services run under, by type, with who may use them and where."""

from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext_noop

from console.page_context import PageContext, console_page
from console.shared.downloads import download, download_paths
from console.shared.lists import USUAL, given_in, render_list

TYPES = {
    "managed": gettext_noop("Managed"),
    "group-managed": gettext_noop("Group-managed"),
    "delegated-managed": gettext_noop("Delegated managed"),
    "user-with-spn": gettext_noop("Users with a service principal name"),
}


@console_page(get="service-accounts.search")
def service_accounts(page: PageContext) -> HttpResponseBase:
    query = _query_of(page)
    context = {"types": TYPES, "chosen_types": query["types"].split(",")}
    return render_list(
        page,
        "directory/service_accounts.html",
        "directory/_service_accounts_found.html",
        context,
        operation="service-accounts.search",
        query=query,
    )


@console_page(get="service-accounts.search")
def result(page: PageContext, form: str) -> HttpResponseBase:
    """All of them, as a file."""
    query = {name: value for name, value in _query_of(page).items() if name != "attributes"}
    return download(page, "service-accounts.search", form, called="service-accounts", query=query)


def _query_of(page: PageContext) -> dict[str, str]:
    types = page.request.GET.getlist("types") or list(TYPES)
    return {**USUAL, "attributes": "sAMAccountName", "types": ",".join(types), **given_in(page)}


urls = [
    path("service-accounts/", service_accounts, name="service-accounts"),
    *download_paths("service-accounts/result", result, "service-accounts"),
]
