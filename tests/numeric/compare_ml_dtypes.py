#!/usr/bin/env python3
"""Compares scalegemm's number formats with ml_dtypes: usage: compare_ml_dtypes.py DUMP_CONVERSIONS FOLDER.

Every code of every type is decoded, and about 1.6 million f32 values (every bf16, every f16, 10^6 random bit
patterns and more) are encoded, by both. NaN equals NaN whatever its payload; everything else is compared bit by
bit, the sign of zero and of NaN included. Exit code 77: numpy or ml_dtypes is missing.
"""

import pathlib
import subprocess
import sys

try:
    import ml_dtypes
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; install numpy and ml_dtypes and give -DPython3_EXECUTABLE to CMake")
    sys.exit(77)

# Our name -> type of numpy or ml_dtypes.
FLOATS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e4m3_fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2": ml_dtypes.float8_e5m2,
    "e5m2_fnuz": ml_dtypes.float8_e5m2fnuz,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}
INTEGERS = {"int8": np.int8, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}


def raw_type(theirs):
    return np.uint16 if np.dtype(theirs).itemsize == 2 else np.uint8


def report(label, inputs, ours, theirs):
    """The number of elements of two float arrays that differ; the first few are printed."""
    same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    wrong = np.flatnonzero(~same)
    for i in wrong[:5]:
        print(f"{label}: input {inputs[i]!r}: ours {ours[i]!r}, theirs {theirs[i]!r}")
    print(f"{label}: {len(same)} compared, {len(wrong)} differ")
    return len(wrong)


def compare_decode(name, theirs, ours):
    codes = np.arange(len(ours), dtype=raw_type(theirs))
    if name in ("int4", "uint4"):  # ml_dtypes keeps them sign- or zero-extended in a byte
        codes = codes.astype(np.int8)
        values = (codes if name == "uint4" else ((codes ^ 8) - 8)).astype(theirs).astype(np.float32)
    else:
        values = codes.view(theirs).astype(np.float32)
    return report(f"{name} decode", codes, ours, values)


def expected_codes(name, theirs, inputs, saturate):
    """Values (f32) that the inputs should become."""
    if name in INTEGERS:  # round to even, clamp, NaN to 0: numpy's own casts truncate
        limits = ml_dtypes.iinfo(theirs)
        clamped = np.clip(np.nan_to_num(inputs, nan=0.0, posinf=1e30, neginf=-1e30), limits.min, limits.max)
        return np.rint(clamped).astype(np.int8).astype(theirs).astype(np.float32) + np.float32(0)
    if saturate:
        top = np.float32(ml_dtypes.finfo(theirs).max)
        if name == "e8m0":  # no zero: the smallest power
            smallest = np.float32(2.0**-127)
            inputs = np.where(inputs == 0, smallest, np.where(inputs > top, top, inputs))
        else:
            inputs = np.clip(inputs, -top, top)
    values = inputs.astype(theirs).astype(np.float32)
    if name == "e8m0":  # ml_dtypes 0.6 rounds subnormals just above 2^-127 up to 2^-126; nearest is 2^-127
        values = np.where((inputs > 2.0**-127) & (inputs < 1.5 * 2.0**-127), np.float32(2.0**-127), values)
    if name == "e2m1":  # no NaN: ours is 0, theirs a zero with the other sign
        values = np.where(np.isnan(inputs), np.float32(0), values)
    return values


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([tool, str(folder)], check=True)
    inputs = np.fromfile(folder / "inputs.f32", dtype=np.float32)
    assert len(inputs) > 1_600_000, len(inputs)
    wrong = 0
    with np.errstate(all="ignore"):
        for name, theirs in {**FLOATS, **INTEGERS}.items():
            table = np.fromfile(folder / f"{name}.decode.f32", dtype=np.float32)
            assert len(table) == (16 if name in ("e2m1", "int4", "uint4") else 256 ** np.dtype(theirs).itemsize)
            wrong += compare_decode(name, theirs, table)
            for mode in ("ieee", "saturate"):
                codes = np.fromfile(folder / f"{name}.{mode}", dtype=raw_type(theirs))
                assert len(codes) == len(inputs)
                expected = expected_codes(name, theirs, inputs, mode == "saturate")
                wrong += report(f"{name} encode {mode}", inputs, table[codes], expected)
                signs = np.signbit(table[codes]) != np.signbit(expected)
                if name not in ("e8m0", "e4m3_fnuz", "e5m2_fnuz") and np.any(signs):
                    print(f"{name} encode {mode}: {np.count_nonzero(signs)} signs differ")
                    wrong += 1
    print("ml_dtypes", ml_dtypes.__version__, "FAIL" if wrong else "PASS")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
