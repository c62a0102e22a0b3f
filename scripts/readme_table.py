#!/usr/bin/env python3
"""Writes the measured tables: of README.md from results/cpu/*.csv and results/h200/gemm28-*.csv, of docs/numerics.md
from results/h200/accuracy.csv.

usage: readme_table.py [--check]

The text between "<!-- cpu-table -->" and "<!-- /cpu-table -->" is replaced, and so for h200-table, minilm-table and accuracy-table.
--check changes nothing and fails when a document is not what the files say.
"""

import csv
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Rows of the table: scheme as in the CSV.
SCHEMES = ["none:a=f32", "none", "rowcol", "abquant:bn=128", "mxfp8", "bquant:g=32", "mx-weight", "int8",
           "bquant:a=int8,g=32", "mxfp4", "nvfp4"]
# Columns: name in the suite, and what the reader sees.
SHAPES = [("decode_4k", "M = 1"), ("batch16", "M = 16"), ("batch128", "M = 128"), ("prefill512", "M = 512")]


def read(path):
    """The first comment line and the rows of a CSV file."""
    lines = path.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    return comments[0].lstrip("# ") if comments else "", list(csv.DictReader(l for l in lines if l[:1] != "#"))


def share(row):
    """" (83 %)", or nothing where the ceilings moved while they were used."""
    text = row["share_of_ceiling"]
    return f" ({100 * float(text):.0f} %)" if text else ""


def bench_table(path):
    about, rows = read(path)
    cells = {(row["scheme"], row["name"]): row for row in rows}
    schemes = [scheme for scheme in SCHEMES if any((scheme, name) in cells for name, _ in SHAPES)]
    lines = [f"N = K = 4096, weights packed, operands cold; GOP/s (share of the measured ceiling). {about}.", "",
             "| scheme | " + " | ".join(title for _, title in SHAPES) + " |",
             "|---|" + "---:|" * len(SHAPES)]
    for scheme in schemes:
        line = [f"`{scheme}`"]
        for name, _ in SHAPES:
            row = cells.get((scheme, name))
            good = row is not None and row["verified"] == "yes"
            line.append(f"{float(row['gops']):.0f}{share(row)}" if good else "-")
        lines.append("| " + " | ".join(line) + " |")
    return lines


def evaluate_table(path):
    about, rows = read(path)
    ms = sorted({int(row["m"]) for row in rows})
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    time = {}
    for row in rows:
        key = (row["scheme"], int(row["m"]))
        time[key] = time.get(key, 0) + float(row["median_us"]) * int(row["count"])
    lines = [f"all-MiniLM-L6-v2, every linear layer, speed relative to f32 in the same run. {about}.", "",
             "| scheme | bits/weight | least SQNR dB | error/bound | " + " | ".join(f"M = {m}" for m in ms) + " |",
             "|---|---:|---:|---:|" + "---:|" * len(ms)]
    for scheme in schemes:
        mine = [row for row in rows if row["scheme"] == scheme]
        if any(row["verified"] != "yes" for row in mine):
            continue
        weights = [int(row["count"]) * int(row["n"]) * int(row["k"]) for row in mine]
        bits = sum(float(row["bits_per_weight"]) * w for row, w in zip(mine, weights)) / sum(weights)
        sqnr = min(float(row["sqnr_db"]) for row in mine)
        worst = max(float(row["worst_error_over_bound"]) for row in mine)
        speeds = [f"{time[(schemes[0], m)] / time[(scheme, m)]:.2f}x" for m in ms]
        quality = "exact" if sqnr == float("inf") else f"{sqnr:.1f}"
        lines.append(f"| `{scheme}` | {bits:.2f} | {quality} | {worst:.2g} | " + " | ".join(speeds) + " |")
    return lines


def geomean(ratios):
    if not ratios:
        return "-"
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} ({min(ratios):.2f})"


def h200_table():
    lines = ["One H200, `bench/suites/gemm28.csv`, cold operands, cuBLASLt interleaved in the same process: its time over ours, "
             "geometric mean (least).", "",
             "| scheme, D in bf16 | against | M >= 512 | M <= 128 | best TFLOP/s |", "|---|---|---:|---:|---:|"]
    for path in sorted((ROOT / "results" / "h200").glob("gemm28-*.csv")):
        _, rows = read(path)
        good = [row for row in rows if row["verified"] == "yes"]
        best = max(float(row["tflops"]) for row in good)
        for peer in dict.fromkeys(row["peer"] for row in good if row["ratio"]):
            def ratios(wanted):
                return [float(r["ratio"]) for r in good if r["peer"] == peer and r["ratio"] and wanted(int(r["m"]))]
            lines.append(f"| `{good[0]['scheme']}` | {peer} | {geomean(ratios(lambda m: m >= 512))} | "
                         f"{geomean(ratios(lambda m: m <= 128))} | {best:.0f} |")
    return lines


def accuracy_table(path):
    """Empty until the file is there."""
    if not path.is_file():
        return []
    about, rows = read(path)
    modes = list(dict.fromkeys((row["scheme"], row["accuracy"]) for row in rows))
    cells = {(row["scheme"], row["accuracy"], row["data"], row["k"]): row for row in rows}
    lines = [f"Largest error (root mean square) over the sum of |a b|, D in f32. {about}.", "",
             "| data | K | " + " | ".join(f"`{scheme}` {accuracy}" for scheme, accuracy in modes) + " |",
             "|---|---:|" + "---:|" * len(modes)]
    for data, k in dict.fromkeys((row["data"], row["k"]) for row in rows):
        line = [data, k]
        for scheme, accuracy in modes:
            row = cells.get((scheme, accuracy, data, k))
            good = row is not None and row["verified"] == "yes"
            line.append(f"{float(row['max_error']):.1e} ({float(row['rms_error']):.1e})" if good else "-")
        lines.append("| " + " | ".join(line) + " |")
    return lines


def minilm_table(path):
    about, rows = read(path)
    cells = {(row["scheme"], row["activations"]): row for row in rows}
    lines = [f"all-MiniLM-L6-v2 in PyTorch, every `nn.Linear` a `QuantLinear`: cosine to the f32 model's embeddings of "
             f"{rows[0]['sentences']} sentences, mean (least). {about}.", "",
             "| scheme | bits/weight | activations as the scheme says | activations in f32 |", "|---|---:|---:|---:|"]
    for scheme in dict.fromkeys(row["scheme"] for row in rows):
        pair = [cells[(scheme, activations)] for activations in ("scheme", "keep")]
        texts = [f"{float(row['mean_cosine']):.4f} ({float(row['least_cosine']):.4f})" for row in pair]
        lines.append(f"| `{scheme}` | {float(pair[0]['bits_per_weight']):.2f} | " + " | ".join(texts) + " |")
    return lines


def replace(name, text, mark, lines):
    begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    if begin not in text or end not in text:
        sys.exit(f"error: {name}: needed the marks {begin} and {end}")
    head, rest = text.split(begin, 1)
    return head + begin + "\n" + "\n".join(lines).strip() + "\n\n" + end + rest.split(end, 1)[1]


def main():
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1] != "--check"):
        sys.exit(__doc__)
    results = ROOT / "results" / "cpu"
    lines = []
    for path in sorted(results.glob("bench_*.csv")):
        lines += ["", *bench_table(path)]
    if (results / "evaluate.csv").is_file():
        lines += ["", *evaluate_table(results / "evaluate.csv")]
    tables = {"README.md": [("cpu-table", lines), ("h200-table", h200_table()),
                            ("minilm-table", minilm_table(results / "minilm-embeddings.csv"))],
              "docs/numerics.md": [("accuracy-table", accuracy_table(ROOT / "results" / "h200" / "accuracy.csv"))]}
    for name, marks in tables.items():
        text = new = (ROOT / name).read_text()
        for mark, table in marks:
            new = replace(name, new, mark, table)
        if new != text and len(sys.argv) == 2:
            sys.exit(f"error: {name} is not up to date; run scripts/readme_table.py")
        if new != text:
            (ROOT / name).write_text(new)


if __name__ == "__main__":
    main()
