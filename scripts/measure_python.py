#!/usr/bin/env python3
"""Microseconds of a call from Python: a 1 x 1 product, so that the call itself is what is timed.

usage: measure_python.py            (with scalegemm installed; torch is timed where it is installed)
"""

import importlib.util
import timeit

import numpy as np

import scalegemm as sg


def best_us(call, number=10000, repeat=9):
    return min(timeit.repeat(call, number=number, repeat=repeat)) / number * 1e6


def measure(library, ones, fp8):
    a, b, out = ones(1, 1), ones(1, 1), ones(1, 1)
    plan = sg.plan(sg.problem("none:a=f32", 1, 1, 1))
    q = sg.quantize(ones(1, 64), "rowcol", "a")
    codes, scales = fp8(q.codes), q.scales
    weights = sg.pack(sg.quantize(ones(1, 64), "rowcol"), "rowcol")
    fp8_plan = sg.plan(sg.problem("rowcol", 1, 1, 64, packed=True))
    rows = {
        "run(a, b, out), f32": lambda: plan.run(a, b, out),
        "run(a, packed, out, scale_a), e4m3, K = 64": lambda: fp8_plan.run(codes, weights, out, scale_a=scales),
        "matmul(a, b, out=out)": lambda: sg.matmul(a, b, out=out),
        "matmul(a, b)": lambda: sg.matmul(a, b),
    }
    for name, call in rows.items():
        print(f"{library:6} {name:44} {best_us(call):6.2f} us")


def measure_cuda(torch):
    """What a call costs the caller: 100 at a time, less than a launch queue holds, and a wait between."""
    m, n, k = 16, 128, 128
    a, b = (sg.Quantized(q.codes.cuda(), q.operand, scales=q.scales.cuda())
            for q in (sg.quantize(torch.randn(m, k), "rowcol", "a"), sg.quantize(torch.randn(n, k), "rowcol")))
    plan = sg.plan(sg.problem("rowcol", m, n, k, out_dtype="bf16"), device="cuda:0")
    out = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    ones = torch.ones(m, 1, device="cuda"), torch.ones(1, n, device="cuda")
    rows = {
        "run, rowcol 16 x 128 x 128": lambda: plan.run(a.codes, b.codes, out, scale_a=a.scales, scale_b=b.scales),
        "matmul(a, b, out=out)": lambda: sg.matmul(a, b, out=out),
        "torch._scaled_mm": lambda: torch._scaled_mm(a.codes, b.codes.t(), scale_a=ones[0], scale_b=ones[1],
                                                     out_dtype=torch.bfloat16, use_fast_accum=True),
    }
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for name, call in rows.items():
        best = min(timeit.repeat(call, torch.cuda.synchronize, number=100, repeat=50)) / 100 * 1e6
        print(f"cuda   {name:44} {best:6.2f} us")


def main():
    measure("numpy", lambda *shape: np.ones(shape, np.float32), lambda codes: sg.view(codes, "e4m3"))
    if importlib.util.find_spec("torch"):
        import torch

        measure("torch", torch.ones, lambda codes: codes)
        x = torch.ones(1, 1)
        print(f"torch  {'view(x), f32':44} {best_us(lambda: sg.view(x, 'f32')):6.2f} us")
        print(f"torch  {'x.__dlpack__()':44} {best_us(x.__dlpack__):6.2f} us")
        if torch.cuda.is_available():
            measure_cuda(torch)


if __name__ == "__main__":
    main()
