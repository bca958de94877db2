"""Each view of the status page, with all that it can show, in a browser: light and dark, wide and on a phone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.browser import LOOKS, chromium, keep_picture, open_page, violations
from tests.scenarios.played_page import served_night

VIEWS = ("overview", "partitions", "groups", "gaps", "failover", "configuration", "log")
WORDS = {
    "overview": "raise max.message.bytes",
    "partitions": "orders",
    "groups": "billing",
    "gaps": "retention",
    "failover": "33 records would be lost",
    "configuration": "topics.whitelist",
    "log": "9 times since",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served_night() as server:
        yield f"http://{server.address}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


def turn_to(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = view }", view)
    expect(page.locator("main")).to_have_attribute("data-view", view)
    expect(page.locator("main").get_by_text(WORDS[view]).first).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
def test_axe_core_finds_nothing_in_any_view(url: str, browser: Browser, look: str) -> None:
    complaints: list[str] = []
    page = open_page(browser, url, look, complaints)
    for view in VIEWS:
        turn_to(page, view)
        keep_picture(page, f"night-{view}-{look}")
        assert violations(page) == [], view
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is too wide"
    assert complaints == []
    page.context.close()
