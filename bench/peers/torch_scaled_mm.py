#!/usr/bin/env python3
"""Times what PyTorch users run on the shapes of a suite: torch._scaled_mm, DeepGEMM and scalegemm, interleaved.

usage: torch_scaled_mm.py SUITE.csv OUT.csv [--warmup 50] [--repeat 100] [--only NAME]...

All are e4m3 x e4m3 to bf16: scaled-mm-tensor and scaled-mm-row (fast accumulation), scaled-mm-block (1 x 128 by 128 x 128,
where this torch has it), deepgemm (fp8_gemm_nt, when deep_gemm can be imported) and, when scalegemm can be imported,
scalegemm-tensor, -row (accuracy fast) and -block. Each is compared with float64 on some rows and columns first. Each call lies between
two events, the L2 cache is flushed before it (256 MB written), all in turn in one process; median and MAD. The columns are those of
results/h200/gemm28-*.csv: a row for each peer, and one for scalegemm beside each peer of its scheme. Needs torch 2.6 or later
and a CUDA device.
"""

import argparse
import csv
import pathlib
import statistics
import subprocess
import sys

COLUMNS = ["name", "m", "n", "k", "scheme", "kernel", "median_us", "mad_us", "tflops", "gbps", "share_of_ceiling", "peer",
           "peer_us", "ratio", "verified"]
SCHEMES = {"scaled-mm-tensor": "tensor", "scaled-mm-row": "rowcol", "scaled-mm-block": "abquant:bn=128",
           "deepgemm": "abquant:bn=128", "scalegemm-tensor": "tensor", "scalegemm-row": "rowcol",
           "scalegemm-block": "abquant:bn=128"}
BLOCK = 128
LARGEST = 448.0  # of e4m3
FLUSH_BYTES = 256 << 20
TOLERANCE = 0.02  # of the sum of |a b|: bf16 output and the sums of the tensor cores


def read_suite(path):
    """(name, m, n, k) of each row; lines that start with # and further columns are left out."""
    lines = [line for line in pathlib.Path(path).read_text().splitlines() if line.strip() and line[0] != "#"]
    rows = list(csv.DictReader(lines))
    missing = [c for c in COLUMNS[:4] if not rows or c not in rows[0]]
    if missing:
        raise ValueError(f"{path}: needed rows with the columns name,m,n,k; it has no {', '.join(missing)}")
    shapes = []
    for row in rows:
        try:
            sizes = [int(row[c]) for c in "mnk"]
        except (TypeError, ValueError):
            given = ", ".join(str(row[c]) for c in "mnk")
            raise ValueError(f"{path}: {row['name']}: needed integers m, n, k; given {given}") from None
        if min(sizes) < 1:
            raise ValueError(f"{path}: {row['name']}: needed positive sizes; given {sizes}")
        shapes.append((row["name"], *sizes))
    return shapes


def median_and_mad(times):
    median = statistics.median(times)
    return median, statistics.median(abs(t - median) for t in times)


def scale_bytes(peer, m, n, k):
    blocks = -(-k // BLOCK)
    return 4 * {"tensor": 2, "rowcol": m + n}.get(SCHEMES[peer], m * blocks + -(-n // BLOCK) * blocks)


def result_row(shape, peer, times_us, kernel=None):
    name, m, n, k = shape
    median, mad = median_and_mad(times_us)
    moved = m * k + n * k + 2 * m * n + scale_bytes(peer, m, n, k)
    return {"name": name, "m": m, "n": n, "k": k, "scheme": SCHEMES[peer], "kernel": kernel or peer, "median_us": f"{median:.2f}",
            "mad_us": f"{mad:.2f}", "tflops": f"{2 * m * n * k / median / 1e6:.1f}", "gbps": f"{moved / median / 1e3:.0f}",
            "verified": "yes"}


def result_rows(shape, times_us, kernels):
    """times_us: by peer; kernels: the kernel that ran for each scalegemm-*. A row for each peer and each pair of ours with one."""
    ours = [name for name in times_us if name in kernels]
    rows = [result_row(shape, name, times) for name, times in times_us.items() if name not in kernels]
    for name in ours:
        row = result_row(shape, name, times_us[name], kernels[name])
        same = [peer for peer in times_us if peer not in kernels and SCHEMES[peer] == SCHEMES[name]]
        for peer in same:
            peer_us = statistics.median(times_us[peer])
            rows.append({**row, "peer": peer, "peer_us": f"{peer_us:.2f}",
                         "ratio": f"{peer_us / statistics.median(times_us[name]):.3f}"})
        if not same:
            rows.append(row)
    return rows


def write_results(path, header, rows, problems):
    with open(path, "w", newline="") as out:
        out.writelines(f"# {line}\n" for line in header)
        writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        out.writelines(f"# {line}\n" for line in problems)


# ---- everything below needs torch ----

def import_torch():
    try:
        import torch
    except ImportError:
        sys.exit("error: needed PyTorch 2.6 or later; it cannot be imported: pip install torch")
    if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 6):
        sys.exit(f"error: needed PyTorch 2.6 or later; this is {torch.__version__}")
    if not torch.cuda.is_available():
        sys.exit("error: needed a CUDA device; this PyTorch finds none")
    if torch.cuda.get_device_capability() < (8, 9):
        sys.exit(f"error: needed a device with fp8 (8.9 or later); this is {torch.cuda.get_device_name()}")
    return torch


def about(torch):
    query = ["nvidia-smi", "-i", "0", "--query-gpu=driver_version,clocks.sm,clocks.max.sm,power.limit", "--format=csv,noheader"]
    try:
        smi = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        smi = "unknown"
    cores = torch.cuda.get_device_properties(0).multi_processor_count
    return [f"device {torch.cuda.get_device_name()}, {cores} multiprocessors; clocks not locked; driver, SM clock now, "
            f"at most, power limit: {smi}",
            f"torch {torch.__version__}, CUDA {torch.version.cuda}",
            "data: normal values, quantised per scheme; cold L2 (256 MB written before each call); events around each",
            "call, launch included; peers in turn in one process; median and MAD; compared with float64 first"]


def quantise(torch, x, rows, cols):
    """e4m3 codes and f32 scales of blocks of rows x cols (None: all)."""
    r, c = rows or x.shape[0], cols or x.shape[1]
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % c, 0, -x.shape[0] % r))
    blocks = padded.view(padded.shape[0] // r, r, padded.shape[1] // c, c)
    scales = blocks.abs().amax(dim=(1, 3)).clamp(min=1e-30) / LARGEST
    codes = (blocks / scales[:, None, :, None]).to(torch.float8_e4m3fn).view_as(padded)
    return codes[:x.shape[0], :x.shape[1]].contiguous(), scales


def dequantise(codes, scales, rows, cols):
    r, c = rows or codes.shape[0], cols or codes.shape[1]
    grid = scales.double().repeat_interleave(r, 0)[:codes.shape[0]].repeat_interleave(c, 1)[:, :codes.shape[1]]
    return codes.double() * grid


class Peer:
    """One peer on one shape: call() runs it; a and b are what it multiplies, in float64."""

    kernel = None  # that scalegemm chose

    def __init__(self, torch, name, shape):
        _, m, n, k = shape
        x, w = torch.randn(m, k, device="cuda"), torch.randn(n, k, device="cuda") * 0.05
        blocks = {"tensor": ((None, None), (None, None)), "rowcol": ((1, None), (1, None))}.get(
            SCHEMES[name], ((1, BLOCK), (BLOCK, BLOCK)))
        a, scale_a = quantise(torch, x, *blocks[0])
        b, scale_b = quantise(torch, w, *blocks[1])
        self.a, self.b = (a, scale_a, *blocks[0]), (b, scale_b, *blocks[1])
        if name == "deepgemm":
            self.call = self.deepgemm(torch, m, n)
            return
        if name.startswith("scalegemm"):
            self.call = self.scalegemm(torch, m, n, k, SCHEMES[name])
            return
        if name == "scaled-mm-tensor":
            scale_a, scale_b = scale_a.view(()), scale_b.view(())
        elif name == "scaled-mm-row":
            scale_b = scale_b.t()
        else:  # 1 x 128 scales lie along rows
            scale_a, scale_b = scale_a.t().contiguous().t(), scale_b.t()
        fast = name != "scaled-mm-block"
        self.call = lambda: torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16,
                                             use_fast_accum=fast)

    def deepgemm(self, torch, m, n):
        import deep_gemm
        (a, scale_a), (b, scale_b) = self.a[:2], self.b[:2]
        layout = getattr(deep_gemm, "get_mn_major_tma_aligned_tensor", None) or deep_gemm.get_col_major_tma_aligned_tensor
        scale_a = layout(scale_a)
        d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

        def call():
            deep_gemm.fp8_gemm_nt((a, scale_a), (b, scale_b), d)
            return d
        return call

    def scalegemm(self, torch, m, n, k, scheme):
        import scalegemm
        (a, scale_a), (b, scale_b) = self.a[:2], self.b[:2]
        blocks = scheme.startswith("abquant")
        if blocks:  # 1 x 128 scales where the quantisers put them: contiguous along rows, lines of whole 16 bytes
            lines = torch.zeros(scale_a.shape[1], -(-m // 4) * 4, device="cuda")
            lines[:, :m] = scale_a.t()
            scale_a = lines.t()[:m]
        problem = scalegemm.problem(scheme, m, n, k, out_dtype="bf16", accuracy="promoted" if blocks else "fast")
        plan = scalegemm.plan(problem, device="cuda:0")
        self.kernel = plan.kernel
        d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        workspace = torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
        return lambda: plan.run(a, b, d, scale_a=scale_a, scale_b=scale_b, workspace=workspace)

    def error(self, torch):
        """The largest error of some rows and columns over the sum of |a b|."""
        d = self.call()
        m, n = d.shape
        rows = torch.randperm(m, device="cuda")[:16]
        cols = torch.randperm(n, device="cuda")[:64]
        x, y = dequantise(*self.a)[rows], dequantise(*self.b)[cols]
        off = (d[rows][:, cols].double() - x @ y.t()).abs() / (x.abs() @ y.abs().t()).clamp(min=1e-300)
        return off.max().item()


def time_in_turn(torch, calls, warmup, repeat):
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    events = [[(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeat)] for _ in calls]
    for i in range(-warmup, repeat):
        for call, pairs in zip(calls, events):
            flush.zero_()
            if i < 0:
                call()
                continue
            pairs[i][0].record()
            call()
            pairs[i][1].record()
    torch.cuda.synchronize()
    return [[1e3 * start.elapsed_time(stop) for start, stop in pairs] for pairs in events]


def measure(torch, shape, names, options):
    """Rows of one shape, and why peers are missing."""
    peers, problems = [], []
    for name in names:
        try:
            peer = Peer(torch, name, shape)
            error = peer.error(torch)
            torch.cuda.synchronize()
        except Exception as problem:  # what a peer refuses, it refuses in its own ways
            first_line = (str(problem).strip() or type(problem).__name__).splitlines()[0]
            problems.append(f"{shape[0]}: {name}: {first_line}")
            continue
        if not error <= TOLERANCE:
            problems.append(f"{shape[0]}: {name}: wrong, off by {error:.3g} of the sum of |a b|")
            continue
        peers.append((name, peer))
    times = time_in_turn(torch, [peer.call for _, peer in peers], options.warmup, options.repeat) if peers else []
    kernels = {name: peer.kernel for name, peer in peers if peer.kernel}
    return result_rows(shape, {name: t for (name, _), t in zip(peers, times)}, kernels), problems


def peer_names(only):
    names = list(SCHEMES)
    unknown = [name for name in only if name not in names]
    if unknown:
        sys.exit(f"error: --only: needed one of {', '.join(names)}; given {', '.join(unknown)}")
    return only or names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("out")
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=100)
    parser.add_argument("--only", action="append", default=[], help="a peer; may be repeated")
    options = parser.parse_args()
    names = peer_names(options.only)
    try:
        shapes = read_suite(options.suite)
    except (OSError, ValueError) as problem:
        sys.exit(f"error: {problem}")
    torch = import_torch()
    header, rows, problems = about(torch), [], []
    for library, prefix in (("deep_gemm", "deepgemm"), ("scalegemm", "scalegemm-")):
        try:
            module = __import__(library)
            header[1] += f", {library} {getattr(module, '__version__', 'of unknown version')}"
        except ImportError:
            header[1] += f", no {library}"
            names = [name for name in names if not name.startswith(prefix)]
    for shape in shapes:
        done, missing = measure(torch, shape, names, options)
        rows += done
        problems += missing
        for row in done:
            beside = f"  {row['ratio']} of {row['peer']}" if row.get("peer") else ""
            print(f"{row['name']:24} {row['kernel'][:18]:18} {row['median_us']:>9} us {row['tflops']:>7} TFLOP/s{beside}", flush=True)
        for line in missing:
            print(line, file=sys.stderr, flush=True)
        write_results(options.out, header, rows, problems)


if __name__ == "__main__":
    main()
