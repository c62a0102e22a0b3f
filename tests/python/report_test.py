"""The report: numbers of its table and plots, and what it says of files that are none."""

import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from scalegemm import report
from scalegemm.report.__main__ import main

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
from scalegemm.report import _error_plots, _plots

GPU = "name,m,n,k,scheme,kernel,median_us,mad_us,tflops,gbps,share_of_ceiling,peer,peer_us,ratio,verified"
CPU = "name,m,n,k,scheme,kernel,median_us,mad_us,best_us,host_us,gops,gbps,share_of_ceiling,cold,verified"
EVALUATE = "scheme,n,k,count,m,kernel,bits_per_weight,memory_bytes,sqnr_db,worst_error_over_bound,median_us,mad_us,gops,verified"
ACCURACY = "scheme,accuracy,data,m,n,k,kernel,max_error,rms_error,elements,histogram,verified"
KERNEL = "gemm_rowcolquant_e4m3-e4m3-bf16_rcr_tmacoop_tma_default_64x8x128"
CPU_KERNEL = "gemm_any_any-int8-any_any_i8dot_default"


def gpu_row(name, m, us, peer, peer_us, verified="yes", gbps=1000):
    ratio = f"{peer_us / us:.3f}" if peer_us else ""
    return f'{name},{m},512,1024,"rowcol",{KERNEL},{us},0.1,1.0,{gbps},0.5,{peer},{peer_us or ""},{ratio},{verified}'


GPU_FILE = f"""# commit abc1234 (scalegemm bench)
# device NVIDIA H200, 132 multiprocessors; clocks not locked; scalegemm 0.1.0
# e4m3_n64_normal 1600000 GFLOP/s
# e4m3_n128_normal 1700000 GFLOP/s
# e4m3_promoted_n128_normal 1350000 GFLOP/s
# bf16_n128_normal 860000 GFLOP/s
# launch 3.5 us; cold read, 2 MB 5.0 us, 2000 MB 400 us
{GPU}
{gpu_row("one", 1, 10, "lt-row", 20)}
{gpu_row("one", 1, 10, "lt-tensor", 5)}
{gpu_row("b128", 128, 10, "lt-row", 80)}
{gpu_row("b128", 128, 10, "lt-tensor", None)}
{gpu_row("between", 256, 10, "lt-row", 1000)}
{gpu_row("large", 512, 40, "lt-row", 30)}
{gpu_row("wrong", 512, 1, "lt-row", 99, verified="no")}
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="bench.csv"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def test_a_gpu_file(write):
    file = report.read_file(write(GPU_FILE))
    assert (file.name, file.device, file.fact("commit")) == ("bench", "NVIDIA H200", "abc1234 (scalegemm bench)")
    assert file.ceilings.tflops == {"e4m3": 1700, "e4m3 promoted": 1350, "bf16": 860}
    assert file.ceilings.tbps == 5
    one = file.timings[0]
    assert one.tflops == pytest.approx(2 * 512 * 1024 / 10e-6 / 1e12)
    assert one.intensity == pytest.approx(2 * 512 * 1024 / (1000e9 * 10e-6))
    assert file.timings[3].ratio is None  # lt-tensor cannot do it
    assert len(file.timings) == 6 and file.left_out == [f"{file.path}: wrong 512 512 1024 rowcol: not verified"]

    absent = report.read_file(write(GPU_FILE.replace("lt-tensor,,,", "lt-tensor,nan,nan,"), "nan.csv"))
    assert absent.timings == file.timings

    row, tensor = report.summary([file])
    assert (row.file, row.scheme, row.peer) == ("bench", "rowcol", "lt-row")
    assert (row.few.count, row.few.geomean, row.few.least, row.few.best) == (2, pytest.approx(4), 2, 8)  # of 2 and 8
    assert (row.many.count, row.many.geomean) == (1, 0.75)  # not 256, not what is wrong
    assert row.best_tflops == pytest.approx(2 * 256 * 512 * 1024 / 10e-6 / 1e12)
    assert (tensor.few.count, tensor.few.geomean, tensor.many) == (1, 0.5, None)


def test_a_cpu_file_is_compared_with_f32(write):
    rows = [("none:a=f32", 30), ("int8", 10), ("mxfp4", 15)]
    text = "".join(f'x,4,64,64,"{scheme}",{CPU_KERNEL},{us},1,1,0,1.0,2.5,,yes,yes\n' for scheme, us in rows)
    path = write(f"# device AMD EPYC, target avx512bf16, threads 2, scalegemm 0.1.0\n{CPU}\n{text}")
    file = report.read_file(path)
    assert file.device == "AMD EPYC, target avx512bf16"
    assert [(t.peer, t.ratio) for t in file.timings] == [("", None), ("none:a=f32", 3), ("none:a=f32", 2)]

    probes = [{"name": "int8_dot", "value": 900.0}, {"name": "read", "value": 50.0}, {"name": "launch", "value": 1}]
    facts = {"devices": [{"model": "AMD EPYC"}], "ceilings": [{"device": "cpu", "threads": 2, "rows": probes}]}
    report.read_ceilings(write(json.dumps(facts), "c.json"), [file])
    assert file.ceilings == report.Ceilings({"int8": 0.9}, 0.05)
    facts["ceilings"][0]["threads"] = 1
    with pytest.raises(report.ReportError, match="c.json: needed a CSV of AMD EPYC with 1 threads; given none"):
        report.read_ceilings(write(json.dumps(facts), "c.json"), [file])
    with pytest.raises(report.ReportError, match="c.json: needed the JSON of scalegemm info --ceilings"):
        report.read_ceilings(write("[]", "c.json"), [file])


def test_peers_of_another_run(write):
    file = report.read_file(write(GPU_FILE))
    row = gpu_row("b128", 128, 50, "", None).replace(KERNEL, "deepgemm")
    report.add_peers([file], report.read_file(write(f"{GPU}\n{row}\n", "peers.csv")))
    added = [t for t in file.timings if t.peer == "deepgemm (another run)"]
    assert [(t.name, t.us, t.ratio) for t in added] == [("b128", 10, 5)]  # once, though b128 stands there twice
    other = report.read_file(write(f"{GPU}\n{row.replace('b128,128', 'b128,127')}\n", "peers.csv"))
    with pytest.raises(report.ReportError, match="peers.csv: needed rows of the shapes"):
        report.add_peers([file], other)


def test_errors_and_their_histogram(write):
    rows = f'"rowcol",fast,normal,8,8,128,{KERNEL},1e-7,2e-8,64,-26:3 -24:13,yes\n'
    file = report.read_file(write(f"{ACCURACY}\n{rows}"))
    assert file.errors[0].histogram == {-26: 3, -24: 13} and file.errors[0].elements == 64
    assert report.summary([file]) == []
    assert "exact: 75 %" == _error_plots.exact_text(file.errors)
    names = [plot.name for plot in _plots.plots([file])]
    assert names == ["errors-bench", "histograms-bench"]
    old = report.read_file(write(f"{ACCURACY.replace('histogram,', '')}\n{rows.replace('-26:3 -24:13,', '')}"))
    assert [plot.name for plot in _plots.plots([old])] == ["errors-bench"]


def test_quality(write):
    rows = f"none:a=f32,64,64,3,1,{CPU_KERNEL},32,1,inf,0.01,10,1,1,yes\n"
    rows += f"int8,64,64,3,1,{CPU_KERNEL},8.1,1,34.5,0.02,5,1,1,yes\n"
    file = report.read_file(
        write(f"# model m.safetensors, device AMD EPYC, target avx2, threads 2\n{EVALUATE}\n{rows}")
    )
    assert file.device == "AMD EPYC, target avx2" and file.timings[1].ratio == 2
    quality = next(plot for plot in _plots.plots([file]) if plot.name == "quality-bench")
    assert "Exact, so not shown: none:a=f32" in quality.caption


def test_many_schemes_with_a_peer_each_are_plots_of_their_own(write):
    other = gpu_row("one", 1, 10, "lt-int8", 20).replace("rowcol", "int8")
    file = report.read_file(write(f"{GPU_FILE}{other}\n"))
    names = [plot.name for plot in _plots.plots([file])]
    assert names == ["roofline-nvidia-h200", "speed-bench-rowcol", "speed-bench-int8"]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: "", "needed a line of columns and rows; given none"),
        (lambda text: "# only\n", "needed a line of columns and rows; given none"),
        (lambda text: text.replace("median_us", "time"), r"needed the columns of .*bench.*missing: median_us\)"),
        (lambda text: text.replace("one,1,512", "one,-1,512", 1), "line 9: m: needed a positive integer; given '-1'"),
        (
            lambda text: text.replace(",10,0.1", ",nan,0.1", 1),
            "line 9: median_us: needed a number of at least 0; given 'nan'",
        ),
        (lambda text: text.replace(",10,0.1", ",0,0.1", 1), "line 9: median_us: needed a number above 0; given '0'"),
        (lambda text: text.replace(",10,0.1", ",inf,0.1", 1), "line 9: median_us: needed a number"),
        (lambda text: text.replace("lt-row,20", "lt-row,fast", 1), "line 9: peer_us: needed a number"),
        (lambda text: text.replace(",yes\n", ",maybe\n", 1), "line 9: verified: needed yes or no; given 'maybe'"),
        (lambda text: text.replace(",yes\n", ",yes,1\n", 1), "line 9: needed 15 fields; given 16"),
        (lambda text: text.replace(",yes\n", "\n", 1), "line 9: needed 15 fields; given 14"),
        (lambda text: text.replace('"rowcol"', '"rowcol', 1), "line 9: "),
        (lambda text: text.replace(",yes\n", ",no\n"), "needed rows that were verified; given 7"),
        (lambda text: text.encode()[:-3] + b"\xff\n", "needed UTF-8 text; byte"),
    ],
)
def test_malformed_files(write, capsys, tmp_path, change, message):
    path = write(change(GPU_FILE))
    page = tmp_path / "page.html"
    assert main([path, "-o", str(page)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}: ") and re.search(message, error) and not page.exists()


@pytest.mark.parametrize("entry", ["-26", "-26:x", "-26:1 -26:1", "-26:65"])
def test_malformed_histograms(write, entry):
    with pytest.raises(report.ReportError, match="line 2: histogram: needed"):
        report.read_file(write(f'{ACCURACY}\n"rowcol",fast,normal,8,8,128,{KERNEL},1e-7,2e-8,64,{entry},yes\n'))


def test_the_page(write, tmp_path):
    first = write(GPU_FILE, "a/bench.csv")
    second = write(GPU_FILE.replace("lt-row", "<lt>&"), "b/bench.csv")
    page, png = tmp_path / "page.html", tmp_path / "png"
    assert main([first, second, "-o", str(page), "--png", str(png), "--title", "A & B"]) == 0
    text = page.read_text()
    assert "<title>A &amp; B</title>" in text and "<dd>NVIDIA H200</dd>" in text and "<dd>abc1234</dd>" in text
    assert "&lt;lt&gt;&amp;" in text and "<lt>" not in text
    assert '<td class="n good">4.00</td><td class="n good">2.00</td><td class="n good">8.00</td>' in text
    assert "wrong 512 512 1024 rowcol: not verified" in text
    # Nothing is fetched: links are the page's own, and there are neither scripts nor styles of others.
    namespaces = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")
    assert {url for url in re.findall(r"https?://[^\"'\s)<]+", text)} <= set(namespaces)
    assert not re.search(r"<(script|link|img|iframe)\b|@import", text)
    ids = re.findall(r'\bid="([^"]+)"', text)
    for target in re.findall(r'href="#([^"]+)"', text) + re.findall(r"url\(#([^)]+)\)", text):
        assert target in ids, target
    assert "var(--ink)" in text and "#1b1f24" not in text.replace("--ink: #1b1f24", "")  # follows light and dark
    for svg in re.findall(r"<svg.*?</svg>", text, re.S):
        xml.etree.ElementTree.fromstring(svg)
    names = sorted(path.name for path in png.iterdir())
    assert len(names) == 3 and names[0] == "roofline-nvidia-h200.png" and len(set(names)) == 3
    assert all(path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" for path in png.iterdir())
    again = tmp_path / "again.html"
    assert main([first, "--title", "A & B", second, "-o", str(again)]) == 0
    assert again.read_text() == text


def test_the_results_of_this_repository(tmp_path):
    results = pathlib.Path(__file__).resolve().parents[2] / "results"
    files = report.read_files(sorted(map(str, results.glob("*/*.csv"))))
    assert len(files) >= 15 and len({file.name for file in files}) == len(files)
    assert sum(len(file.timings) for file in files) > 1000
    page = tmp_path / "page.html"
    arguments = [results / "h200" / "gemm28-abquant.csv", *results.glob("cpu/*.csv"), "-o", page]
    arguments += ["--ceilings", results / "cpu" / "ceilings.json", "--peers", results / "h200" / "torch-peers.csv"]
    assert main([str(argument) for argument in arguments]) == 0
    text = page.read_text()
    for word in ("deepgemm (another run)", "cublaslt-block", "Error histograms", "Roofline: AMD EPYC"):
        assert word in text, word


def test_what_cannot_be_written_or_read(write, tmp_path, capsys):
    path = write(GPU_FILE)
    assert main([path, "-o", str(tmp_path / "no" / "page.html")]) == 1
    assert "page.html: cannot be written: No such file" in capsys.readouterr().err
    assert main([path, "--png", path]) == 1
    assert "bench.csv: cannot be made: File exists" in capsys.readouterr().err
    assert main([str(tmp_path / "none.csv"), "-o", str(tmp_path / "page.html")]) == 1
    assert "none.csv: cannot be read: No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main([path])
    assert caught.value.code == 2 and "needed -o FILE.html or --png DIR" in capsys.readouterr().err


def test_without_matplotlib(write, tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from scalegemm.report.__main__ import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, write(GPU_FILE), "-o", str(tmp_path / "page.html")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "needed matplotlib" in result.stderr and "pip install scalegemm[report]" in result.stderr
