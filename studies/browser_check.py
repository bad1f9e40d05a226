"""Does the report work in a real browser?  Opens one in a headless Chromium and moves the slider.

    python studies/browser_check.py [REPORT.html] [--screenshots DIR]

Without a file it makes one from a small run.  `make browser` runs this; the tests do not, because it
needs a Chromium and its driver (on Debian: chromium
and chromium-driver) and the extra `browser` (selenium); where one is missing it says so and ends
with status 2.  Prints a table of checks; the status is 1 if one fails.  The screenshots, wide, dark
and narrow, are written to studies/results/browser_check/, or DIR.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabulate import tabulate

import optik
from optik.benchmark.report import report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SETS = ("arm7_lesson", "panda_at_limit_1")
COUNT = 40
SOLVERS = ["clamped-dls", "box-qp", "trf"]
RESULTS = Path(__file__).parent / "results" / "browser_check"
# The arm's pixels as a number, so that a change of the picture can be told.
PICTURE = """
const arm = document.getElementById(arguments[0]), c = document.createElement('canvas');
[c.width, c.height] = [arm.width, arm.height];
const copy = c.getContext('2d', { willReadFrequently: true });
copy.drawImage(arm, 0, 0);
const d = copy.getImageData(0, 0, c.width, c.height).data;
let h = 0, painted = 0;
for (let i = 0; i < d.length; i += 4) {
  h = (h * 31 + d[i] + 7 * d[i + 1] + 13 * d[i + 2] + 17 * d[i + 3]) % 4294967291;
  painted += d[i + 3] > 0;
}
return [h, painted / (d.length / 4)];
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("page", nargs="?", type=Path, help="a report; made if not given")
    parser.add_argument("--screenshots", type=Path, help="where the screenshots go")
    options = parser.parse_args()
    missing = what_is_missing()
    if missing:
        print(f"The browser check cannot run: {missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        page = options.page or make_report(Path(scratch))
        folder = options.screenshots or RESULTS
        folder.mkdir(parents=True, exist_ok=True)
        rows = check(page.resolve(), folder)
        print(tabulate(rows, headers=["check", "found", ""], tablefmt="simple"))
        print(f"screenshots: {', '.join(sorted(p.name for p in folder.glob('*.png')))}")
    return 0 if all(row[2] == "ok" for row in rows) else 1


def what_is_missing() -> str:
    """What has to be installed first; empty if nothing."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (pip install 'optik[browser]')."
    if browser() is None:
        return f"no Chromium was found on the path (looked for {', '.join(BROWSERS)})."
    if shutil.which("chromedriver") is None:
        return "chromedriver was not found on the path (on Debian: chromium-driver)."
    return ""


def browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def make_report(folder: Path) -> Path:
    sets = [optik.load_problem_set(name).first(COUNT) for name in SETS]
    optik.run(sets, SOLVERS, out=folder / "run", title="a small run for the report")
    return report([folder / "run"], out=folder / "report.html")


@contextmanager
def chromium(*, width: int, height: int, dark: bool) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = browser() or ""
        for argument in (
            "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--hide-scrollbars", "--force-prefers-reduced-motion", f"--user-data-dir={profile}", f"--window-size={width},{height}",
        ):  # fmt: skip
            options.add_argument(argument)
        if dark:
            options.add_argument("--blink-settings=preferredColorScheme=0")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


def check(page: Path, folder: Path) -> list[list[str]]:
    """Opens the page three times and returns a row a check: what, found, ok or not."""
    rows: list[list[str]] = []

    def say(what: str, found: object, good: bool) -> None:
        rows.append([what, textwrap.shorten(str(found), 90), "ok" if good else "FAILED"])

    size = page.stat().st_size / 1e6
    say("size of the page", f"{size:.2f} MB", size < 15)
    with chromium(width=1440, height=1000, dark=False) as driver:
        began = time.perf_counter()
        driver.get(page.as_uri())
        loaded = time.perf_counter() - began
        say("loads", f"{loaded:.1f} s", driver.title.endswith("optik report"))
        arm_checks(driver, say)
        table_checks(driver, say)
        driver.execute_script("window.scrollTo(0, 0)")
        whole_page(driver, folder / "wide.png")
        shoot(driver, "explorer", folder / "explorer.png")
        console_checks(driver, page, say)
    for name, width, dark in (("dark", 1440, True), ("narrow", 420, False)):
        with chromium(width=width, height=1000, dark=dark) as driver:
            driver.get(page.as_uri())
            wide = driver.execute_script("return document.documentElement.scrollWidth")
            shown = driver.execute_script("return document.documentElement.clientWidth")
            say(f"{name}: nothing sticks out", f"{wide} of {shown} px", wide <= shown)
            if dark:
                scheme = driver.execute_script(
                    "return matchMedia('(prefers-color-scheme: dark)').matches"
                )
                say("dark: the page knows it", scheme, bool(scheme))
            shoot(driver, "explorer", folder / f"{name}.png")
            console_checks(driver, page, say, prefix=f"{name}: ")
    return rows


def arm_checks(driver: Any, say: Callable[[str, object, bool], None]) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    slider = driver.find_element(By.ID, "slider")
    slider.send_keys(Keys.HOME)
    pictures, share = [], []
    for _ in range(4):
        both = [driver.execute_script(PICTURE, f"arm-{i}") for i in (0, 1)]
        pictures.append(tuple(p[0] for p in both))
        share += [p[1] for p in both]
        slider.send_keys(Keys.ARROW_RIGHT)
    say(
        "the arms are painted", f"{100 * min(share):.0f} % of the canvas or more", min(share) > 0.03
    )
    moved = all(a[i] != b[i] for a, b in itertools.pairwise(pictures) for i in (0, 1))
    say("the slider moves both arms", f"{len(set(pictures))} pictures in 4 steps", moved)
    at = driver.find_element(By.ID, "iteration").text
    say("the read-out follows the slider", f"iteration {at}", at == "4")
    driver.find_element(By.ID, "play").click()
    end = driver.execute_script("return Number(document.getElementById('slider').max)")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        at = driver.find_element(By.ID, "iteration").text
        if at == str(end):
            break
        time.sleep(0.1)
    say("play runs to the end", f"iteration {at} of {end}", at == str(end))
    before = driver.execute_script(PICTURE, "arm-1")[0]
    canvas = driver.find_element(By.ID, "arm-0")
    ActionChains(driver).drag_and_drop_by_offset(canvas, 120, 20).perform()
    say(
        "dragging one arm turns the other", "", driver.execute_script(PICTURE, "arm-1")[0] != before
    )
    driver.execute_script(
        "const c = document.getElementById('arm-0');"
        "c.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }))"
    )
    for chip in driver.find_elements(By.CSS_SELECTOR, ".chips button"):
        chip.click()
    driver.find_element(By.ID, "case-0").click()


def table_checks(driver: Any, say: Callable[[str, object, bool], None]) -> None:
    from selenium.webdriver.common.by import By

    table = driver.find_element(By.ID, "table-summary")
    heading = next(
        h for h in table.find_elements(By.TAG_NAME, "th") if h.text.startswith("evaluations")
    )
    column = table.find_elements(By.TAG_NAME, "th").index(heading)
    heading.find_element(By.TAG_NAME, "button").click()
    keys = [
        float(row.find_elements(By.TAG_NAME, "td")[column].get_attribute("data-v"))
        for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")
    ]
    say("a heading sorts its table", f"{len(keys)} rows", keys == sorted(keys))
    for _ in range(2):
        heading.find_element(By.TAG_NAME, "button").click()


def console_checks(
    driver: Any, page: Path, say: Callable[[str, object, bool], None], prefix: str = ""
) -> None:
    lines = [entry for entry in driver.get_log("browser") if entry["level"] != "INFO"]
    say(
        f"{prefix}no console error",
        "; ".join(entry["message"] for entry in lines) or "none",
        not lines,
    )
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    urls = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
        # The browser's own first tab asks for its own pages; only this document's requests count.
        and event["params"]["documentURL"].split("#")[0] == page.as_uri()
    }
    outside = sorted(u for u in urls if u != page.as_uri() and not u.startswith("data:"))
    seen = page.as_uri() in urls  # else the log did not hold what it should
    say(f"{prefix}no request leaves the page", ", ".join(outside) or "none", seen and not outside)


def whole_page(driver: Any, path: Path) -> None:
    import base64

    driver.execute_script("document.querySelector('.control').style.position = 'static'")
    height = driver.execute_script("return document.documentElement.scrollHeight")
    picture = driver.execute_cdp_cmd(
        "Page.captureScreenshot",
        {
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": 1440, "height": height, "scale": 1},
        },
    )
    path.write_bytes(base64.b64decode(picture["data"]))


def shoot(driver: Any, element: str, path: Path) -> None:
    """One section of the page, in double resolution, without the bar that sticks to the window."""
    import base64

    driver.execute_script("document.querySelector('.control').style.position = 'static'")
    box = driver.execute_script(
        "const b = document.getElementById(arguments[0]).getBoundingClientRect();"
        "return [b.left + scrollX, b.top + scrollY, b.width, b.height]",
        element,
    )
    clip = dict(zip(("x", "y", "width", "height"), box, strict=True))
    picture = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {**clip, "scale": 1.5}}
    )
    path.write_bytes(base64.b64decode(picture["data"]))


if __name__ == "__main__":
    sys.exit(main())
