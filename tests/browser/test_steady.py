"""What comes by itself neither takes a click away nor what somebody types."""

from playwright.sync_api import Locator, Page, Route, expect

from approvals.models import ChangeRequest
from tests.approvals.proposals import hold
from tests.browser.conftest import SignIn
from tests.support.cast import make_person

FORECAST = "<p>It would be applied.</p>" * 20
# It has the focus at once: the page may ask for itself before anything is typed.
FIELD = """() => {
  const field = document.createElement("textarea");
  document.querySelector("main h1").append(field);
  field.focus();
}"""
TOLD = "addEventListener('htmx:xhr:loadend', () => setTimeout(() => document.documentElement.dataset.came = 'yes'))"


def expect_arrival(page: Page) -> None:
    """The next part of the page has come, and was taken into it or put off."""
    page.evaluate("void delete document.documentElement.dataset.came")
    expect(page.locator("html")).to_have_attribute("data-came", "yes")


def test_neither_a_click_nor_what_is_typed_is_lost(sign_in: SignIn) -> None:
    page = sign_in(make_person("grace", superuser=True))
    page.add_init_script(TOLD)
    forecasts: list[Route] = []

    def keep(route: Route) -> None:
        if len(forecasts) < 2:
            forecasts.append(route)
        else:
            route.fulfill(body=FORECAST)

    def press_while_it_comes(button: Locator) -> None:
        with page.expect_request("**/forecast"):
            page.goto(f"/console/changes/{change.id}")
        button.hover()
        page.mouse.down()
        forecasts[-1].fulfill(body=FORECAST)
        expect(page.locator("html")).to_have_attribute("data-came", "yes")
        page.mouse.up()

    page.route("**/forecast", keep)
    change = hold()
    press_while_it_comes(page.get_by_role("heading", level=1))
    expect(page.locator("#now")).to_contain_text("It would be applied.")
    page.get_by_label("Ask back").fill("For which project?")
    press_while_it_comes(page.get_by_role("button", name="Ask", exact=True))
    expect(page.get_by_role("region", name="Questions and answers")).to_contain_text("For which project?")

    # What asks for itself again and again has no field today.
    ChangeRequest.objects.filter(id=change.id).update(status="applying")
    page.reload()
    page.evaluate(FIELD)
    page.locator("main textarea").fill("Half a sen")
    page.locator("main textarea").blur()
    expect_arrival(page)
    expect(page.locator("main textarea")).to_have_value("Half a sen")
