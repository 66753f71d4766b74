"""What a report's page looks like, on a screen by day and night and on paper, and how its tables are sorted."""

CSS = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --rule: #c8c8c8; --soft: #f3f4f6; --link: #00538a;
  --blue: #0072b2; --red: #d55e00; --green: #009e73; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #15171b; --rule: #4b4f56; --soft: #1f2228; --link: #7cc4f0;
    --blue: #3f97db; --red: #f0782c; --green: #1fb98c; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.2rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .4rem 0; }
h2 { font-size: 1.3rem; margin: 2.4rem 0 .6rem; border-bottom: 2px solid var(--rule); padding-bottom: .2rem; }
h3 { font-size: 1.05rem; margin: 1.8rem 0 .4rem; }
a { color: var(--link); }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; margin: .6rem 0; }
figure { margin: 0 0 1.6rem; }
figure .wide svg { display: block; min-width: 44rem; }
figure.small .wide svg { min-width: 0; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption, .note { font-size: .9rem; max-width: 60rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; margin: .2rem 0 1rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; overflow-wrap: normal; }
th:first-child, .words { text-align: left; }
td, tbody th { white-space: nowrap; }
thead th { background: var(--soft); vertical-align: bottom; }
tbody th { font-weight: 500; }
th button { all: unset; cursor: pointer; }
th button:focus-visible, .wide:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
th[aria-sort=ascending] button::after { content: " \\25B2"; }
th[aria-sort=descending] button::after { content: " \\25BC"; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem; }
dt { font-weight: 600; }
dd { margin: 0; }
footer { margin-top: 3rem; border-top: 1px solid var(--rule); font-size: .85rem; }
@media (max-width: 40rem) { body { padding: .7rem; } dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
@media print {
  :root { color-scheme: light; --ink: #000000; --paper: #ffffff; --rule: #b0b0b0; --soft: #eeeeee; --link: #000000;
    --blue: #0072b2; --red: #d55e00; --green: #009e73; }
  @page { margin: 12mm; }
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  h2, h3, caption { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  section.run { break-before: page; }
  figure .wide svg { min-width: 0; max-height: 22cm; }
  figure.small .wide svg { max-height: 8cm; }
  .wide { overflow: visible; }
  table { font-size: 7pt; width: 100%; }
  th, td { padding: 1.5pt 3pt; white-space: normal; }
}
"""

SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = "sort";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const key = (row) => row.cells[column].dataset.sort;
      const words = (row) => row.cells[column].textContent;
      const order = (a, b) => {
        if (key(a) === undefined || key(b) === undefined) {
          if (key(a) !== key(b)) return key(a) === undefined ? 1 : -1;
          return (down ? -1 : 1) * words(a).localeCompare(words(b));
        }
        const [x, y] = [key(a), key(b)].map((text) => (text === "inf" ? Infinity : Number(text)));
        return x === y ? 0 : (x < y ? -1 : 1) * (down ? -1 : 1);
      };
      body.append(...Array.from(body.rows).sort(order));
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}
"""
