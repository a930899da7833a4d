"""The web page in a real browser: searches, keyboard, phones, dark theme, accessibility."""

import shutil

import pytest

from corrhash.service.app import create_app
from tests.service.conftest import HOSTILE, image_bytes
from tests.service.running import running

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def url(collection, generous):
    with running(create_app(collection, generous)) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, url):
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("dialog", lambda dialog: page.errors.append(dialog.message))
    page.goto(url)
    yield page
    context.close()
    assert page.errors == []


def search(page, words):
    page.get_by_label("Search text").fill(words)
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector("#results li")


def shown_keys(page):
    return page.locator("#results .key").all_text_contents()


def test_text_search_marks_differing_bits(page, collection):
    search(page, "sea boat")
    expected = collection.search("sea boat", k=24)
    assert shown_keys(page) == [match.key for match in expected]
    first = page.locator("#results li").first
    assert first.locator(".bits i").count() == collection.n_bits
    assert first.locator(".bits i.differs").count() == expected[0].distance


def test_uploaded_picture_finds_itself_first(page, scenes):
    file = {"name": "a.png", "mimeType": "image/png", "buffer": image_bytes(scenes.images[5])}
    page.set_input_files("#picture", file)
    page.wait_for_selector("#results li")
    assert shown_keys(page)[0] == "scene 5"
    assert page.locator("#query-picture").is_visible()


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_picture_is_dropped_or_pasted(page, scenes, way):
    page.evaluate(
        """([way, bytes]) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "a.png", { type: "image/png" }));
          document.dispatchEvent(way === "drop" ? new DragEvent("drop", { dataTransfer: data })
            : new ClipboardEvent("paste", { clipboardData: data }));
        }""",
        [way, list(image_bytes(scenes.images[5]))],
    )
    page.wait_for_selector("#results li")
    assert shown_keys(page)[0] == "scene 5"


def test_start_page_offers_examples_and_samples(page, collection):
    word = page.locator("#examples button").first
    sample = page.locator("#samples button").first
    key = sample.get_attribute("aria-label").removeprefix("Find similar to ")
    sample.click()
    page.get_by_text(f"Similar to {key}", exact=True).wait_for()
    assert shown_keys(page) == [match.key for match in collection.search(key=key, k=24)]
    page.locator("#query-picture").wait_for()
    assert page.locator("#samples").is_hidden()
    word.click()
    page.get_by_text(f"“{word.text_content()}”", exact=True).wait_for()
    expected = collection.search(word.text_content(), k=24)
    assert shown_keys(page) == [match.key for match in expected]


def test_search_in_texts(page, collection):
    search(page, "sea boat")
    page.get_by_text("Texts", exact=True).click()
    page.wait_for_url("**find=text*")
    page.locator("#results:not([aria-busy])").wait_for()
    expected = collection.search("sea boat", k=24, find="text")
    assert shown_keys(page) == [match.key for match in expected]


def test_find_similar_searches_by_key(page, collection):
    search(page, "sea boat")
    key = shown_keys(page)[0]
    page.get_by_role("button", name=f"Find similar to {key}", exact=True).click()
    page.get_by_text(f"Similar to {key}", exact=True).wait_for()
    assert shown_keys(page) == [match.key for match in collection.search(key=key, k=24)]


def test_label_filters_and_link_repeats_the_search(page, browser):
    search(page, "sea boat")
    page.select_option("#label", "boat")
    page.wait_for_url("**label=boat*")
    page.locator("#results:not([aria-busy])").wait_for()
    keys = shown_keys(page)
    for labels in page.locator("#results .labels").all():
        assert "boat" in labels.locator("button").all_text_contents()
    other = browser.new_page()
    other.goto(page.url)
    other.wait_for_selector("#results li")
    assert shown_keys(other) == keys
    other.close()


def test_keyboard_navigation(page):
    page.keyboard.type("sea boat")  # the text field has the focus initially
    page.keyboard.press("Enter")
    page.wait_for_selector("#results li")
    for _ in range(40):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.getAttribute('aria-label') || ''")
        if name.startswith("Find similar"):
            break
    page.keyboard.press("Enter")
    page.get_by_text("Similar to scene", exact=False).first.wait_for()
    page.locator("#results:focus").wait_for()  # the focus moves to the results


def test_hostile_texts_are_not_html(page):
    page.get_by_label("Search text").fill("sea")
    page.keyboard.press("Enter")
    page.wait_for_selector("#results li")
    more = page.get_by_role("button", name="Show more")
    while more.is_visible():
        before = page.locator("#results li").count()
        more.click()
        page.locator("#results li").nth(before).wait_for()
    assert page.get_by_role("button", name=HOSTILE, exact=True).count() == 1
    assert page.locator("#results script").count() == 0


def test_errors_are_shown_with_samples(page, url):
    page.get_by_label("Search text").fill("xyzzy")
    page.keyboard.press("Enter")
    page.get_by_text("are in the model's vocabulary").wait_for()
    page.locator("#samples button").first.wait_for()
    vector = {"name": "a.svg", "mimeType": "image/svg+xml", "buffer": b"<svg/>"}
    page.set_input_files("#picture", vector)
    page.get_by_text("Choose a JPEG").wait_for()
    page.goto(f"{url}/?q=sea&label=unicorn")
    page.get_by_text("No results labelled “unicorn”").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, {"width": 1280, "height": 900}], ids=["phone", "desktop"])
def test_accessibility_and_layout(browser, url, scheme, size):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # axe adds its own script, which the policy forbids; another test checks the policy.
    context = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{url}/?q=sea+boat")
    page.wait_for_selector("#results li")
    page.wait_for_timeout(400)  # wait for the fade-in, which changes colours
    found = axe.Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()
