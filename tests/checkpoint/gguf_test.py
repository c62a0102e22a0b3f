"""GGUF files written and quantised by the gguf package: what is decoded is what that package decodes."""

import struct

import formats_test as formats
import gguf
import numpy as np
import pytest

TYPES = gguf.GGMLQuantizationType


def write(path, tensors):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("general.name", "a test")
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc", ""])
    writer.add_array("numbers", [1, 2, 3])
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def quantised(values, kind):
    raw = gguf.quants.quantize(values, kind)
    return raw, gguf.quants.dequantize(raw, kind).astype(np.float64)


@pytest.mark.parametrize("kind,scheme", [
    (TYPES.Q4_0, "bquant:g=32,scale=f16"), (TYPES.Q8_0, "bquant:b=int8,g=32,scale=f16"),
    (TYPES.F16, "none:a=f16"), (TYPES.BF16, "none")])
def test_types(tmp_path, kind, scheme):
    values = formats.rng().standard_normal((6, 96)).astype(np.float32)
    raw, expected = quantised(values, kind)
    layer = formats.only(write(tmp_path / "x.gguf", {"blk.0.w.weight": (raw, kind)}))
    assert layer["scheme"] == scheme and layer["bytes"] == raw.nbytes
    assert np.array_equal(formats.decode(layer), expected)


def test_mxfp4_of_experts(tmp_path):
    values = formats.rng().standard_normal((2, 6, 64)).astype(np.float32)
    raw, expected = quantised(values, TYPES.MXFP4)
    layer = formats.only(write(tmp_path / "x.gguf", {"blk.0.ffn_up_exps.weight": (raw, TYPES.MXFP4)}))
    assert layer["scheme"] == "mx-weight" and len(layer["members"]) == 2
    for e in range(2):
        assert np.array_equal(formats.decode(layer, e), expected[e])


def test_a_file_is_known_by_its_first_bytes(tmp_path):
    values = formats.rng().standard_normal((2, 32)).astype(np.float32)
    layer = formats.only(write(tmp_path / "weights.bin", {"a.weight": (values, TYPES.F32)}))
    assert np.array_equal(formats.decode(layer), values)


def test_other_types_are_refused(tmp_path):
    values = formats.rng().standard_normal((2, 64)).astype(np.float32)
    raw, _ = quantised(values, TYPES.Q5_0)
    layers = formats.layers(write(tmp_path / "x.gguf", {
        "a.weight": (raw, TYPES.Q5_0), "norm.weight": (values[0], TYPES.F32)}))
    assert layers.keys() == {"a"} and "needed one of Q4_0" in layers["a"]["problem"]
    assert "Q5_0 [2, 64]" in layers["a"]["problem"]


def test_truncated_at_every_byte(tmp_path):
    raw, _ = quantised(np.ones((2, 32), np.float32), TYPES.Q8_0)
    whole = write(tmp_path / "x.gguf", {"a.weight": (raw, TYPES.Q8_0)}).read_bytes()
    data_end = whole.rfind(raw.tobytes()) + raw.nbytes
    for length in range(0, data_end, 7):
        (tmp_path / "x.gguf").write_bytes(whole[:length])
        run = formats.probe(tmp_path / "x.gguf")
        assert run.returncode > 0 and "x.gguf" in run.stderr


def test_other_versions(tmp_path):
    for version in (1, 4, 0x03000000):
        (tmp_path / "x.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, 0))
        assert "version" in formats.probe(tmp_path / "x.gguf").stderr
