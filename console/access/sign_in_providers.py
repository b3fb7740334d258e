"""The providers at which people sign in: what to register there, and trial sign-ins that sign nobody in."""

import json

from django.http import HttpResponseBase

from console.account.sign_in_elsewhere import start_flow
from console.page_context import PageContext, page_at, page_url
from core import shown_once
from core.errors import NotFound


@page_at("people/providers", "sign-in-providers", get="sign-in-providers.list")
def providers(page: PageContext) -> HttpResponseBase:
    return page.render("access/sign_in_providers.html", {"providers": page.perform("sign-in-providers.list")["items"]})


@page_at("people/providers/<slug:name>", "sign-in-provider", get="sign-in-providers.list")
def provider(page: PageContext, name: str) -> HttpResponseBase:
    """The provider, and after a trial what it has said."""
    found = [item for item in page.perform("sign-in-providers.list")["items"] if item["name"] == name]
    if not found:
        raise NotFound
    addresses = {
        view: page.request.build_absolute_uri(page_url(view, **arguments))
        for view, arguments in (
            ("sign-in-elsewhere-return", {"name": name}),
            ("signed-out-elsewhere", {"name": name}),
            ("sign-in", {}),
        )
    }
    trial = shown_once.take(page.request)
    if trial is not None:
        trial["claims"] = {claim: json.dumps(value, ensure_ascii=False) for claim, value in trial["claims"].items()}
    context = {
        "provider": found[0],
        "redirect_uri": addresses["sign-in-elsewhere-return"],
        "logout_uri": addresses["signed-out-elsewhere"],
        "after_logout_uri": addresses["sign-in"],
        "trial": trial,
        "was_shown": trial is None and shown_once.is_expected(page.request),
    }
    return page.render("access/sign_in_provider.html", context)


@page_at("people/providers/<slug:name>/try", "sign-in-provider-try", get="sign-in-providers.list")
def try_provider(page: PageContext, name: str) -> HttpResponseBase:
    """Send the browser to the provider; its answer is only shown."""
    page.perform("sign-in-providers.list")
    address = start_flow(page.request, name, next_url="", trial_of=page.person.pk)
    return page.redirect_to(address)
