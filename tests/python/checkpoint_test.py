"""Checkpoints from Python, and the same bits from C++, Python and the command line."""

import gc
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy

import scalegemm as sg

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("SCALEGEMM_BUILD_DIR")  # ./check sets it
BIN = pathlib.Path(BUILD or ".").resolve() / "bin"
programs = pytest.mark.skipif(not BUILD, reason="SCALEGEMM_BUILD_DIR says where the programs are")
# Wherever this process found the package, the examples do too.
ENVIRONMENT = os.environ | {"PYTHONPATH": str(pathlib.Path(sg.__file__).resolve().parents[1])}


def gptq(folder, rng, *, act_order):
    """GPTQ v2, 4 bits, 24 x 32 in two groups: what the file stands for, N x K."""
    n, k = 24, 32
    codes = rng.integers(0, 16, (k, n), np.uint32)
    zeros = rng.integers(0, 16, (2, n), np.uint32)
    scales = rng.uniform(0.5, 2, (2, n)).astype(np.float16)
    groups = np.arange(k, dtype=np.int32) // 16
    if act_order:
        rng.shuffle(groups)
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    pack = lambda x: np.bitwise_or.reduce(x << shifts, axis=-1, dtype=np.uint32).view(np.int32)  # eight nibbles
    tensors = {
        "x.qweight": pack(codes.reshape(k // 8, 8, n).transpose(0, 2, 1)),
        "x.qzeros": pack(zeros.reshape(2, n // 8, 8)),
        "x.scales": scales,
        "x.g_idx": groups,
    }
    folder.mkdir()
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    config = {
        "quant_method": "gptq",
        "bits": 4,
        "group_size": 16,
        "desc_act": act_order,
        "checkpoint_format": "gptq_v2",
    }
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    return ((codes.astype(np.float32) - zeros[groups]) * scales[groups].astype(np.float32)).T


def test_plain_weights_lie_over_the_file(tmp_path, rng):
    w = rng.standard_normal((5, 8), np.float32)
    path = tmp_path / "m.safetensors"
    safetensors.numpy.save_file({"a.weight": w, "half.weight": w.astype(np.float16), "ids": np.arange(3)}, path)
    checkpoint = sg.Checkpoint(path)
    layers = {layer.name: layer for layer in checkpoint.layers}
    a = layers["a"]
    assert (a.format, a.scheme, a.n, a.k, a.count, a.bytes, a.problem) == ("plain", "none:a=f32", 5, 8, 1, 160, "")
    assert a.operand == sg.Operand("f32") and "'a'" in repr(a) and "2 layers" in repr(checkpoint)
    assert [(name, kind) for name, kind, _ in checkpoint.left_out] == [("ids", "I64 [3]")]
    weight = checkpoint.weight("a")
    assert weight.scheme == "none:a=f32" and weight.columns is None
    assert checkpoint.weight("half").quantized.codes.dtype == np.float16
    del checkpoint, layers, a
    gc.collect()  # arrays hold on to what they lie over
    codes = weight.quantized.codes
    assert np.array_equal(codes, w) and not codes.flags.writeable and not codes.flags.owndata
    assert np.array_equal(sg.matmul(w, weight.quantized), sg.matmul(w, w))


@pytest.mark.parametrize("act_order", [False, True])
def test_zero_points_and_columns(tmp_path, rng, act_order):
    values = gptq(tmp_path / "m", rng, act_order=act_order)
    weight = sg.Checkpoint(tmp_path / "m").weight("x")
    q = weight.quantized
    assert (q.operand.dtype, q.operand.zero, q.operand.block, q.shape) == ("uint4", "uint4", (1, 16), (24, 32))
    assert (weight.columns is not None) == act_order
    columns = weight.columns if act_order else np.arange(32, dtype=np.int32)
    assert columns.dtype == np.int32
    assert np.array_equal(sg.dequantize(q), values[:, columns])
    x = rng.integers(-4, 5, (3, 32)).astype(np.float32)
    a = sg.quantize(np.ascontiguousarray(x[:, columns]), weight.scheme, "a")
    d = sg.matmul(a, sg.pack(q, weight.scheme))
    bound = np.abs(x) @ np.abs(values).T * 34 * 2.0**-24
    assert (np.abs(d - x.astype(np.float64) @ values.T) <= bound).all()


def test_a_global_factor_and_problems(tmp_path, rng):
    tensors = {
        "x.weight_packed": rng.integers(0, 256, (16, 32), np.uint8),
        "x.weight_scale": np.full((16, 4), 0x38, np.uint8),
        "x.weight_global_scale": np.array([4], np.float32),
        "y.qweight": np.zeros((2, 8), np.int32),
        "y.qzeros": np.zeros((2, 1), np.int32),
        "y.scales": np.ones((2, 8), np.float16),
    }
    path = tmp_path / "m.safetensors"
    header, at, body = {}, 0, b""
    for name, array in tensors.items():  # safetensors.numpy has no e4m3
        kind = {"uint8": "U8", "int32": "I32", "float32": "F32", "float16": "F16"}[array.dtype.name]
        kind = "F8_E4M3" if name == "x.weight_scale" else kind
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        body += array.tobytes()
        at += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    checkpoint = sg.Checkpoint(str(path))
    q = checkpoint.weight("x").quantized
    assert np.array_equal(q.global_scale, [0.25])  # the file has the divisor
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = tensors["x.weight_packed"]
    values = np.stack([e2m1[codes & 15], e2m1[codes >> 4]], -1).reshape(16, 64) * 0.25
    assert np.array_equal(sg.dequantize(q), values)

    bad = next(layer for layer in checkpoint.layers if layer.name == "y")
    assert "GPTQ" in bad.problem and bad.scheme == "" and bad.operand is None
    with pytest.raises(sg.Unsupported, match="layer 'y'"):
        checkpoint.weight("y")
    with pytest.raises(sg.InvalidArgument, match="layer: needed one of the 2 .*got 'z'"):
        checkpoint.weight("z")
    for member in (-1, 1):
        with pytest.raises(sg.InvalidArgument, match=f"member: needed 0 to 0, got {member}"):
            checkpoint.weight("x", member)


def test_files_that_are_none(tmp_path):
    with pytest.raises(sg.IoError, match="nothing.safetensors"):
        sg.Checkpoint(tmp_path / "nothing.safetensors")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(b"\x40" + bytes(7) + b"{")
    with pytest.raises(sg.CorruptData, match="cut.safetensors"):
        sg.Checkpoint(cut)
    (tmp_path / "notes.txt").write_text("no weights")
    with pytest.raises(sg.Error, match="notes.txt"):
        sg.Checkpoint(tmp_path / "notes.txt")
    with pytest.raises(TypeError):
        sg.Checkpoint(7)


def outcome(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=ENVIRONMENT)


def run(*command):
    result = outcome(*command)
    assert result.returncode == 0, result.stderr
    return result.stdout


@programs
def test_the_same_bits_from_cpp_python_and_the_command_line(tmp_path, rng, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(BIN / "checkpoint_linear")  # writes the two files
    gptq(tmp_path / "gptq", rng, act_order=True)
    for model, name, count, k in [
        ("deepseek.safetensors", "model.kv_a_proj", 1, 1088),
        ("gpt_oss.safetensors", "model.experts.down_proj", 2, 2880),
        ("gptq", "x", 1, 32),
    ]:
        np.save("a.npy", rng.standard_normal((5, k), np.float32))
        run(BIN / "checkpoint_linear", model, name, "a.npy", "cpp.npy")
        run(sys.executable, ROOT / "examples" / "checkpoint_linear.py", model, name, "a.npy", "python.npy")
        cpp, python = np.load("cpp.npy"), np.load("python.npy")
        assert cpp.shape == python.shape and cpp.shape[:2] == (count, 5) and cpp.dtype == np.float32
        assert np.isfinite(cpp).all() and cpp.any()
        assert cpp.tobytes() == python.tobytes(), model
        for member in range(count):
            run(
                BIN / "scalegemm",
                "run",
                "--model",
                model,
                "--layer",
                name,
                "--member",
                member,
                "--a",
                "a.npy",
                "--packing",
                "packed",
                "-o",
                "cli.npy",
            )
            assert np.load("cli.npy").tobytes() == python[member].tobytes(), (model, member)


@programs
def test_the_example_says_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(BIN / "checkpoint_linear")
    np.save("a.npy", np.ones((2, 5), np.float32))
    for arguments, text in [
        (["deepseek.safetensors", "x", "a.npy", "d.npy"], "no layer x"),
        (["nothing.safetensors", "x", "a.npy", "d.npy"], "nothing.safetensors"),
        (["deepseek.safetensors", "model.kv_a_proj", "a.npy", "d.npy"], "1088"),
        ([], "usage"),
    ]:
        for program in [[BIN / "checkpoint_linear"], [sys.executable, ROOT / "examples" / "checkpoint_linear.py"]]:
            if not arguments and len(program) == 1:
                continue  # makes its files then
            result = outcome(*program, *arguments)
            assert result.returncode == 1 and text in result.stderr and "Traceback" not in result.stderr, program
    assert not pathlib.Path("d.npy").exists()
