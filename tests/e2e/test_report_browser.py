"""A report in a real browser: no script fails, nothing sticks out, tables sort, and it prints."""

import json
import re
from html.parser import HTMLParser

import pytest
from matplotlib.image import imread
from support.stored_runs import store

from mpi_opt.reporting import Request, make_report, write

WATCH = "<script>window.failed = []; window.onerror = (text) => { window.failed.push(text); };</script>"
MEASURE = """<script>
addEventListener("load", () => {
  const out = [];
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest(".wide") && !element.matches(".wide")) continue;
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > innerWidth + 1 || box.left < -1)) out.push(element.tagName + " " + box.right);
  }
  const drawn = Array.from(document.querySelectorAll("figure svg")).map((svg) => {
    const box = svg.getBoundingClientRect();
    return Math.round(box.width) + "x" + Math.round(box.height);
  });
  const table = document.querySelector("#comparison table");
  const column = Array.from(table.tHead.rows[0].cells).findIndex((head) => head.textContent === "payload");
  const order = () => Array.from(table.tBodies[0].rows).map((row) => row.cells[0].textContent).join(",");
  const orders = [order()];
  for (let click = 0; click < 2; click++) {
    table.tHead.rows[0].cells[column].querySelector("button").click();
    orders.push(order() + " " + table.tHead.rows[0].cells[column].getAttribute("aria-sort"));
  }
  const found = document.createElement("p");
  found.id = "found";
  found.textContent = JSON.stringify({width: innerWidth, scroll: document.documentElement.scrollWidth, out, drawn,
    orders, failed: window.failed, fetched: performance.getEntriesByType("resource").length});
  document.body.append(found);
});
</script>"""


class Found(HTMLParser):
    """The text of the element ``found``."""

    def __init__(self):
        super().__init__()
        self.inside, self.text = False, ""

    def handle_starttag(self, tag, attrs):
        self.inside = ("id", "found") in attrs

    def handle_data(self, data):
        self.text += data if self.inside else ""

    def handle_endtag(self, tag):
        self.inside = False


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    errors = [0.5, 0.3, 0.2, 0.1, 0.1]
    slow = store(
        folder / "slow-with-quite-a-long-name-for-a-run",
        [0.9, 0.6, 0.5, 0.3, 0.25],
        settings=["algorithm.sync_every=10"],
        errors=errors,
        payload=900,
    )
    fast = [
        store(folder / f"s{seed}", [0.9, 0.3, 0.24, 0.22 + seed / 100, 0.21], settings=[f"seed={seed}"], errors=errors)
        for seed in (0, 1)
    ]
    (made, *_) = write(make_report(Request(runs=[slow, *fast], reference="0.2")), folder / "out", ())
    return made


@pytest.mark.parametrize("width", [1280, 500])
def test_on_a_screen(browser, page, tmp_path, width):
    watched = tmp_path / "watched.html"
    text = page.read_text()
    watched.write_text(text.replace("<head>", f"<head>{WATCH}", 1).replace("</body>", f"{MEASURE}</body>", 1))
    seen = browser.document(watched, width=width)
    assert not seen.console
    parser = Found()
    parser.feed(seen.document)
    found = json.loads(parser.text)
    assert found["failed"] == []
    assert found["fetched"] == 0
    assert found["width"] == width
    assert found["out"] == []
    assert found["scroll"] <= width
    assert len(found["drawn"]) == 3 + 2 * 4
    for size in found["drawn"]:
        wide, high = map(int, size.split("x"))
        assert wide > 200
        assert 100 < high < 1.2 * wide
    slow = "slow-with-quite-a-long-name-for-a-run"
    assert found["orders"] == [f"{slow},s0", f"s0,{slow} ascending", f"{slow},s0 descending"]
    assert seen.document.count("<svg") == text.count("<svg")


@pytest.mark.parametrize("width", [1280, 500])
def test_picture(browser, page, tmp_path, width):
    seen = browser.picture(page, tmp_path / "seen.png", width=width)
    assert not seen.console
    pixels = imread(tmp_path / "seen.png")
    assert pixels.shape[1] == width
    assert pixels.std() > 0.05  # something is there
    assert pixels[:, -4:, :3].std() < 0.02  # and nothing at the edge


def test_on_paper(browser, page, tmp_path):
    browser.printed(page, tmp_path / "page.pdf")
    data = (tmp_path / "page.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 20
