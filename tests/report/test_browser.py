"""The HTML report in a real browser."""

from __future__ import annotations

import re

import pytest

from ecbench.report.formats.names import ReportFormat
from ecbench.workflows.reporting import Report, render_text
from tests.report.browser import CHROMIUM, Browser
from tests.report.hostile import NAME, hostile_result
from tests.report.samples import sample_result
from tests.report.sweeps import sweep_result

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")

PHONE = 375
_COLOURS = """(() => {
  const colour = (element, name) => getComputedStyle(element)[name];
  const texts = [...document.querySelectorAll('body, td, th, figcaption, .warning, .answer p, figure svg text')];
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const found = colour(e, 'backgroundColor');
      if (found !== 'rgba(0, 0, 0, 0)') return found;
    }
    return 'rgb(255, 255, 255)';
  };
  return texts.filter(t => !t.closest('[id*=heat-map]')).map(
    t => [colour(t, t.namespaceURI.endsWith('svg') ? 'fill' : 'color'), behind(t)]);
})()"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    reports = {
        "roundtrip": Report((sample_result(),), ("one",)),
        "sweep": Report((sweep_result(),), ("grid",)),
        "comparison": Report((sample_result(), sample_result()), ("before", "after")),
        "hostile": Report((hostile_result(), hostile_result()), (NAME, f"{NAME} 2")),
    }
    for name, report in reports.items():
        (folder / f"{name}.html").write_text(render_text(report, ReportFormat.HTML))
    return {name: (folder / f"{name}.html").as_uri() for name in reports}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


PAGES = ["roundtrip", "sweep", "comparison", "hostile"]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_renders_without_a_complaint_or_a_request(browser, pages, page, scheme):
    browser.open(pages[page], scheme=scheme)
    assert browser.complaints() == []
    assert [url for url in browser.requests() if url != pages[page] and not url.startswith("data:")] == []
    assert browser.evaluate("document.querySelectorAll('figure svg').length") > 0
    smallest = "Math.min(...[...document.querySelectorAll('figure svg')].map(e => e.getBoundingClientRect().width))"
    assert browser.evaluate(smallest) > 200


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_in_both_schemes(browser, pages, page, scheme):
    browser.open(pages[page], scheme=scheme)
    pairs = {tuple(pair) for pair in browser.evaluate(_COLOURS)}
    assert {pair: round(contrast(*pair), 2) for pair in pairs if contrast(*pair) < 4.5} == {}
    background = luminance(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (background > 0.5) == (scheme == "light")


def luminance(colour):
    parts = [float(number) / 255 for number in re.findall(r"[\d.]+", colour)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    """As WCAG defines it: 4.5 is enough for text of any size."""
    high, low = sorted([luminance(first), luminance(second)], reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", PAGES)
def test_a_phone_need_not_scroll_sideways(browser, pages, page):
    browser.open(pages[page], width=PHONE)
    assert browser.evaluate("document.documentElement.scrollWidth") <= PHONE


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_print_is_dark_on_white_whatever_the_screen(browser, pages, scheme):
    browser.open(pages["roundtrip"], scheme=scheme, media="print")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.pdf().startswith(b"%PDF")


def test_names_are_shown_and_never_run(browser, pages):
    browser.open(pages["hostile"])
    assert browser.evaluate("document.scripts.length + document.querySelectorAll('b, img, iframe').length") == 0
    assert browser.evaluate("typeof window.stolen") == "undefined"
    assert "<script>stolen=1</script>" in browser.evaluate("document.body.innerText")
