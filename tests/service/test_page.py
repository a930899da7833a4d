"""The web page in a real browser: searches, viewer, keyboard, phones, dark theme, accessibility."""

import re
import shutil

import numpy as np
import pytest
from PIL import Image

from corrhash.collection import Collection
from corrhash.service.app import create_app
from tests.collection.world import calibrate
from tests.service.conftest import HOSTILE, TOKEN, N, image_bytes
from tests.service.running import running

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 900}
PAGE_SIZE = 48


@pytest.fixture(scope="module")
def url(collection, generous):
    with running(create_app(collection, generous)) as url:
        yield url


@pytest.fixture(scope="module")
def photos(filled, tmp_path_factory):
    """A collection of files, wide and tall, without labels."""
    root = tmp_path_factory.mktemp("photos")
    (root / "holiday").mkdir()
    collection = Collection.create("memory:", filled[0].model, root=root)
    for row in range(3):
        shape = [(600, 900, 3), (900, 600, 3), (300, 900, 3)][row]
        pixels = np.random.default_rng(row).integers(0, 256, shape, dtype=np.uint8)
        Image.fromarray(pixels).save(root / "holiday" / f"{row}.jpg")
    collection.add(
        {"key": f"holiday/{row}.jpg", "image": root / "holiday" / f"{row}.jpg", "text": "sea"}
        for row in range(3)
    )
    return collection


@pytest.fixture(scope="module")
def photos_url(photos, generous):
    with running(create_app(photos, generous, originals=True, paths=True)) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def new_page(browser):
    """Open pages in a new context each; at the end, check that none of them had an error."""
    contexts, errors = [], []

    def open_page(url, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def page(new_page, url):
    return new_page(url)


def search(page, words):
    page.get_by_label("Search text").fill(words)
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector("#results li")


def test_a_line_ends_the_likely_results(page, collection, monkeypatch):
    calibrate(collection, monkeypatch)
    page.get_by_text("Show codes").click()
    page.goto(f"{page.url}?like=scene+3")
    page.wait_for_selector("#results .line")
    matches = collection.search(key="scene 3", k=48)
    n_likely = sum(match.probability >= 0.5 for match in matches)
    assert 0 < n_likely < 48
    entries = page.locator("#results > li")
    assert entries.nth(n_likely).text_content() == "Results below are less likely to be relevant."
    assert page.locator("#results .line").count() == 1
    assert f"{matches[0].probability * 100:.0f}% likely relevant" in entries.first.text_content()
    assert page.locator("#status").text_content() == "First 48 results"
    entries.nth(n_likely - 1).get_by_label("Enlarge").click()
    assert page.locator("#position").text_content() == f"{n_likely} of 48+"
    page.keyboard.press("ArrowRight")  # over the line
    assert page.locator("#position").text_content() == f"{n_likely + 1} of 48+"


def test_unlikely_results_are_announced(page, collection, monkeypatch):
    calibrate(collection, monkeypatch)
    search(page, "sea")  # text->image: at most 1/3
    first = page.locator("#results > li").first.text_content()
    assert first == "None of these results is likely to be relevant."


def shown_keys(page):
    return page.locator("#results .key").all_text_contents()


def keys(matches):
    return [match.key for match in matches]


def test_text_search_shows_matches_in_order(page, collection):
    search(page, "sea boat")
    assert shown_keys(page)[:PAGE_SIZE] == keys(collection.search("sea boat", k=PAGE_SIZE))


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
    page.locator("#samples .open").first.click()
    key = page.locator("#viewer-name").text_content()
    page.get_by_role("button", name="Find similar", exact=True).click()
    page.get_by_text(f"Similar to {key}", exact=True).wait_for()
    assert shown_keys(page)[:PAGE_SIZE] == keys(collection.search(key=key, k=PAGE_SIZE))
    page.locator("#query-picture").wait_for()
    assert page.locator("#samples").is_hidden()
    word.click()
    page.get_by_text(f"“{word.text_content()}”", exact=True).wait_for()
    assert shown_keys(page)[:10] == keys(collection.search(word.text_content(), k=10))


def test_search_in_texts(page, collection):
    search(page, "sea boat")
    page.get_by_label("Texts").check()
    page.wait_for_url("**find=text*")
    page.locator("#results:not([aria-busy])").wait_for()
    assert shown_keys(page)[:10] == keys(collection.search("sea boat", k=10, find="text"))


def test_find_similar_searches_by_key(page, collection):
    search(page, "sea boat")
    page.get_by_label("Large", exact=True).check()
    key = shown_keys(page)[0]
    page.get_by_role("button", name=f"Find similar to {key}", exact=True).click()
    page.get_by_text(f"Similar to {key}", exact=True).wait_for()
    assert shown_keys(page)[:10] == keys(collection.search(key=key, k=10))


def test_label_filters_and_link_repeats_the_search(page, new_page):
    search(page, "sea boat")
    page.select_option("#label", "boat")
    page.wait_for_url("**label=boat*")
    page.locator("#results:not([aria-busy])").wait_for()
    found = shown_keys(page)
    for labels in page.locator("#results .labels").all():
        assert "boat" in labels.locator("button").all_text_contents()
    other = new_page(page.url)
    other.wait_for_selector("#results li")
    assert shown_keys(other) == found


def test_codes_are_shown_on_request_and_remembered(page, collection):
    search(page, "sea boat")
    first = page.locator("#results li").first
    for part in (first.get_by_text("differ"), page.locator("#query-bits"), page.locator("footer")):
        assert part.is_hidden()
    assert "cosine" not in page.locator("main").inner_text()
    page.get_by_role("switch", name="Show codes").check()
    (expected,) = collection.search("sea boat", k=1)
    assert first.locator(".bits i").count() == collection.n_bits
    assert first.locator(".bits i.differs").count() == expected.distance
    assert f"cosine {expected.score:.2f}" in first.inner_text()
    page.reload()
    page.wait_for_selector("#results li")
    assert first.locator(".bits i.differs").count() == expected.distance
    page.get_by_role("switch", name="Show codes").uncheck()
    assert page.locator("#query-bits").is_hidden()


def test_density_changes_the_grid_and_is_remembered(page):
    page.set_viewport_size(DESKTOP)
    search(page, "sea boat")
    first = page.locator("#results li").first
    widths, captions = [], []
    for size in ("Small", "Medium", "Large"):
        page.get_by_label(size, exact=True).check()
        widths.append(first.bounding_box()["width"])
        captions.append(first.locator(".text").is_visible())
    assert widths == sorted(widths)
    assert widths[0] < widths[1] < widths[2]
    assert captions == [False, True, True]
    assert first.locator(".labels").is_visible()
    page.reload()
    page.wait_for_selector("#results li")
    assert first.bounding_box()["width"] == widths[2]


def test_density_is_chosen_by_arrow_keys(page):
    page.get_by_label("Medium", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("body").get_attribute("data-density") == "large"


def test_results_follow_while_scrolling(page, collection):
    search(page, "sea boat")
    expected = keys(collection.search("sea boat", k=N))
    for _ in range(20):
        page.mouse.wheel(0, 5000)
        if page.locator("#results li").count() == N:
            break
        page.wait_for_timeout(100)
    assert shown_keys(page) == expected
    page.get_by_text(f"{N} results", exact=True).wait_for()
    assert page.locator("#more").is_hidden()


def test_failed_page_can_be_loaded_again(page):
    page.set_viewport_size({"width": 400, "height": 300})
    page.route("**/search/text", lambda route: fail_beyond_first_page(route))
    search(page, "sea boat")
    page.locator("#more").scroll_into_view_if_needed()
    again = page.get_by_role("button", name="Cannot load more results. Try again")
    again.wait_for()
    assert page.locator("#results li").count() == PAGE_SIZE
    page.unroute("**/search/text")
    again.click()
    page.locator("#results li").nth(N - 1).wait_for()
    assert page.locator(f"#results li:nth-child({PAGE_SIZE + 1}) .open:focus").count() == 1


def fail_beyond_first_page(route):
    if route.request.post_data_json["offset"]:
        route.fulfill(status=503, json={"error": "Busy."})
    else:
        route.continue_()


def test_unknown_words_are_named_and_corrected(page, collection):
    search(page, "Baot sea xyzzy")
    message = page.locator("#warnings p")
    assert "'baot' and 'xyzzy' are not in" in message.text_content()
    page.get_by_role("button", name="Search for “boat sea xyzzy”").click()
    page.get_by_text("“boat sea xyzzy”", exact=True).wait_for()
    assert "'xyzzy' is not in" in message.text_content()
    assert shown_keys(page)[:10] == keys(collection.search("boat sea", k=10))
    search(page, "boat")
    page.get_by_text("“boat”", exact=True).wait_for()
    assert message.count() == 0


def test_warnings_of_the_answer_are_text(page):
    def warn(route):
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), "warnings": ["one", HOSTILE]})

    page.route("**/search/text", warn)
    search(page, "sea")
    assert page.locator("#warnings p").all_text_contents() == ["one", HOSTILE]


def test_menus_without_a_choice_are_hidden(page, new_page, photos_url):
    other = new_page(f"{photos_url}/?q=sea")
    other.wait_for_selector("#results li")
    assert other.locator("#filter").is_hidden()  # no labels
    assert page.locator("#filter").is_hidden()  # nothing to filter yet
    search(page, "sea")
    for menu in ("#filter", "#find"):
        page.locator(menu).wait_for()


def test_pictures_are_not_cropped(new_page, photos_url):
    page = new_page(f"{photos_url}/?q=sea", viewport=DESKTOP)
    pictures = page.locator("#results img")
    pictures.nth(2).wait_for()
    assert pictures.count() == 3
    for picture in pictures.all():
        style = picture.evaluate("node => getComputedStyle(node).objectFit")
        assert style == "contain"
    assert pictures.evaluate_all("nodes => new Set(nodes.map(n => n.clientHeight)).size") == 1


def test_viewer_shows_the_item_and_moves_by_key(page, collection):
    search(page, "sea boat")
    expected = collection.search("sea boat", k=N)
    page.locator("#results .open").nth(1).click()
    viewer = page.get_by_role("dialog")
    viewer.wait_for()

    def check(rank):
        item = expected[rank].item
        assert page.locator("#viewer-name").text_content() == item.key
        assert page.locator("#viewer-text").text_content() == item.text
        chips = page.locator("#viewer-labels button").all_text_contents()
        assert chips == list(item.labels)
        assert page.locator("#metadata dd").first.text_content() == str(item.metadata["row"])
        assert page.locator("#position").text_content().startswith(f"{rank + 1} of")

    check(1)
    page.keyboard.press("ArrowRight")
    check(2)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    check(0)
    page.keyboard.press("ArrowLeft")  # the first stays
    check(0)
    assert page.get_by_role("button", name="Previous").is_hidden()
    page.get_by_role("button", name="Next").click()
    check(1)
    page.keyboard.press("Escape")
    viewer.wait_for(state="hidden")
    assert page.locator("#results li:nth-child(2) .open:focus").count() == 1


def test_viewer_continues_with_the_next_page(page, collection):
    search(page, "sea boat")
    expected = collection.search("sea boat", k=N)
    page.locator("#results .open").nth(PAGE_SIZE - 1).click()
    for rank in range(PAGE_SIZE, N):
        page.keyboard.press("ArrowRight")
        page.locator("#viewer-name", has_text=re.compile(f"^{expected[rank].key}$")).wait_for()
    page.keyboard.press("ArrowRight")
    assert page.locator("#position").text_content() == f"{N} of {N}"
    assert page.get_by_role("button", name="Next").is_hidden()


def test_viewer_keeps_the_focus_inside(page):
    search(page, "sea boat")
    page.locator("#results .open").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#close:focus").count() == 1
    for _ in range(20):
        page.keyboard.press("Tab")
        inside = (
            "document.activeElement === document.body || document.activeElement.closest('dialog')"
        )
        assert page.evaluate(f"Boolean({inside})")
    page.get_by_role("button", name="Close").click()
    assert page.locator("#results li:first-child .open:focus").count() == 1


def test_viewer_label_filters_the_results(page):
    search(page, "sea boat")
    page.locator("#results .open").first.click()
    label = page.locator("#viewer-labels button").first
    name = label.text_content()
    label.click()
    page.wait_for_url(re.compile("label="))
    assert page.locator("#label").input_value() == name
    assert page.get_by_role("dialog").is_hidden()


def test_viewer_closes_beside_the_picture_and_with_history(page):
    search(page, "sea")
    search(page, "boat")
    page.get_by_text("“boat”", exact=True).wait_for()
    page.locator("#results .open").first.click()
    page.locator("#viewer-picture:not([aria-busy])").wait_for()  # its thumbnail can fill the stage
    page.locator("#stage").click(position={"x": 5, "y": 100})
    page.get_by_role("dialog").wait_for(state="hidden")
    page.locator("#results .open").first.click()
    page.go_back()
    page.get_by_text("“sea”", exact=True).wait_for()
    assert page.get_by_role("dialog").is_hidden()


def test_viewer_shows_the_stored_preview(page, collection):
    search(page, "sea boat")
    (match,) = collection.search("sea boat", k=1)
    page.locator("#results .open").first.click()
    page.locator(f"#viewer-picture[src$='/items/{match.id}/preview']:not([aria-busy])").wait_for()
    assert page.get_by_role("link", name="Open original").is_hidden()


def test_viewer_shows_originals_and_their_paths(new_page, photos_url, photos):
    page = new_page(f"{photos_url}/?q=sea", viewport=DESKTOP)
    with page.expect_response("**/original?size=1024") as original:
        page.locator("#results .open").first.click()
    assert original.value.ok
    page.locator("#viewer-picture").evaluate(
        """picture => new Promise((resolve) => {
          const check = () => Math.max(picture.naturalWidth, picture.naturalHeight) > 640
            ? resolve() : setTimeout(check, 20);
          check();
        })"""
    )
    for _ in range(3):  # wide and tall ones
        stage, picture = (
            page.locator(name).bounding_box() for name in ("#stage", "#viewer-picture")
        )
        assert stage["height"] == DESKTOP["height"]
        assert picture["height"] <= stage["height"]
        assert picture["width"] <= stage["width"]
        page.keyboard.press("ArrowRight")
        page.locator("#viewer-picture:not([aria-busy])").wait_for()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    (first,) = photos.search("sea", k=1)
    page.get_by_text(first.item.path, exact=True).wait_for()
    link = page.get_by_role("link", name="Open original")
    response = page.request.get(photos_url + link.get_attribute("href"))
    assert response.body() == photos.file_of(first.item).read_bytes()


def test_viewer_waits_for_what_the_service_publishes(new_page, photos_url):
    page, waiting = new_page("about:blank"), []
    page.route("**/api/v1/info", lambda route: waiting.append(route))
    page.goto(f"{photos_url}/?q=sea")
    page.locator("#results .open").first.click()
    assert page.get_by_role("dialog").is_hidden()
    with page.expect_response("**/original?size=*") as original:
        waiting[0].continue_()
    assert original.value.ok


def test_viewer_falls_back_to_the_preview(new_page, photos_url):
    page = new_page(f"{photos_url}/?q=sea")
    page.route("**/original?*", lambda route: route.fulfill(status=404, json={"error": "Gone."}))
    page.locator("#results .open").first.click()
    page.get_by_text("The original file is not available").wait_for()
    page.locator("#viewer-picture[src$='/preview']").wait_for()


def test_viewer_of_a_text_without_a_picture(new_page, filled, generous):
    texts = Collection.create("memory:", filled[0].model)
    texts.add({"key": f"note {row}", "text": "sea boat"} for row in range(2))
    with running(create_app(texts, generous)) as url:
        page = new_page(f"{url}/?q=sea")  # only texts can be found
        page.locator("#results .open").first.click()
        assert page.locator("#viewer-quote").text_content() == "sea boat"
        assert page.locator("#viewer-picture").is_hidden()
        assert page.locator("#find").is_hidden()


def test_swipe_moves_to_the_next_item(new_page, url):
    page = new_page(f"{url}/?q=sea+boat", viewport=PHONE, has_touch=True)
    page.locator("#results .open").first.click()
    swipe = """([from, to]) => {
      const stage = document.getElementById("stage");
      const at = (x) => [new Touch({ identifier: 1, target: stage, clientX: x, clientY: 200 })];
      stage.dispatchEvent(new TouchEvent("touchstart", { touches: at(from) }));
      stage.dispatchEvent(new TouchEvent("touchend", { changedTouches: at(to) }));
    }"""
    position = page.locator("#position")
    page.evaluate(swipe, [300, 100])
    assert position.text_content().startswith("2 of")
    page.evaluate(swipe, [100, 300])
    assert position.text_content().startswith("1 of")
    page.evaluate(swipe, [100, 110])  # a tap
    assert position.text_content().startswith("1 of")


def test_keyboard_navigation(page):
    page.keyboard.type("sea boat")  # the text field has the focus initially
    page.keyboard.press("Enter")
    page.wait_for_selector("#results li")
    for _ in range(40):
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.getAttribute('aria-label') || ''")
        if name.startswith("Enlarge"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.locator("#results .open:focus").wait_for()  # the focus returns to the card
    page.keyboard.press("/")
    page.locator("#text:focus").wait_for()


def test_hostile_texts_are_not_html(page):
    search(page, "sea")
    page.get_by_label("Large", exact=True).check()
    for _ in range(20):
        page.mouse.wheel(0, 9000)
        page.wait_for_timeout(50)
    label = page.get_by_role("button", name=HOSTILE, exact=True)
    assert label.count() == 1
    page.locator("#results li", has=label).locator(".open").click()
    assert page.locator("#viewer-text").text_content() == f"sea {HOSTILE}"
    assert HOSTILE in page.locator("#metadata dd").all_text_contents()
    assert page.locator("main script, dialog script").count() == 0


def test_errors_are_shown_with_samples(page, url):
    page.get_by_label("Search text").fill("xyzzy")
    page.keyboard.press("Enter")
    page.locator("#status.notice").wait_for()
    page.locator("#samples .open").first.wait_for()
    vector = {"name": "a.svg", "mimeType": "image/svg+xml", "buffer": b"<svg/>"}
    page.set_input_files("#picture", vector)
    page.get_by_text("Choose a JPEG").wait_for()
    page.goto(f"{url}/?q=sea&label=unicorn")
    page.get_by_text("No results labelled “unicorn”").wait_for()


@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "dark"), (DESKTOP, "light")], ids=["phone dark", "desktop light"]
)
def test_accessibility_and_layout(new_page, url, scheme, size):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # axe adds its own script, which the policy forbids; another test checks the policy.
    page = new_page(f"{url}/?q=sea+boat", viewport=size, color_scheme=scheme, bypass_csp=True)
    page.wait_for_selector("#results li")

    def check():
        page.wait_for_timeout(400)  # wait for the fade-in, which changes colours
        found = axe.Axe().run(page).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    check()
    page.get_by_role("switch", name="Show codes").check()
    page.get_by_label("Large", exact=True).check()
    check()
    page.locator("#results .open").first.click()
    page.locator("#viewer-picture:not([aria-busy])").wait_for()
    check()


def test_duplicates_have_a_page(new_page, collection, generous):
    photos = Collection.create("memory:", collection.model)
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    pictures = [picture, picture[:, ::-1], picture[::-1]]
    photos.add({"key": f"{row}.jpg", "image": one} for row, one in enumerate(pictures))
    with running(create_app(photos, generous)) as url:
        page = new_page(url)
        page.get_by_role("link", name="Find duplicates").click()
        page.wait_for_selector("#groups .card")
        assert page.locator("#status").text_content() == "1 group"
        assert page.locator("#groups .key").all_inner_texts() == ["0.jpg", "1.jpg"]
        assert page.locator("#groups h2").text_content().startswith("2 pictures, similarity ")
        page.locator("#groups a").first.click()
        page.wait_for_selector("#results .card")
        assert page.locator("#query-title").text_content() == "Similar to 0.jpg"


@pytest.fixture
def judged_url(filled, generous):
    """A writable service of a copy of the collection in memory, and the copy."""
    copy = filled[0].copy_to("memory:")
    with running(create_app(copy, generous, token=TOKEN)) as url:
        yield url, copy


def pressed(page, key):
    group = page.locator(f"#results .judge[data-key='{key}'] button")
    return [group.nth(at).get_attribute("aria-pressed") == "true" for at in range(2)]


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_results_are_judged_and_withdrawn(new_page, judged_url, viewport):
    url, collection = judged_url
    page = new_page(url, viewport=viewport)
    search(page, "sea boat")
    first, second = shown_keys(page)[:2]
    page.get_by_role("button", name=f"Fits: {first}", exact=True).click()
    page.locator("#token").fill("wrong wrong wrong wrong")
    page.get_by_role("button", name="Continue").click()
    page.locator("#token").fill(TOKEN)  # asked again
    page.keyboard.press("Enter")
    page.get_by_text(f"{first} fits. Press again to undo.").wait_for()
    refuse = page.get_by_role("button", name=f"Does not fit: {second}", exact=True)
    refuse.focus()
    page.keyboard.press("Space")
    page.get_by_text(f"{second} does not fit.").wait_for()
    assert (pressed(page, first), pressed(page, second)) == ([True, False], [False, True])
    stored = [(one.query, one.item, one.verdict) for one in collection.judgments()]
    assert stored == [("sea boat", first, 1), ("sea boat", second, -1)]
    page.reload()  # the token is kept in the tab
    page.locator(f".judge[data-key='{second}'] button[aria-pressed=true]").wait_for()
    assert pressed(page, first) == [True, False]
    refuse.click()
    page.get_by_text(f"Judgment of {second} withdrawn.").wait_for()
    assert pressed(page, second) == [False, False]
    assert [one.item for one in collection.judgments()] == [first]
    page.get_by_role("button", name=f"Does not fit: {first}", exact=True).click()
    page.get_by_text(f"{first} does not fit.").wait_for()
    assert [one.verdict for one in collection.judgments()] == [-1]
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]


def test_uploaded_picture_is_judged(new_page, judged_url, scenes):
    url, collection = judged_url
    page = new_page(url)
    file = {"name": "a.png", "mimeType": "image/png", "buffer": image_bytes(scenes.images[5])}
    page.set_input_files("#picture", file)
    page.wait_for_selector("#results li")
    page.get_by_role("button", name="Fits: scene 5", exact=True).click()
    page.locator("#token").fill(TOKEN)
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("scene 5 fits.").wait_for()
    (one,) = collection.judgments()
    assert (one.kind, one.item) == ("image", "scene 5")


def test_cancelled_token_judges_nothing(new_page, judged_url):
    url, collection = judged_url
    page = new_page(url)
    search(page, "sea boat")
    page.get_by_role("button", name=f"Fits: {shown_keys(page)[0]}", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Judging needs the token of this service.").wait_for()
    assert collection.judgments() == []


def test_read_only_service_shows_no_judging(page):
    search(page, "sea boat")
    assert not page.locator("#results .judge").first.is_visible()
