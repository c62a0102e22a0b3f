"""The page: one HTML file that needs nothing else."""

from __future__ import annotations

import html
import io
import re
from typing import Optional

from ._files import File
from ._style import GRID, INK, Plot
from ._summary import FEW, MANY, Ratios, summary

_STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b1f24; --paper: #ffffff; --quiet: #57606a; --line: #d0d7de; --good: #1a7f37; --bad: #b42318;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --quiet: #9da7b3; --line: #30363d; --good: #57ab5a; --bad: #f47067; }
}
body {
  background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 84rem; padding: 1.5rem;
}
h1 { font-size: 1.6rem; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; }
p, dd { margin: .2rem 0; }
.quiet, figcaption { color: var(--quiet); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .5rem 0; }
dt { color: var(--quiet); }
dd { margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; }
th, td { padding: .15rem .5rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; }
.n { text-align: right; }
.edge { border-left: 1px solid var(--line); }
.good { color: var(--good); }
.bad { color: var(--bad); }
figure { margin: 0 0 1rem; }
figcaption { max-width: 60rem; margin-bottom: .5rem; }
svg { height: auto; max-width: 100%; }
details { margin-top: 1.5rem; }
pre { overflow-x: auto; font-size: .8rem; color: var(--quiet); }
nav a { margin-right: 1rem; }
a { color: inherit; }
"""


def page(files: list[File], plots: list[Plot], title: str) -> str:
    """The HTML text."""
    body = [f"<h1>{html.escape(title)}</h1>", _facts(files), _contents(plots), _table(files)]
    for plot in plots:
        body.append(
            f'<section id="{plot.name}"><h2>{html.escape(plot.title)}</h2><figure>'
            f"<figcaption>{html.escape(plot.caption)}</figcaption>"
            f'<div class="wide">{_svg(plot)}</div></figure></section>'
        )
    body.append(_sources(files))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body>{chr(10).join(body)}</body></html>\n"
    )


def _facts(files: list[File]) -> str:
    def distinct(values: list[str]) -> str:
        return "; ".join(dict.fromkeys(v for v in values if v)) or "not named in the files"

    commits = [re.split(r"[ ,]", f.fact("commit"))[0] for f in files if not f.fact("commit").startswith("the ")]
    facts = {"Device": distinct([f.device for f in files]), "Commit": distinct(commits)}
    return "<dl>" + "".join(f"<dt>{k}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items()) + "</dl>"


def _contents(plots: list[Plot]) -> str:
    links = "".join(f'<a href="#{p.name}">{html.escape(p.title)}</a>' for p in plots)
    return f"<nav>{links}</nav>" if links else ""


def _cells(ratios: Optional[Ratios]) -> str:
    if ratios is None:
        return '<td class="n edge">-</td><td class="n"></td><td class="n"></td><td class="n"></td>'

    def cell(value: float) -> str:
        colour = " good" if value >= 1.005 else " bad" if value < 0.995 else ""
        return f'<td class="n{colour}">{value:.2f}</td>'

    return f'<td class="n edge">{ratios.count}</td>{cell(ratios.geomean)}{cell(ratios.least)}{cell(ratios.best)}'


def _table(files: list[File]) -> str:
    rows = summary(files)
    if not rows:
        return ""
    lines = []
    last = ""
    for row in rows:
        file, last = html.escape(row.file) if row.file != last else "", row.file
        rate = "-" if row.best_tflops is None else f"{row.best_tflops:.{0 if row.best_tflops >= 10 else 3}f}"
        lines.append(
            f"<tr><td>{file}</td><td><code>{html.escape(row.scheme)}</code></td>"
            f'<td>{html.escape(row.peer) or "-"}</td>{_cells(row.few)}{_cells(row.many)}<td class="n edge">{rate}</td></tr>'
        )
    words = '<th class="n edge">shapes</th><th class="n">geomean</th><th class="n">least</th><th class="n">best</th>'
    return (
        f'<h2>Summary</h2><p class="quiet">Time of the peer over that of scalegemm: above 1 scalegemm is faster. '
        f"Shapes with {FEW} &lt; M &lt; {MANY} are in the plots and in neither half. Best TFLOP/s is of any shape.</p>"
        f'<div class="wide"><table><thead><tr><th rowspan="2">file</th><th rowspan="2">scheme</th>'
        f'<th rowspan="2">against</th><th colspan="4" class="edge">M ≤ {FEW}</th><th colspan="4" class="edge">M ≥ {MANY}</th>'
        f'<th rowspan="2" class="n edge">best TFLOP/s</th></tr><tr>{words}{words}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _svg(plot: Plot) -> str:
    text = io.StringIO()
    # No date, so that the same files give the same page.
    plot.figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = svg.replace(INK, "var(--ink)").replace(GRID, "var(--quiet)")
    # Clip paths and glyphs have names that are the page's: each plot's are its own.
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{plot.name}-", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{html.escape(plot.title, quote=True)}"', 1)


def _sources(files: list[File]) -> str:
    lines = []
    for file in files:
        rows = len(file.timings) + len(file.errors)
        lines.append(
            f"<h3>{html.escape(file.path)} ({rows} rows)</h3><pre>{html.escape(chr(10).join(file.header))}</pre>"
        )
    left_out = [line for file in files for line in file.left_out]
    if left_out:
        lines.append(f"<h3>Left out</h3><pre>{html.escape(chr(10).join(left_out))}</pre>")
    return f"<details><summary>Files and what they say of themselves</summary>{''.join(lines)}</details>"
