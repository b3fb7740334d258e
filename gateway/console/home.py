"""The first page, and the choice of the directory to work on."""

from django.http import HttpResponseBase
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme

from gateway.console.visit import CHOSEN_DIRECTORY, Visit, page


@page()
def home(visit: Visit) -> HttpResponseBase:
    return visit.render("home.html")


@page("POST")
def choose_directory(visit: Visit) -> HttpResponseBase:
    visit.request.session[CHOSEN_DIRECTORY] = visit.form.get("clientId", "")
    there = visit.form.get("next", "")
    if not url_has_allowed_host_and_scheme(there, {visit.request.get_host()}):
        return visit.redirect("home")
    return visit.redirect_to(there)


urls = [
    path("", home, name="home"),
    path("choose-directory", choose_directory, name="choose-directory"),
]
