"""How the page of results looks: on a screen by day and night, on a phone, on paper."""

from pathlib import Path

# Colours and type are those of the lab's page.
HOUSE = (Path(__file__).parent / "lab" / "static" / "house.css").read_text()
CSS = (
    HOUSE
    + """
main { max-width: 52rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.01em; }
h2 { font-size: 1.5rem; line-height: 1.3; margin: 3rem 0 0; }
h3 { font-size: 1.2rem; line-height: 1.3; margin: 0; }
h4 { font-size: .95rem; margin: 1.25rem 0 .25rem; }
.lead { font-size: 1.15rem; margin: 0; }
header p:last-child, .notes, small, th, figcaption { color: var(--soft); }
header p { margin: .25rem 0; }
header p:last-child { margin-bottom: 2rem; }
.notes { font-size: .85rem; margin: .25rem 0 1rem; }
section { margin-top: 2rem; padding-top: 2rem; border-top: 1px solid var(--line); }
figure { margin: 0 0 1.25rem; padding: 1rem; background: #fff; border: 1px solid var(--line); border-radius: 8px; }
figcaption { margin-top: .75rem; font-size: .9rem; color: #5f6670; }
figure input { position: absolute; opacity: 0; }
figure input:focus-visible + img { outline: 2px solid var(--link); outline-offset: 4px; }
figure img { cursor: zoom-in; }
figure input:checked + img { position: fixed; inset: 0; z-index: 2; width: 100vw; height: 100vh; max-width: none;
  max-height: none; object-fit: contain; padding: 1rem; background: #fff; cursor: zoom-out; }
blockquote { margin: .25rem 0 0; color: var(--soft); font-style: italic; }
.mark { display: inline-block; padding: 0 .5rem; border: 1px solid currentColor; border-radius: 1rem; font-size: .8rem; }
.open { color: var(--soft); font-weight: 600; }
img { display: block; max-width: 100%; height: auto; max-height: 27rem; margin: 0 auto; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { text-align: left; font-size: .8rem; font-weight: 600; }
th, td { padding: .55rem .9rem .55rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; white-space: nowrap; }
tbody tr:last-child td { border-bottom: 0; }
.summary td:not(:first-child) { white-space: nowrap; }
pre { margin: 1.25rem 0 0; padding: .75rem 1rem; background: var(--card); border-radius: 8px; white-space: pre-wrap; }
.wide { overflow-x: auto; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
@media (max-width: 36rem) {
  main { padding-top: 1.5rem; }
  figure { padding: .5rem; }
  .summary td:first-child { min-width: 11rem; }
  .claims thead { display: none; }
  .claims tr { display: block; padding: .6rem 0; }
  .claims tr + tr { border-top: 1px solid var(--line); }
  .claims td { display: block; padding: .1rem 0; border: 0; }
  .claims td[data-label]::before { content: attr(data-label) " "; color: var(--soft); font-size: .8rem; } }
@media print {
  :root, :root:not([data-theme="light"]) { --text: #000; --soft: #444; --line: #bbb; --page: #fff; --card: #f4f4f4;
    --link: #000;
    --good: #000; --bad: #000; }
  main { max-width: none; padding: 0; }
  section { break-inside: avoid; }
  figure input { display: none; } }
"""
)
