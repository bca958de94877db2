"""Chromium, driven by playwright: the machine's own, or the one that the set-up has brought."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.programs import program

PICTURES = Path(__file__).parents[2] / "build" / "pictures"
"""Where screenshots are kept, for people to look at."""
SECONDS_MAX = 60.0
"""For what is to show; a deadline ends what hangs."""
_NAMES = ("chromium", "chromium-browser", "google-chrome")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True},
    "phone-dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}
_AXE = resources.files("axe_playwright_python") / "axe.min.js"
_VIOLATIONS = """async () => (await axe.run(document)).violations.flatMap((rule) =>
    rule.nodes.map((node) => `${rule.id}: ${node.html} ${node.failureSummary}`))"""


@contextmanager
def chromium() -> Iterator[Browser]:
    executable = program(*_NAMES)
    expect.set_options(timeout=SECONDS_MAX * 1000)
    with sync_playwright() as player:
        # As root, in a container, Chromium has no sandbox of its own.
        plain = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = player.chromium.launch(executable_path=executable, args=plain)
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Browser, url: str, look: str, complaints: list[str]) -> Page:
    """A page of its own session; what its scripts complain about is added to `complaints`."""
    context = browser.new_context(**LOOKS[look])
    context.set_default_timeout(SECONDS_MAX * 1000)
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda problem: complaints.append(str(problem)))
    page.goto(url)
    return page


def violations(page: Page) -> list[str]:
    """What axe-core finds against the rules of accessibility in what is shown now, a sentence each."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.read_text())
    found: list[str] = page.evaluate(_VIOLATIONS)
    return found


def keep_picture(page: Page, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
