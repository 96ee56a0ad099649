"""A headless Chromium that reports errors and network requests, and the pages of the test programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="session")
def browser(chromium: Any, downloads: Path) -> Any:
    opened = chromium("window-size=1400,900")
    opened.set_script_timeout(60)
    opened.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads), "eventsEnabled": False}
    )
    return opened


def complaints(browser: Any) -> list[str]:
    """Return what the console said."""
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser: Any) -> list[str]:
    """Return the addresses that the browser asked for."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]


class Opener:
    """Opens pages; when the test ends, none may have complained or asked for anything but itself and its own blobs."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser, self.folder = browser, folder

    def program(self, name: str) -> Any:
        from programs import PROGRAMS

        from sapwood.viz.show import save

        path = self.folder / f"{name}.html"
        if not path.exists():
            loss, options = PROGRAMS[name]()
            save(loss, path, **options)
        return self.file(path)

    def file(self, path: Path) -> Any:
        self.browser.get(path.as_uri())
        return self.browser

    def picture(self, name: str) -> None:
        shots = ROOT / "out" / "screenshots"
        shots.mkdir(parents=True, exist_ok=True)
        self.browser.save_screenshot(str(shots / f"{name}.png"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def page(browser: Any, folder: Path) -> Iterator[Opener]:
    complaints(browser), requests(browser)
    yield Opener(browser, folder)
    assert complaints(browser) == []
    assert [url for url in requests(browser) if not url.startswith(("file://", "blob:"))] == []
