"""The language of the pages: the browser's own choice, unless somebody has made one in it."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import override

from console.page_context import PageContext, console_page


@console_page("POST", may_lack_second_factor=True)
def choose_language(page: PageContext) -> HttpResponseBase:
    """Keep the choice in a cookie of the browser, or forget it: then what the browser prefers holds."""
    chosen = page.form.get("language", "")
    response = page.redirect("account")
    if chosen not in dict(settings.LANGUAGES):
        response.delete_cookie(settings.LANGUAGE_COOKIE_NAME, samesite="Lax")
        return response
    with override(chosen):
        messages.success(page.request, _("The pages are in English now."))
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        chosen,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
        samesite="Lax",
    )
    return response


urls = [path("account/language", choose_language, name="language")]
