"""What several parts of the tests share."""

import shutil

import pytest


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """Return `chromium(*flags)`, which opens a headless browser once for the same flags; skip where there is none.

    It keeps what the console says, and the requests it makes.
    """
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    opened = {}

    def open_once(*flags):
        if flags not in opened:
            options = webdriver.ChromeOptions()
            options.binary_location = binary
            for flag in (
                "headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "disable-sync",
                "disable-component-update", "no-first-run", "disable-dev-shm-usage",
                f"user-data-dir={tmp_path_factory.mktemp('profile')}", *flags,
            ):  # fmt: skip
                options.add_argument(f"--{flag}")
            options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
            opened[flags] = webdriver.Chrome(options=options, service=Service(driver))
        return opened[flags]

    yield open_once
    for browser in opened.values():
        browser.quit()
