"""Each view of the status page, with all that it can show, in a browser: light and dark, wide and on a phone."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.scenarios.browser import LOOKS, chromium, open_page, violations
from tests.scenarios.played_page import FLOW, LONG_NAME, served_night

from sparkmirror.model import TopicPartition
from sparkmirror.web.page_state import PageState

VIEWS = (
    "overview", "topics", "partitions", "groups", "gaps", "processes", "failover", "configuration", "log",
)  # fmt: skip
WORDS = {
    "overview": "raise max.message.bytes",
    "topics": "sensors",
    "partitions": "orders",
    "groups": "billing",
    "gaps": "retention",
    "processes": "west-2.example.org:9092 refuses",
    "failover": "33 records would be lost",
    "configuration": "topics.whitelist",
    "log": "9 times since",
}
TORN = """() => {
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.data.trim(), range = document.createRange();
        if (walker.currentNode.parentElement.closest(".only-read")) continue;
        range.selectNodeContents(walker.currentNode);
        const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top))).size;
        if (lines > 2 && text.length / lines < 6) found.push(text);
    }
    return found;
}"""
"""Texts that are broken so often that a line has but a few letters."""


@pytest.fixture(scope="module")
def night() -> Iterator[tuple[str, PageState]]:
    with served_night() as served:
        yield served


@pytest.fixture(scope="module")
def url(night: tuple[str, PageState]) -> str:
    return night[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(url: str, browser: Browser) -> Iterator[Page]:
    complaints: list[str] = []
    opened = open_page(browser, url, "light", complaints)
    expect(opened.locator(".timeline")).to_be_visible()
    yield opened
    opened.context.close()
    assert complaints == []


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
        assert violations(page) == [], view
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{view} is too wide"
        assert page.evaluate(TORN) == [], f"{view}: broken letter by letter"
    page.evaluate("() => { location.hash = 'partitions/west-%3Ebackup/orders/3' }")
    expect(page.get_by_role("dialog", name="orders-3")).to_be_visible()
    assert violations(page) == [], "a partition"
    assert complaints == []
    page.context.close()


def test_axe_core_finds_nothing_on_a_page_that_hears_nothing_and_is_grey(browser: Browser) -> None:
    complaints: list[str] = []
    with served_night() as (address, _):
        pages = [open_page(browser, address, look, complaints) for look in ("light", "phone-dark")]
        for page in pages:
            expect(page.locator(".timeline")).to_be_visible()
    for page in pages:
        expect(page.locator("html.stale")).to_have_count(1)
        assert violations(page) == []
        page.context.close()


def test_a_topic_opens_into_its_partitions_and_each_has_an_address(page: Page, url: str) -> None:
    page.keyboard.press("2")
    topic = page.get_by_role("row", name=re.compile(r"orders 6 FAILED"))
    expect(topic).to_have_attribute("aria-expanded", "false")
    topic.click()
    expect(topic).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("row", name=re.compile("^partition "))).to_have_count(6)
    assert page.evaluate("location.hash") == "#topics/west-%3Ebackup/orders"
    page.reload()
    expect(page.get_by_role("row", name=re.compile("^partition "))).to_have_count(6)
    page.get_by_role("treegrid").focus()
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="orders-3")).to_contain_text("RECORD_TOO_LARGE")
    assert page.evaluate("location.hash") == "#partitions/west-%3Ebackup/orders/3"
    page.reload()
    expect(page.get_by_role("dialog", name="orders-3")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto(f"{url}#topics/west-%3Ebackup/{LONG_NAME}")
    expect(page.get_by_role("row", name=re.compile("^partition "))).to_have_count(3)
    page.goto(f"{url}#overview/west-%3Ebackup")
    expect(page.get_by_role("heading", name=str(FLOW))).to_be_in_viewport()


def test_how_far_a_partition_is_behind_is_not_known_where_its_lag_is_not(
    night: tuple[str, PageState], page: Page, url: str
) -> None:
    page_state, name = night[1], f"partitions/{FLOW}"
    (row,) = (row for row in page_state.since(0)["rows"][name] if row[1:3] == ["orders", 5])
    cells: dict[int, object] = dict(enumerate(row[1:]))
    dialog = page.get_by_role("dialog", name="orders-5")
    for end, said in ((cells[4], "behindnothing"), (None, "lagnot knownbehindnot known")):
        page_state.update_rows(name, {TopicPartition("orders", 5): tuple((cells | {4: end, 7: None}).values())})
        page.goto(f"{url}#partitions/west-%3Ebackup/orders/5")
        page.reload()
        expect(dialog).to_contain_text(said)
    page_state.update_rows(name, {TopicPartition("orders", 5): tuple(cells.values())})


def test_the_page_says_where_offsets_are_identical(page: Page, url: str) -> None:
    card = page.get_by_role("article", name=str(FLOW))
    expect(card.get_by_role("definition").filter(has_text="identical in 4 partitions")).to_be_visible()
    for place, said in (("sensors/2", "identical on both clusters"), ("orders/2", "of their own on the target")):
        page.goto(f"{url}#partitions/west-%3Ebackup/{place}")
        page.reload()
        expect(page.get_by_role("dialog", name=place.replace("/", "-"))).to_contain_text(said)
    page.goto(f"{url}#partitions/west-%3Ebackup/sensors/3")
    page.reload()
    known = "hole: 1,004,000 of 1,009,000 offsets filled, 44.4 %, 300/s, 17\u00a0s left"
    old = "hole up to offset 1,009,000: how far it is filled is not known"
    expect(page.get_by_role("dialog", name="sensors-3")).to_contain_text(re.compile(f"{known}|{old}"))
    page.goto(f"{url}#failover")
    page.reload()
    expect(page.get_by_text("Offsets are identical in 4 partitions")).to_be_visible()


def test_the_curves_of_a_day_have_axes_and_events_and_what_is_not_known_is_a_gap(page: Page) -> None:
    day = page.get_by_role("img", name=re.compile("in the last 24 hours: at most 1.59.k.s and 2,400 records"))
    expect(day).to_be_visible()
    assert {"records/s", "lag, records", "UTC", "events", "2.00\u00a0k"} <= set(day.locator("text").all_text_contents())
    expect(day.locator(".rate .void")).to_have_count(1)
    expect(day.locator(".lag .void")).to_have_count(2)
    expect(day.locator(".mark")).to_have_count(7)
    expect(day.locator(".mark.bad", has_text="gap, orders-0: retention, 485 offsets gone")).to_have_count(1)
    page.get_by_role("button", name="5 min").click()
    recent = page.get_by_role("img", name=re.compile("in the last five minutes"))
    expect(recent.locator(".void")).to_have_count(0)


def test_a_group_opens_into_its_partitions_and_says_why_it_is_not_synced(page: Page) -> None:
    turn_to(page, "groups")
    row = page.get_by_role("row", name=re.compile("billing look 12 not known Stable"))
    expect(row).to_contain_text("no offset sync is old enough")
    row.click()
    expect(page.get_by_role("dialog", name="billing")).to_contain_text("orders-2")


def test_a_verdict_is_read_aloud_once_though_its_figures_change_every_second(
    night: tuple[str, PageState], page: Page
) -> None:
    page_state = night[1]
    spoken = page.locator(".overview [role=status]")
    for seconds in (75, 76):
        page_state.put("verdict", {"level": "amber", "sentence": f"west->backup is up to {seconds} s behind"})
        expect(page.locator(".verdict")).to_contain_text(f"{seconds} s behind")
        expect(spoken).to_have_text("west->backup is up to 75 s behind.")
    page_state.put("verdict", {"level": "red", "sentence": "west->backup: cluster backup: does not answer"})
    expect(spoken).to_have_text("west->backup: cluster backup: does not answer.")
    assert page.locator("#link").evaluate("one => one.closest('[aria-live], [role=status]') === null"), "the clock"
