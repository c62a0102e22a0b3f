"""The readers and writers against the packages that define the formats: safetensors and numpy (with ml_dtypes)."""

import json
import os
import pathlib
import struct
import subprocess

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

PROBE = pathlib.Path(os.environ["SCALEGEMM_BUILD_DIR"]) / "bin" / "checkpoint_probe"

# The name in a file, and the array type whose bytes it holds.
SAFETENSORS_TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "I64": np.int64, "I32": np.int32,
    "I16": np.int16, "I8": np.int8, "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
    "BOOL": np.bool_,
}
NPY_TYPES = ["f4", "f2", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "c8", "c16"]
SHAPES = [(), (1,), (7,), (3, 5), (0, 4), (2, 3, 4, 5)]


def probe(*arguments):
    return subprocess.run([PROBE, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def read(path):
    run = probe("read", path)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def random_array(dtype, shape, seed=0):
    raw = np.random.default_rng(seed).integers(0, 2 if dtype is np.bool_ else 256,
                                               (*shape, np.dtype(dtype).itemsize), np.uint8)
    return raw.view(dtype).reshape(shape)


def test_reads_what_safetensors_writes(tmp_path):
    arrays = {f"layer.{i}.{name}": random_array(dtype, shape, i)
              for i, (name, dtype) in enumerate(SAFETENSORS_TYPES.items()) for shape in [SHAPES[i % len(SHAPES)]]}
    arrays["é ☃\n\""] = random_array(np.float32, (2, 2))
    safetensors.numpy.save_file(arrays, tmp_path / "x.safetensors", metadata={"format": "np", "é": "☃"})
    seen = read(tmp_path / "x.safetensors")
    assert seen["metadata"] == {"format": "np", "é": "☃"}
    assert seen["tensors"].keys() == arrays.keys()
    for name, array in arrays.items():
        tensor = seen["tensors"][name]
        assert tensor["shape"] == list(array.shape)
        assert tensor["bytes"] == array.tobytes().hex()
        assert np.dtype(SAFETENSORS_TYPES[tensor["type"]]) == array.dtype


def test_safetensors_reads_what_we_write(tmp_path):
    arrays = {f"{name}{shape}": random_array(dtype, shape)
              for name, dtype in SAFETENSORS_TYPES.items() for shape in SHAPES}
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors", metadata={"k": "v"})
    run = probe("rewrite", tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert run.returncode == 0, run.stderr
    with safetensors.safe_open(tmp_path / "b.safetensors", "np") as file:
        assert file.metadata() == {"k": "v"}
        assert set(file.keys()) == arrays.keys()
    for name, tensor in safetensors.deserialize((tmp_path / "b.safetensors").read_bytes()):
        assert tensor["shape"] == list(arrays[name].shape)
        assert np.dtype(SAFETENSORS_TYPES[tensor["dtype"]]) == arrays[name].dtype
        assert bytes(tensor["data"]) == arrays[name].tobytes()


def safetensors_file(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="U8", shape=(1,), offsets=(0, 1)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize("name", ["F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"])
def test_both_know_the_types_that_numpy_lacks(tmp_path, name):
    size = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "C64": 64}.get(name, 8)
    content = safetensors_file({"x": entry(name, (2, 4), (0, size))}, bytes(size))
    (tmp_path / "x").write_bytes(content)
    assert read(tmp_path / "x")["tensors"]["x"]["type"] == name
    safetensors.deserialize(content)


# Files that the format's own library refuses, and we as well.
BAD = {
    "empty": b"",
    "no header": struct.pack("<Q", 2),
    "length past the end": struct.pack("<Q", 1000) + b"{}",
    "huge length": struct.pack("<Q", 2**64 - 1) + b"{}",
    "not an object": safetensors_file(b"[]", b""),
    "zero byte": safetensors_file(b"{}\0", b""),
    "not UTF-8": safetensors_file(b'{"\xff":{}}', b""),
    "truncated": safetensors_file({"x": entry(shape=[2], offsets=[0, 2])}, b"1"),
    "too long": safetensors_file({"x": entry()}, b"12"),
    "hole": safetensors_file({"x": entry(offsets=[1, 2])}, b"12"),
    "overlap": safetensors_file({"x": entry(), "y": entry()}, b"1"),
    "backwards": safetensors_file({"x": entry(offsets=[1, 0])}, b"1"),
    "wrong size": safetensors_file({"x": entry(shape=[3])}, b"1"),
    "overflow": safetensors_file({"x": entry("F32", [2**62, 4], [0, 0])}, b""),
    "unknown type": safetensors_file({"x": entry("F31", [1], [0, 4])}, b"1234"),
    "part of a byte": safetensors_file({"x": entry("F4", [3], [0, 2])}, b"12"),
    "negative": safetensors_file({"x": entry(shape=[-1])}, b"1"),
    "metadata of numbers": safetensors_file({"__metadata__": {"a": 1}}, b""),
    "deep": safetensors_file(b'{"x":' + b"[" * 100000, b""),
}


@pytest.mark.parametrize("case", BAD)
def test_both_refuse(tmp_path, case):
    (tmp_path / "x.safetensors").write_bytes(BAD[case])
    with pytest.raises(Exception):
        safetensors.deserialize(BAD[case])
    run = probe("read", tmp_path / "x.safetensors")
    assert run.returncode == 9 and run.stderr, run  # CORRUPT_DATA


def test_agrees_with_safetensors_on_mutations(tmp_path):
    """What we accept, safetensors accepts and reads alike; what it refuses, we refuse."""
    good = safetensors.numpy.save({"a": random_array(np.float32, (2, 3)), "b": random_array(np.int8, (5,))})
    rng = np.random.default_rng(7)
    accepted = 0
    for number in range(300):
        content = bytearray(good)
        for at in rng.integers(0, len(good), rng.integers(1, 3)):
            content[at] = rng.integers(0, 256)
        (tmp_path / "x").write_bytes(content)
        run = probe("read", tmp_path / "x")
        assert run.returncode in (0, 9), (number, run)
        if run.returncode == 0:
            accepted += 1
            theirs = {name: bytes(tensor["data"]).hex() for name, tensor in safetensors.deserialize(bytes(content))}
            ours = {name: tensor["bytes"] for name, tensor in json.loads(run.stdout)["tensors"].items()}
            assert ours == theirs, number
    assert accepted > 20


@pytest.mark.parametrize("code", NPY_TYPES)
def test_npy_both_ways(tmp_path, code):
    for shape in SHAPES:
        for order in "CF":
            array = np.asarray(random_array(np.bool_ if code == "b1" else np.dtype(code), shape), order=order)
            np.save(tmp_path / "x.npy", array)
            seen = read(tmp_path / "x.npy")
            fortran = array.flags.f_contiguous and not array.flags.c_contiguous
            assert seen == {"type": code, "shape": list(shape), "fortran_order": bool(fortran),
                            "bytes": array.tobytes(order="F" if fortran else "C").hex()}
        run = probe("rewrite", tmp_path / "x.npy", tmp_path / "y.npy")
        assert run.returncode == 0, run.stderr
        again = np.load(tmp_path / "y.npy")
        assert again.dtype == array.dtype and again.shape == shape and again.flags.c_contiguous


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(tmp_path, version):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)
    assert read(tmp_path / "x.npy")["bytes"] == array.tobytes().hex()


@pytest.mark.parametrize("array,reason", [
    (np.zeros(3, ">f4"), "needs little-endian"),
    (np.zeros(3, [("a", "f4"), ("b", "i4")]), "structured"),
    (np.array([{}, 1], object), "Python objects"),
    (np.array(["a"]), "text"),
    (np.zeros(3, ml_dtypes.bfloat16), "raw bytes"),
    (np.zeros(3, "M8[s]"), "dates"),
    (np.zeros(3, np.longdouble), "is not read"),
])
def test_npy_refuses(tmp_path, array, reason):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    run = probe("read", tmp_path / "x.npy")
    assert run.returncode == 2 and reason in run.stderr, run  # UNSUPPORTED
