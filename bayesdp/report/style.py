"""The style sheet of the page: for screens of any width, and for print."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light; --ink: #1a1a1a; --soft: #555; --line: #d5d5d5; --ground: #f6f7f9; --accent: #0072b2; }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1rem 1.1rem 4rem; max-width: 60rem; color: var(--ink); background: #fff;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .6rem 0 .2rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; padding-top: .7rem; border-top: 2px solid var(--accent); }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .4rem; }
p, ul, dl { margin: .5rem 0; max-width: 46rem; }
ul { padding-left: 1.3rem; }
a { color: var(--accent); }
.lead, .note, figcaption { color: var(--soft); }
.note, figcaption { font-size: .9rem; }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; font-size: .92rem; }
.banner { border-left: 6px solid; padding: .7rem 1rem; margin: .9rem 0; max-width: none; border-radius: 2px; }
.bad { border-color: #b00020; background: #fdecee; } .warn { border-color: #d55e00; background: #fff3e6; }
.good { border-color: #00724f; background: #e9f6f1; }
.banner strong:first-child { display: block; }
.scroll { overflow-x: auto; margin: .4rem 0; -webkit-overflow-scrolling: touch; }
.scroll:focus-visible { outline: 2px solid var(--accent); }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
.caption { margin: 1.2rem 0 .2rem; }
th, td { padding: .28rem .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
td { white-space: nowrap; }
thead th { border-bottom: 2px solid var(--ink); vertical-align: bottom; line-height: 1.25; }
th.label, td.text { text-align: left; }
th.label { font-weight: 600; }
tbody th.label { font-weight: 500; }
tbody th.label:first-child { position: sticky; left: 0; background: #fff; }
td.text { white-space: normal; min-width: 9rem; }
tr.fixed td, tr.fixed th { color: var(--soft); background: var(--ground) !important; }
.facts th { text-align: left; white-space: nowrap; font-weight: 600; } .facts td { text-align: left; white-space: normal; }
figure { margin: 1.1rem 0; }
figure img { width: 100%; max-width: 40rem; height: auto; display: block; }
pre { background: var(--ground); padding: .7rem .9rem; overflow-x: auto; font-size: .86rem; line-height: 1.45;
  white-space: pre-wrap; max-width: 46rem; }
code { font-size: .92em; background: var(--ground); padding: .05em .3em; overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--accent); padding: .35rem 0; }
blockquote { margin: .6rem 0; padding: .3rem 0 .3rem 1rem; border-left: 4px solid var(--line); max-width: 46rem; }
.question { font-size: 1.15rem; font-weight: 600; margin: .3rem 0; }
.answer { border-left: 6px solid var(--accent); background: #eef5fa; padding: .3rem 1rem; margin: .6rem 0; border-radius: 2px; }
.answer ul { padding-left: 1rem; }
h4 { font-size: .95rem; margin: 1.2rem 0 .3rem; }
thead th { min-width: 4.2rem; max-width: 9rem; overflow-wrap: break-word; hyphens: auto; }
tbody th.label { max-width: 18rem; overflow-wrap: anywhere; }
.scroll { background: linear-gradient(to right, #fff 30%, rgba(255,255,255,0)),
  linear-gradient(to left, #fff 30%, rgba(255,255,255,0)) 100% 0,
  linear-gradient(to right, rgba(0,0,0,.22), rgba(0,0,0,0)), linear-gradient(to left, rgba(0,0,0,.22), rgba(0,0,0,0)) 100% 0;
  background-repeat: no-repeat; background-size: 40px 100%, 40px 100%, 12px 100%, 12px 100%;
  background-attachment: local, local, scroll, scroll; }
@media screen and (max-width: 44rem) {
  body { padding: .6rem .8rem 3rem; } h1 { font-size: 1.4rem; }
  .scroll { overflow-x: visible; background: none; } table, tbody, tr, th, td { display: block; width: auto; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table { font-size: .92rem; }
  tbody tr { border: 1px solid var(--line); border-radius: 4px; margin: 0 0 .6rem; padding: .35rem .7rem; }
  tbody td, tbody th.label, tbody th.label:first-child { display: flex; justify-content: space-between; gap: 1rem; position: static;
    max-width: none; min-width: 0; border: 0; padding: .1rem 0; white-space: normal; text-align: right; background: none;
    overflow-wrap: anywhere; }
  tbody th.label { font-weight: 600; }
  td::before, th.label[data-label]::before { content: attr(data-label); color: var(--soft); font-weight: 400; text-align: left;
    flex: 0 0 auto; max-width: 55%; overflow-wrap: break-word; }
  .facts td::before { content: none; } .facts tr { border: 0; border-radius: 0; padding: 0; }
  .facts td { display: block; text-align: left; overflow-wrap: anywhere; }
  .facts th { border: 0; padding: .3rem 0 0; white-space: normal; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; } nav, summary, .screen { display: none; }
  h2, h3, .caption { break-after: avoid; } figure, .banner, tr { break-inside: avoid; } thead { display: table-header-group; }
  .scroll { overflow: visible; } td { white-space: normal; } th, td { padding: .15rem .4rem; }
  figure img { max-width: 13cm; max-height: 22cm; width: auto; } a { color: inherit; text-decoration: none; }
  .banner { -webkit-print-color-adjust: exact; print-color-adjust: exact; } @page { margin: 1.8cm; }
}
"""
"""No fonts or pictures from elsewhere. On narrow screens each row of a table becomes a card with its headings, so that no column
is out of sight; wide tables on wide screens scroll in their own frame, whose edge is shaded where more is to be seen."""
