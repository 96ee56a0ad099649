"""A real browser without a screen. Pages are opened from disk; what the browser logs and asks for is looked at."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

SCREENSHOTS = Path(__file__).parents[3] / "out" / "screenshots"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1400,900",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
)  # fmt: skip


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    selenium = pytest.importorskip("selenium.webdriver", reason="the page's tests need selenium")
    browser, control = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not control:
        pytest.skip("the page's tests need the programs chromium and chromedriver")
    from selenium.webdriver.chrome.service import Service

    options = selenium.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(tmp_path_factory.mktemp("downloads"))})
    found = selenium.Chrome(options=options, service=Service(control, log_output=os.devnull))
    yield found
    found.quit()


class Browser:
    """A page in the browser."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path):
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(Path(path).as_uri())
        self.settle()

    def run(self, script, *arguments):
        found = self.driver.execute_script(script, *arguments)
        self.settle()
        return found

    def settle(self):
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        )

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def click(self, selector):
        self.find(selector).click()
        self.settle()

    def keys(self, keys, selector="#stage"):
        self.find(selector).send_keys(keys)
        self.settle()

    def picture(self, name):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def complaints(self):
        """Return what the browser complained about, and every address it asked for besides the page."""
        logged = [m["message"] for m in self.driver.get_log("browser")]
        events = [json.loads(m["message"])["message"] for m in self.driver.get_log("performance")]
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return logged, [u for u in asked if not u.startswith(("file:", "data:", "blob:", "chrome:"))]


@pytest.fixture
def browser(driver):
    return Browser(driver)
