"""The style sheet of the page: for screens of any width, and for print."""

from __future__ import annotations

__all__ = ["STYLE"]

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
tbody th.label:first-child { position: sticky; left: 0; background: #fff; max-width: 15rem; overflow-wrap: normal; }
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
@media (max-width: 34rem) {
  body { padding: .6rem .8rem 3rem; } h1 { font-size: 1.4rem; }
  th, td { padding: .28rem .5rem; } table { font-size: .86rem; } tbody th.label:first-child { max-width: 9rem; }
  .facts th { white-space: normal; width: 6.5rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; } nav, summary, .screen { display: none; }
  h2, h3, .caption { break-after: avoid; } figure, .banner, tr { break-inside: avoid; } thead { display: table-header-group; }
  .scroll { overflow: visible; } td { white-space: normal; } th, td { padding: .15rem .4rem; }
  figure img { max-width: 13cm; max-height: 22cm; width: auto; } a { color: inherit; text-decoration: none; }
  .banner { -webkit-print-color-adjust: exact; print-color-adjust: exact; } @page { margin: 1.8cm; }
}
"""
"""No fonts or pictures from elsewhere. Tables scroll sideways in their own frame, so that the page never does."""
