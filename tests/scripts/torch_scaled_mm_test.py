"""bench/peers/torch_scaled_mm.py without torch: suites, statistics, result files, errors."""

import csv
import importlib.util
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench" / "peers" / "torch_scaled_mm.py"
SUITE = ROOT / "bench" / "suites" / "gemm28.csv"

spec = importlib.util.spec_from_file_location("torch_scaled_mm", SCRIPT)
peers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers)


def test_reads_the_suite():
    shapes = peers.read_suite(SUITE)
    assert len(shapes) == 28
    assert all(len(shape) == 4 and min(shape[1:]) > 0 for shape in shapes)


@pytest.mark.parametrize("text,reason", [
    ("", "columns name,m,n,k"),
    ("name,m,n\nx,1,2\n", "no k"),
    ("name,m,n,k\nx,1,two,3\n", "x: needed integers"),
    ("name,m,n,k\nx,1,2\n", "x: needed integers"),
    ("# note\nname,m,n,k\nx,1,0,3\n", "x: needed positive"),
])
def test_refuses_other_suites(tmp_path, text, reason):
    path = tmp_path / "suite.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason):
        peers.read_suite(path)


def test_median_and_mad():
    assert peers.median_and_mad([5, 1, 9, 3, 7]) == (5, 2)
    assert peers.median_and_mad([4]) == (4, 0)


@pytest.mark.parametrize("peer,scales", [("scaled-mm-tensor", 2), ("scaled-mm-row", 10 + 300),
                                         ("scaled-mm-block", 10 * 3 + 3 * 3), ("deepgemm", 10 * 3 + 3 * 3)])
def test_scales_are_counted(peer, scales):
    assert peers.scale_bytes(peer, 10, 300, 260) == 4 * scales


def test_results_have_the_columns_of_the_published_files(tmp_path):
    row = peers.result_row(("shape", 1000, 2000, 500), "scaled-mm-row", [10.0, 11.0, 9.0])
    assert row["tflops"] == "200.0" and row["gbps"] == f"{(500_000 + 1_000_000 + 4_000_000 + 12_000) / 1e4:.0f}"
    path = tmp_path / "out.csv"
    peers.write_results(path, ["device X"], [row], ["shape: deepgemm: refused"])
    lines = path.read_text().splitlines()
    assert lines[0] == "# device X" and lines[-1] == "# shape: deepgemm: refused"
    back = list(csv.DictReader(line for line in lines if line[0] != "#"))
    assert [(r["kernel"], r["median_us"], r["mad_us"], r["verified"]) for r in back] == [("scaled-mm-row", "10.00", "1.00", "yes")]
    published = (ROOT / "results" / "h200" / "gemm28-rowcol.csv").read_text().splitlines()
    assert lines[1] == next(line for line in published if line[0] != "#")


@pytest.mark.parametrize("arguments,reason", [
    (["nowhere.csv", "out.csv"], "nowhere.csv"),
    ([SUITE, "out.csv", "--only", "cutlass"], "--only: needed one of"),
])
def test_says_what_is_wrong(tmp_path, arguments, reason):
    run = subprocess.run([sys.executable, SCRIPT, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 1 and reason in run.stderr and "Traceback" not in run.stderr


def test_says_that_torch_is_missing(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    run = subprocess.run([sys.executable, SCRIPT, SUITE, "out.csv"], cwd=tmp_path, capture_output=True, text=True,
                         env={"PYTHONPATH": str(tmp_path)})
    assert run.returncode == 1 and "needed PyTorch 2.6" in run.stderr
