#!/usr/bin/env python3
"""Makes the report of compare.py's results: report.html, one file without external parts, and tables.md.

    compare_report.py REPORT_JSON DIRECTORY
"""

import html
import json
import math
import pathlib
import sys

ABOUT = {
    "redis-1": "Acquire and release, blocking, over loopback TCP; pairs per second of the median pair. The bare generator does what the server and the kernel "
    "need, and nothing else; the ratio shows what is left of it.",
    "redis-64": "The same with 64 pairs in flight on one connection, each for a lock of its own.",
    "hand-off": "One holder releases while another client waits. Sides without a wake-up find the lock free at their "
    "next poll; each lock is held for a random 20 to 220 ms, so that no side is released at a favourite moment. "
    "Logarithmic scale; shorter is better.",
    "machine": "Acquire and release without a server. Commits survive a crash of the process, not a power cut: the "
    "default of guards. Logarithmic scale.",
    "commands": "A shell starts the program, which runs true(1) under a lock: mostly the start of processes.",
}
LOGARITHMIC = {"hand-off", "machine"}


def number(value):
    """Three digits, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def micros(value):
    if value < 1000:
        return f"{value:.1f} µs" if value < 10 else f"{value:.0f} µs"
    return f"{value / 1000:.2f} ms" if value < 10_000 else f"{value / 1000:.0f} ms"


def figure(group, value):
    return micros(value) if group["kind"] == "hand-offs" else f"{number(value)}/s"


def times(value):
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def ratio_of(row):
    ratio = row.get("ratio")
    return f"{times(ratio['median'])} ({times(ratio['p10'])}–{times(ratio['p90'])})" if ratio else "–"


def role(group, row):
    if row["id"] == group["reference"]:
        return "reference"
    return "ours" if row["id"].startswith(("holdfast", "run")) else "peer"


class Scale:
    def __init__(self, group, left, right):
        self.left, self.right = left, right
        highest = max(row["p90"] for row in group["rows"])
        self.is_log = group["id"] in LOGARITHMIC
        if self.is_log:
            self.low = 10 ** math.floor(math.log10(min(row["p10"] for row in group["rows"])))
            self.high = 10 ** math.ceil(math.log10(highest))
            steps = round(math.log10(self.high / self.low))
            self.ticks = [self.low * 10**step for step in range(steps + 1)]
        else:
            step = 10 ** math.floor(math.log10(highest))
            step = next(step * part for part in (0.1, 0.2, 0.25, 0.5, 1, 2) if highest / (step * part) <= 6)
            self.low, self.high = 0, highest * 1.02
            self.ticks = [step * i for i in range(int(highest / step) + 1)]

    def at(self, value):
        if self.is_log:
            part = math.log10(max(value, self.low) / self.low) / math.log10(self.high / self.low)
        else:
            part = value / self.high
        return self.left + part * (self.right - self.left)


def tick_text(group, value):
    if group["kind"] == "hand-offs":
        return f"{value:g} µs" if value < 1000 else f"{value / 1000:g} ms" if value < 1e6 else f"{value / 1e6:g} s"
    return f"{value / 1e6:g}M" if value >= 1e6 else f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def mark(scale, left, end, middle):
    """A bar, or a dot where the scale has no zero and a length would mean nothing."""
    if scale.is_log:
        return (f'<line class="stem" x1="{left}" y1="{middle}" x2="{end:.1f}" y2="{middle}"/>'
                f'<circle class="bar" cx="{end:.1f}" cy="{middle}" r="7"/>')
    return f'<rect class="bar" x="{left}" y="{middle - 11}" width="{max(end - left, 2):.1f}" height="22" rx="3"/>'


def whiskers(low, high, middle):
    if high - low < 3:
        return ""
    return f'<path class="spread" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 5}v10M{high:.1f} {middle - 5}v10"/>'


def chart(group):
    """The medians with the spread of the rounds as a line; the ratio at the right."""
    height, top, width, left, right = 46, 26, 960, 250, 690
    scale = Scale(group, left, right)
    bottom = top + height * len(group["rows"])
    parts = [
        f'<svg viewBox="0 0 {width} {bottom + 30}" role="img" aria-label="{html.escape(group["title"])}">',
        f'<text class="head" x="{right + 24}" y="14">median</text>'
        f'<text class="head" x="{width}" y="14" text-anchor="end">ratio (p10–p90)</text>',
    ]
    for tick in scale.ticks:
        x = scale.at(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{top - 4}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick_text(group, tick)}</text>')
    for i, row in enumerate(group["rows"]):
        y = top + i * height
        middle = y + height / 2
        end = scale.at(row["median"])
        low, high = scale.at(row["p10"]), scale.at(row["p90"])
        kind = role(group, row)
        values = ", ".join(figure(group, value) for value in row["values"])
        parts.append(
            f'<g class="{kind}"><title>{html.escape(row["name"])}: {html.escape(values)}</title>'
            f'<text class="name" x="{left - 16}" y="{middle - 3}" text-anchor="end">{html.escape(row["name"])}</text>'
            f'<text class="what" x="{left - 16}" y="{middle + 13}" text-anchor="end">{html.escape(row["what"])}</text>'
            f"{mark(scale, left, end, middle)}"
            f"{whiskers(low, high, middle)}"
            f'<text class="value" x="{right + 24}" y="{middle + 5}">{figure(group, row["median"])}</text>'
            f'<text class="ratio" x="{width}" y="{middle + 5}" text-anchor="end">'
            f'{"1" if kind == "reference" else ratio_of(row)}</text></g>'
        )
    return "\n".join(parts) + "</svg>"


def row_of(report, group, identity):
    for candidate in report["groups"]:
        if candidate["id"] == group:
            for row in candidate["rows"]:
                if row["id"] == identity:
                    return row
    return None


def tiles(report):
    """The three figures that most readers want."""
    made = []
    for group, what in (("redis-1", "one pair at a time on Redis"), ("redis-64", "64 pairs in flight on Redis")):
        if row := row_of(report, group, "holdfast"):
            made.append((f"{row['ratio']['median'] * 100:.0f} %", f"of the bare minimum, {what}"))
    if row := row_of(report, "hand-off", "holdfast"):
        peer = row_of(report, "hand-off", "redis-py") or row_of(report, "hand-off", "redlock")
        beside = f"; {peer['name']}: {micros(peer['median'])}" if peer else ""
        made.append((micros(row["median"]), f"from a release to the grant of a waiter on Redis{beside}"))
    return "".join(f"<div class=tile><b>{html.escape(a)}</b><span>{html.escape(b)}</span></div>" for a, b in made)


def details(group):
    pairs = group["kind"] == "pairs"
    head = ["side", "version", "fencing token", "median", "p10–p90 of the rounds", "ratio (p10–p90)", "p50", "p99"]
    cells = [
        [row["name"], row["version"], "yes" if row["fenced"] else "no", figure(group, row["median"]),
         f"{figure(group, row['p10'])} – {figure(group, row['p90'])}", ratio_of(row),
         micros(row["p50"]) if "p50" in row else "–", micros(row["p99"]) if "p99" in row else "–"]
        for row in group["rows"]
    ]
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in cells)
    of = "of one pair" if pairs else "of one hand-off"
    heads = "".join(f"<th>{html.escape(text + ' ' + of if text in ('p50', 'p99') else text)}</th>" for text in head)
    return f"<details><summary>Figures</summary><div class=wide><table><tr>{heads}</tr>{body}</table></div></details>"


def warning(report):
    machine = report["machine"]
    if machine["load"][0] <= machine["processors"] / 2:
        return ""
    return (f"<p class=warning>The machine was busy with other work (load {machine['load'][0]} on {machine['processors']} "
            "processors): the spread is wide, and only ratios with a narrow one mean something.</p>")


def machine_text(report):
    machine = report["machine"]
    return (
        f"{machine['processor']}, {machine['processors']} processors, Linux {machine['kernel'].split('-')[0]}; {report['server']}; load "
        f"{machine['load'][0]} before and {machine['load'][1]} after (the run itself counts)"
    )


STYLE = """
:root{color-scheme:light dark;--back:#fbfaf8;--card:#fff;--text:#1d2430;--soft:#667085;--line:#e4e2dc;--ours:#0f766e;
--peer:#a8b0bd;--reference:#d9a441;--spread:#1d2430}
@media(prefers-color-scheme:dark){:root{--back:#11151b;--card:#181e27;--text:#e8ebf0;--soft:#98a2b3;--line:#2b3340;
--ours:#2dd4bf;--peer:#5d6878;--reference:#e0b35a;--spread:#f4f6f9}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.55 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1060px;margin:0 auto;padding:48px 24px 72px}
h1{font-size:34px;line-height:1.15;margin:0 0 8px;letter-spacing:-.02em}
h2{font-size:20px;margin:0 0 4px;letter-spacing:-.01em}
p{margin:0;color:var(--soft);max-width:80ch}
.warning{margin-top:18px;padding:10px 16px;border:1px solid var(--reference);border-radius:10px;color:var(--text)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(240px,1fr));gap:16px;margin:28px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px}
.tile b{display:block;font-size:30px;line-height:1.2;color:var(--ours);letter-spacing:-.02em}
.tile span{color:var(--soft);font-size:14px}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:24px 26px 16px;margin-top:20px}
section p{font-size:14px}
svg{display:block;width:100%;height:auto;margin:18px 0 6px;font-family:inherit}
text{fill:var(--text)} .name{font-size:14px;font-weight:600} .what,.tick,.head{font-size:11.5px;fill:var(--soft)}
.value{font-size:14px;font-variant-numeric:tabular-nums} .ratio{font-size:13px;fill:var(--soft);font-variant-numeric:tabular-nums}
.grid{stroke:var(--line)} .stem{stroke:var(--line);stroke-width:2} .spread{stroke:var(--spread);stroke-width:1.5;fill:none;opacity:.75}
.peer .bar{fill:var(--peer)} .reference .bar{fill:var(--reference)} .ours .bar{fill:var(--ours)}
.ours .name,.ours .value{fill:var(--ours)}
.legend{display:flex;gap:20px;flex-wrap:wrap;margin-top:14px;font-size:13px;color:var(--soft)}
.legend i{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:7px;vertical-align:-1px}
details{margin:6px 0 8px} summary{cursor:pointer;color:var(--soft);font-size:14px}
.wide{overflow-x:auto} table{border-collapse:collapse;font-size:13px;margin-top:8px;white-space:nowrap}
th,td{text-align:left;padding:5px 14px 5px 0;border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}
th{color:var(--soft);font-weight:500} .missing{color:var(--soft);font-size:14px} code{font-size:.92em}
footer{margin-top:28px;font-size:13px;color:var(--soft)} footer p{margin-bottom:6px}
"""


def page(report):
    sections = []
    for group in report["groups"]:
        missing = "".join(
            f"<p class=missing>Not measured: {html.escape(one['name'])} ({html.escape(one['why'])})</p>"
            for one in group["missing"]
        )
        drawn = chart(group) + details(group) if group["rows"] else ""
        sections.append(
            f"<section><h2>{html.escape(group['title'])}</h2><p>{html.escape(ABOUT[group['id']])}</p>{drawn}{missing}</section>"
        )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Holdfast: what a lock costs</title><style>{STYLE}</style></head><body><main>
<h1>What a lock costs</h1>
<p>Holdfast beside the bare minimum below it and other libraries, in one run. The sides take turns in {report["rounds"]}
rounds; a ratio is made within a round, so that it depends little on the machine.</p>
{warning(report)}
<div class=tiles>{tiles(report)}</div>
<div class=legend><span><i style="background:var(--reference)"></i>reference: the bare minimum</span>
<span><i style="background:var(--ours)"></i>Holdfast</span><span><i style="background:var(--peer)"></i>others</span>
<span>thin line: the middle 80 % of the rounds</span></div>
{"".join(sections)}
<footer><p>{html.escape(machine_text(report))}.</p>
<p>A side without a fencing token does less: it cannot keep a late holder from writing. Repeat: <code>./scripts/bench</code></p>
</footer></main></body></html>
"""


def markdown(report):
    lines = []
    for group in report["groups"]:
        pairs = group["kind"] == "pairs"
        lines += [f"### {group['title']}", ""]
        unit = "median" if not pairs else "commands per second" if group["id"] == "commands" else "pairs per second"
        lines += [f"| side | {unit} | ratio (p10–p90) | p50 | p99 | fencing token |",
                  "|---|--:|--:|--:|--:|---|"]
        for row in group["rows"]:
            of_reference = "1" if row["id"] == group["reference"] else ratio_of(row)
            median = number(row["median"]) if pairs else micros(row["median"])
            percentiles = " | ".join(micros(row[key]) if key in row else "–" for key in ("p50", "p99"))
            lines.append(
                f"| {row['name']} ({row['what']}) | {median} | {of_reference} | {percentiles} | {'yes' if row['fenced'] else 'no'} |"
            )
        lines += [f"\nNot measured: {one['name']}, {one['why']}." for one in group["missing"]]
        lines.append("")
    lines += ["### In short", "", *short(report), "", f"Measured on: {machine_text(report)}. Versions: {versions(report)}.", ""]
    return "\n".join(lines)


def short(report):
    """One line per side of Redis: what a pair costs, and how soon a waiter has a lock."""
    lines = ["| on Redis | pairs per second, one at a time | of the bare minimum | hand-off to a waiter | fencing token |",
             "|---|--:|--:|--:|---|"]
    for identity in ("bare", "holdfast", "syncguard", "redlock", "redis-py"):
        row = row_of(report, "redis-1", identity)
        if not row:
            continue
        hand_off = row_of(report, "hand-off", identity)
        lines.append(
            f"| {row['name']} | {number(row['median'])} | {'1' if identity == 'bare' else times(row['ratio']['median'])} | "
            f"{micros(hand_off['median']) if hand_off else '–'} | {'yes' if row['fenced'] else 'no'} |"
        )
    return lines


def versions(report):
    named = []
    for group in report["groups"]:
        for row in group["rows"]:
            for part in row["version"].split(", "):
                if any(c.isdigit() for c in part) and part not in named:
                    named.append(part)
    return ", ".join(named)


def main():
    report = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    directory = pathlib.Path(sys.argv[2])
    (directory / "report.html").write_text(page(report), encoding="utf-8")
    (directory / "tables.md").write_text(markdown(report), encoding="utf-8")


if __name__ == "__main__":
    main()
