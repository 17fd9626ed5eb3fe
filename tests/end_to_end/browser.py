"""A real Chromium without a window, as tests drive it; they skip where there is none."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

DESKTOP, PHONE = (1280, 900), (390, 844)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
)
PATIENCE_S = 20
REDRAWN = (StaleElementReferenceException,)
"""What becomes of an element that the page draws anew while it is read."""


class Browser:
    """One tab of Chromium, which saves downloads in a folder."""

    def __init__(self, driver: webdriver.Chrome, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads

    def open(
        self, address: str | Path, state: str = "", *, size: tuple[int, int] = DESKTOP, dark: bool = False
    ) -> None:
        """Opens a page anew, with what its link says behind the #, on a screen of such a size and scheme."""
        if not isinstance(address, str):
            address = address.as_uri()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get("about:blank")
        self.logs()
        self.driver.get(f"{address}#{state}" if state else address)

    def command(self, name: str, **arguments: Any) -> Any:
        """What a command of the DevTools protocol answers."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a function's body returns in the page."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        """The first element of a selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector: str) -> list[WebElement]:
        """Every element of a selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """What a person reads in the first element of a selector."""
        return " ".join(self.find(selector).text.split())

    def texts(self, selector: str) -> list[str]:
        """What a person reads in each element of a selector."""
        return [" ".join(each.text.split()) for each in self.find_all(selector)]

    def choose(self, selector: str, value: str) -> None:
        """Chooses an option of a select, as a person would."""
        self.run(
            "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'));",
            self.find(selector),
            value,
        )

    def label(self, selector: str) -> str:
        """What a screen reader calls an element."""
        return self.find(selector).get_attribute("aria-label") or ""

    def hover(self, selector: str) -> None:
        """Moves the pointer over an element."""
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", element)
        ActionChains(self.driver).move_to_element(element).perform()

    def press(self, *keys: str) -> None:
        """Presses keys one after another, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def slide(self, number: int, value: float) -> None:
        """Moves a slider, as a person would with the pointer."""
        self.run(
            "const [slider, value] = arguments; slider.value = value;"
            "slider.dispatchEvent(new Event('input', {bubbles: true}));",
            self.find_all(".slider input")[number],
            value,
        )

    def wait_for(self, selector: str, text: str = "") -> None:
        """Waits until an element is there that holds a text."""
        WebDriverWait(self.driver, PATIENCE_S, ignored_exceptions=REDRAWN).until(
            lambda _: any(text in found for found in self.texts(selector)),
            f"There is no {selector} with {text!r}.",
        )

    def logs(self) -> tuple[list[str], list[str]]:
        """Errors of the console, and the addresses of all requests, since the last call."""
        errors = [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]  # type: ignore[no-untyped-call]
        requests = [
            str(event["params"]["request"]["url"])
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return errors, requests


@contextmanager
def open_browser(downloads: Path) -> Iterator[Browser]:
    """Yields a browser that saves downloads in a folder; skips the test where Chromium is missing."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("There is no chromium with its chromedriver, in which the page is tested.")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    chromium = webdriver.Chrome(options=options, service=Service(executable_path=driver))
    try:
        yield Browser(chromium, downloads)
    finally:
        chromium.quit()
