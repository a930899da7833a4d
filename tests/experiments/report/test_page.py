"""Reports: all tables and figures, and one self-contained page."""

import base64
import io
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from corrhash.experiments.report import page as report
from corrhash.experiments.report.page import write_report
from tests.experiments.synthetic_results import make_result, make_study

FIGURES = ["balance", "bits", "curves", "distances", "training"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    results, report_folder = (tmp_path_factory.mktemp(name) for name in ("results", "report"))
    make_study(results)
    assert write_report(results, report_folder) == report_folder / "index.html"
    return report_folder


class Page(HTMLParser):
    """Collects URLs and checks that every tag is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.urls, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.urls += [values[name] for name in ("src", "href") if name in values]
        self.ids += [values["id"]] if "id" in values else []
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_and_self_contained(folder):
    page = Page()
    page.feed((folder / "index.html").read_text())
    assert page.open == []
    links = [url for url in page.urls if url.startswith("#")]
    assert {link[1:] for link in links} <= set(page.ids)
    images = [u for u in page.urls if u.startswith("data:image/png;base64,")]
    assert len(images) == len(FIGURES)
    assert len(links) + len(images) == len(page.urls)
    for image in images:
        with Image.open(io.BytesIO(base64.b64decode(image.partition(",")[2]))) as opened:
            assert opened.size[0] > 600


def test_tables_and_figures_have_files(folder):
    names = ["beyond-scenes", "claims", "settings-scenes", "significance"]
    names += ["table1", "table2", "table3"]
    assert sorted(path.stem for path in folder.glob("*.png")) == FIGURES
    assert sorted(p.stem for p in folder.glob("*.csv")) == sorted([*names, "results"])
    document = (folder / "report.tex").read_text()
    inputs = re.findall(r"\\input{(.*?)}", document)
    assert sorted(inputs) == sorted(f"{name}.tex" for name in names)
    assert all((folder / name).exists() for name in inputs)


def test_markdown_links_the_figures(folder):
    text = (folder / "report.md").read_text()
    for name in re.findall(r"\]\((.*?)\)", text):
        assert (folder / name).exists()
    assert "Two training items share a label with probability 0.300" in text


def test_every_number_names_its_experiment(folder):
    lines = (folder / "results.csv").read_text().splitlines()
    assert lines[0].endswith(",experiment")
    assert len(lines) == 1 + 2 * 2 * (2 * 7 + 2)  # header; directions, seeds, cells
    assert re.search(r",scenes-\S+-[0-9a-f]{12}$", lines[1])


@pytest.fixture
def without_figures(monkeypatch):
    monkeypatch.setattr(report, "draw_figures", lambda study: [])


def test_warning_about_mixed_splits(tmp_path, without_figures):
    make_result(tmp_path / "r", "cvh", 16, level=0.4, split="one")
    make_result(tmp_path / "r", "scm", 16, level=0.4, split="another")
    write_report(tmp_path / "r", tmp_path / "report")
    assert "Warning: results on scenes with seed 0" in (tmp_path / "report/report.md").read_text()


def test_report_of_a_single_result(tmp_path, without_figures):
    make_result(tmp_path / "r", "cvh", 16, level=0.4)
    write_report(tmp_path / "r", tmp_path / "report")
    assert (tmp_path / "report" / "table1.csv").exists()
    assert not (tmp_path / "report" / "claims.csv").exists()
