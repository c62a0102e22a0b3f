"""Checkpoints of every ecosystem, packed here from each format's own description: what is decoded is what went in.

Files are written with the safetensors package (and gguf, where its test is); codes and scales that the reader hands
out are decoded here with ml_dtypes, by nothing of the library.
"""

import json
import os
import pathlib
import subprocess

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

PROBE = pathlib.Path(os.environ["SCALEGEMM_BUILD_DIR"]) / "bin" / "checkpoint_probe"

E4M3 = ml_dtypes.float8_e4m3fn
BF16 = ml_dtypes.bfloat16
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": BF16, "e4m3": E4M3, "e5m2": ml_dtypes.float8_e5m2,
         "e8m0": ml_dtypes.float8_e8m0fnu, "int8": np.int8}
AWQ_SHIFT = [0, 4, 1, 5, 2, 6, 3, 7]


def rng(seed=0):
    return np.random.default_rng(seed)


def save(folder, tensors, config=None, name="model.safetensors"):
    safetensors.numpy.save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, folder / name)
    if config is not None:
        (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    return folder


def probe(path):
    return subprocess.run([PROBE, "layers", str(path)], capture_output=True, text=True, timeout=60)


def layers(path):
    run = probe(path)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["layers"]


def unpack(raw, dtype, shape):
    if dtype in ("int4", "uint4", "e2m1"):
        low_first = np.stack([raw & 15, raw >> 4], -1).reshape(shape)
        if dtype == "e2m1":
            return FP4[low_first]
        return ((low_first ^ 8).astype(np.int64) - 8 if dtype == "int4" else low_first).astype(np.float64)
    return raw.view(TYPES[dtype]).astype(np.float64).reshape(shape)


def decode(layer, member=0):
    """The N x K matrix that the layer stands for, in float64."""
    n, k, data, operand = layer["n"], layer["k"], layer["members"][member], layer["operand"]
    raw = {part: np.frombuffer(bytes.fromhex(data[part]), np.uint8) for part in ("codes", "scales", "zeros")}
    values = unpack(raw["codes"], operand["type"], (n, k))
    if "scale" in operand:
        rows, cols = operand["block"]
        index = np.ix_(np.arange(n) // (rows or n), np.arange(k) // (cols or k))
        if operand["zero"]:
            zeros = raw["zeros"].view(np.int8) if operand["zero"] == "int8" else raw["zeros"]
            values = values - zeros.astype(np.float64).reshape(data["grid"])[index]
        values = values * unpack(raw["scales"], operand["scale"], data["grid"])[index]
        values = values * (data["global"] if operand["global"] else 1)
    if data["columns"]:
        ordered = np.empty_like(values)
        ordered[:, data["columns"]] = values
        values = ordered
    return values


def only(path):
    (layer,) = layers(path).values()
    assert layer["problem"] == "", layer["problem"]
    return layer


def repeat(scales, rows, cols, shape):
    return np.repeat(np.repeat(scales.astype(np.float64), rows, 0), cols, 1)[:shape[0], :shape[1]]


def e4m3(shape, seed=0):
    return (rng(seed).standard_normal(shape) * 20).astype(E4M3)


def words(nibbles, axis=-1):
    """Eight 4-bit numbers along the axis to an int32, the first lowest; the last word is filled with zeros."""
    nibbles = np.moveaxis(nibbles.astype(np.uint32), axis, -1)
    pad = -nibbles.shape[-1] % 8
    nibbles = np.pad(nibbles, [(0, 0)] * (nibbles.ndim - 1) + [(0, pad)])
    grouped = nibbles.reshape(*nibbles.shape[:-1], -1, 8) << (4 * np.arange(8, dtype=np.uint32))
    return np.moveaxis(np.bitwise_or.reduce(grouped, -1).view(np.int32), -1, axis)


def fp4_bytes(codes):
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


def fp4_codes(shape, seed=0):
    return rng(seed).integers(0, 16, shape, np.uint8)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_plain(tmp_path, dtype):
    w = rng().standard_normal((5, 7)).astype(dtype)
    layer = only(save(tmp_path, {"a.weight": w, "a.bias": w[0], "ids": np.arange(4)}))
    assert np.array_equal(decode(layer), w.astype(np.float64))


@pytest.mark.parametrize("n,k", [(128, 256), (576, 200), (130, 64), (1, 129)])
def test_deepseek(tmp_path, n, k):
    w, s = e4m3((n, k)), rng(1).random((-(-n // 128), -(-k // 128)), np.float32) + 0.1
    config = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    layer = only(save(tmp_path, {"x.weight": w, "x.weight_scale_inv": s}, config))
    assert layer["scheme"] == "abquant:bn=128"
    assert np.array_equal(decode(layer), w.astype(np.float64) * repeat(s, 128, 128, w.shape))


def test_deepseek_v4(tmp_path):
    codes, exponents = fp4_codes((6, 96)), rng(1).integers(120, 134, (6, 3), np.uint8)
    w, s = e4m3((256, 384)), rng(2).integers(120, 134, (2, 3), np.uint8)
    config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    seen = layers(save(tmp_path, {
        "e.w1.weight": fp4_bytes(codes).view(np.int8), "e.w1.scale": exponents, "q.weight": w,
        "q.scale": s.view(ml_dtypes.float8_e8m0fnu)}, config))
    assert np.array_equal(decode(seen["e.w1"]), FP4[codes] * np.repeat(np.exp2(exponents - 127.0), 32, 1))
    assert np.array_equal(decode(seen["q"]), w.astype(np.float64) * repeat(np.exp2(s - 127.0), 128, 128, w.shape))


@pytest.mark.parametrize("experts", [1, 3])
def test_gpt_oss(tmp_path, experts):
    codes, s = fp4_codes((experts, 6, 3, 32)), rng(1).integers(118, 135, (experts, 6, 3), np.uint8)
    layer = only(save(tmp_path, {"m.experts.gate_up_proj_blocks": fp4_bytes(codes), "m.experts.gate_up_proj_scales": s},
                      {"quant_method": "mxfp4"}))
    assert layer["scheme"] == "mx-weight" and "alternate" in layer["note"] and len(layer["members"]) == experts
    for e in range(experts):
        expected = FP4[codes[e]] * np.exp2(s[e].astype(np.float64) - 127)[..., None]
        assert np.array_equal(decode(layer, e), expected.reshape(6, 96))


@pytest.mark.parametrize("shape,block", [((1,), None), ((), None), ((96, 1), None), ((96,), None), ((3, 2), (32, 64))])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_compressed_tensors_fp8(tmp_path, shape, block, dtype):
    w, s = e4m3((96, 128)), np.asarray(rng(1).random(shape) + 0.1).astype(dtype)
    weights = {"num_bits": 8, "type": "float", **({"block_structure": block} if block else {})}
    config = {"quant_method": "compressed-tensors", "format": "float-quantized",
              "config_groups": {"group_0": {"weights": weights, "input_activations": {"num_bits": 8}}}}
    layer = only(save(tmp_path, {"x.weight": w, "x.weight_scale": s}, config))
    wide = s.astype(np.float64)
    expected = w.astype(np.float64) * (repeat(wide, *block, w.shape) if block else wide.reshape(-1, 1))
    assert np.array_equal(decode(layer), expected)
    assert layer["scheme"].split(":")[0] == ("abquant" if block else "tensor" if s.size == 1 else "rowcol")


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("n,k,group", [(16, 64, 32), (11, 64, 16), (5, 20, 20)])
def test_compressed_tensors_int4(tmp_path, n, k, group, zero, order):
    q = rng().integers(-8, 8, (n, k))
    z = rng(1).integers(-8, 8, (n, k // group)) if zero else np.zeros((n, k // group), int)
    s = (rng(2).random((n, k // group)) + 0.1).astype(BF16)
    groups = np.arange(k) // group
    if order:
        groups = rng(3).permutation(groups)
    tensors = {"x.weight_packed": words(q + 8), "x.weight_scale": s, "x.weight_shape": np.array([n, k], np.int64)}
    if zero:
        tensors["x.weight_zero_point"] = words(z + 8, 0)
    if order:
        tensors["x.weight_g_idx"] = groups.astype(np.int32)
    layer = only(save(tmp_path, tensors, {"quant_method": "compressed-tensors", "format": "pack-quantized"}))
    assert np.array_equal(decode(layer), (q - z[:, groups]) * s.astype(np.float64)[:, groups])


def test_nvfp4_in_both_spellings(tmp_path):
    codes, s = fp4_codes((6, 48)), np.abs(e4m3((6, 3), 1))
    for factor in (np.float32(1 / 64), np.float32(0.0123)):
        expected = FP4[codes] * np.repeat(s.astype(np.float64), 16, 1)
        (tmp_path / f"c{factor}").mkdir()
        (tmp_path / f"m{factor}").mkdir()
        ct = only(save(tmp_path / f"c{factor}",
                       {"x.weight_packed": fp4_bytes(codes), "x.weight_scale": s,
                        "x.weight_global_scale": np.array([1 / factor], np.float32),
                        "x.input_global_scale": np.array([1], np.float32)},
                       {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}))
        mo = only(save(tmp_path / f"m{factor}",
                       {"x.weight": fp4_bytes(codes), "x.weight_scale": s, "x.weight_scale_2": np.array(factor),
                        "x.input_scale": np.float32([1])},
                       {"quant_method": "modelopt", "quant_algo": "NVFP4"}))
        assert ct["scheme"] == mo["scheme"] == "nvfp4"
        assert np.array_equal(decode(mo), expected * np.float64(factor))
        divisor = np.float32(1 / factor)
        assert np.array_equal(decode(ct), expected * np.float64(np.float32(1) / divisor))


def test_mxfp4_and_quark(tmp_path):
    codes, s = fp4_codes((6, 64)), rng(1).integers(118, 135, (6, 2), np.uint8)
    expected = FP4[codes] * np.repeat(np.exp2(s - 127.0), 32, 1)
    for name, tensors, config, scheme in [
            ("ct", {"x.weight_packed": fp4_bytes(codes), "x.weight_scale": s},
             {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}, "mx-weight"),
            ("quark", {"x.weight": fp4_bytes(codes), "x.weight_scale": s},
             {"quant_method": "quark", "global_quant_config": {
                 "weight": {"dtype": "fp4", "group_size": 32}, "input_tensors": {"dtype": "fp4"}}}, "mxfp4")]:
        (tmp_path / name).mkdir()
        layer = only(save(tmp_path / name, tensors, config))
        assert layer["scheme"] == scheme
        assert np.array_equal(decode(layer), expected)


@pytest.mark.parametrize("config", [{"quant_method": "modelopt", "quant_algo": "FP8"}, {"quant_method": "quark"}])
def test_fp8_of_modelopt_and_quark(tmp_path, config):
    w = e4m3((10, 12))
    layer = only(save(tmp_path, {"x.weight": w, "x.weight_scale": np.float32(0.3), "x.input_scale": np.float32(1)},
                      config))
    assert layer["scheme"] == "tensor"
    assert np.array_equal(decode(layer), w.astype(np.float64) * np.float64(np.float32(0.3)))


def test_mxfp8_scales_are_exponents(tmp_path):
    w, s = e4m3((6, 64)), rng(1).integers(118, 135, (6, 2), np.uint8)
    layer = only(save(tmp_path, {"x.weight": w, "x.weight_scale": s}))
    assert layer["scheme"] == "mxfp8"
    assert np.array_equal(decode(layer), w.astype(np.float64) * np.repeat(np.exp2(s - 127.0), 32, 1))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("top", [14, 15])
def test_gptq(tmp_path, version, order, top):
    n, k, group = 16, 64, 16
    q = rng().integers(0, 16, (k, n))
    stored = rng(1).integers(0, top + 1, (k // group, n))
    stored[0, 0] = top
    s = (rng(2).random((k // group, n)) + 0.1).astype(np.float16)
    groups = np.arange(k) // group
    if order:
        groups = rng(3).permutation(groups)
    config = {"quant_method": "gptq", "bits": 4, "group_size": group,
              "checkpoint_format": "gptq" if version == 1 else "gptq_v2"}
    layer = only(save(tmp_path, {"x.qweight": words(q, 0), "x.qzeros": words(stored), "x.scales": s,
                                 "x.g_idx": groups.astype(np.int32), "x.bias": s[0]}, config))
    zeros = stored + (1 if version == 1 else 0)
    assert np.array_equal(decode(layer), ((q - zeros[groups]) * s.astype(np.float64)[groups]).T)
    assert layer["operand"]["zero"] == ("int8" if zeros.max() == 16 else "uint4")
    assert ("act-order" in layer["note"]) == order


def awq_words(numbers):
    grouped = numbers.astype(np.uint32).reshape(numbers.shape[0], -1, 8)
    return np.bitwise_or.reduce(grouped << (4 * np.array(AWQ_SHIFT, np.uint32)), -1).view(np.int32)


@pytest.mark.parametrize("group", [16, 64])
def test_awq(tmp_path, group):
    n, k = 24, 64
    q, z = rng().integers(0, 16, (k, n)), rng(1).integers(0, 16, (k // group, n))
    s = (rng(2).random((k // group, n)) + 0.1).astype(np.float16)
    layer = only(save(tmp_path, {"x.qweight": awq_words(q), "x.qzeros": awq_words(z), "x.scales": s},
                      {"quant_method": "awq", "bits": 4, "version": "gemm"}))
    index = np.arange(k) // group
    assert np.array_equal(decode(layer), ((q - z[index]) * s.astype(np.float64)[index]).T)


def test_shards_and_index(tmp_path):
    a, b = rng().standard_normal((4, 6)).astype(np.float32), rng(1).standard_normal((3, 6)).astype(np.float32)
    save(tmp_path, {"a.weight": a}, name="one.safetensors")
    save(tmp_path, {"b.weight": b, "stale.weight": a}, name="two.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a.weight": "one.safetensors", "b.weight": "two.safetensors"}}))
    seen = layers(tmp_path)
    assert seen.keys() == {"a", "b"} and np.array_equal(decode(seen["b"]), b)
    for file, needed in [("two.safetensors", "does not have it"), ("../x.safetensors", "plain name"),
                         ("three.safetensors", "three")]:
        index.write_text(json.dumps({"weight_map": {"a.weight": file}}))
        run = probe(tmp_path)
        assert run.returncode != 0 and needed in run.stderr
    for text in ["", "[]", '{"weight_map": 1}', '{"weight_map": {"a": 1}}', '{"weight_map"']:
        index.write_text(text)
        assert probe(tmp_path).returncode != 0


W8, S = np.zeros((128, 128), np.uint8), np.ones((1, 1), np.float32)
REFUSED = {
    "no version of GPTQ": ({"x.qweight": np.zeros((2, 8), np.int32), "x.qzeros": np.zeros((1, 1), np.int32),
                            "x.scales": np.ones((1, 8), np.float16)}, None, "checkpoint_format"),
    "3-bit GPTQ": ({"x.qweight": np.zeros((2, 8), np.int32), "x.qzeros": np.zeros((1, 1), np.int32),
                    "x.scales": np.ones((1, 8), np.float16)}, {"quant_method": "gptq", "bits": 3}, "4 bits"),
    "two scales": ({"x.weight": W8.view(E4M3), "x.weight_scale": S, "x.weight_scale_inv": S}, None, "one scale"),
    "scale of nothing": ({"x.weight": W8.view(E4M3)}, {"quant_method": "fp8"}, "one scale"),
    "bytes of another method": ({"x.weight": W8}, {"quant_method": "bitsandbytes"}, "one scale"),
    "grid that fits two blocks": ({"x.weight": np.zeros((300, 30), np.uint8).view(E4M3),
                                   "x.weight_scale": np.ones((300, 2), np.float32)[:, :1].repeat(4, 1)}, None, "block"),
    "blocks of another config": ({"x_blocks": np.zeros((1, 2, 3, 16), np.uint8),
                                  "x_scales": np.zeros((1, 2, 3), np.uint8)}, {"quant_method": "gptq"}, "mxfp4"),
    "other shape of scales": ({"x_blocks": np.zeros((1, 2, 3, 16), np.uint8),
                               "x_scales": np.zeros((1, 3, 2), np.uint8)}, None, "scales"),
    "8-bit words": ({"x.weight_packed": np.zeros((2, 4), np.int32), "x.weight_scale": np.ones((2, 1), np.float32),
                     "x.weight_shape": np.array([2, 16])}, None, "4-bit"),
    "int4 with a factor": ({"x.weight_packed": np.zeros((2, 2), np.int32), "x.weight_scale": np.ones((2, 1), np.float32),
                            "x.weight_shape": np.array([2, 16]), "x.weight_global_scale": np.ones(1, np.float32)},
                           None, "no weight_global_scale"),
    "groups of unequal size": ({"x.qweight": np.zeros((2, 8), np.int32), "x.qzeros": np.zeros((2, 1), np.int32),
                                "x.scales": np.ones((2, 8), np.float16),
                                "x.g_idx": np.array([0] * 9 + [1] * 7, np.int32)},
                               {"quant_method": "gptq"}, "columns in every group"),
    "a group that is not there": ({"x.qweight": np.zeros((2, 8), np.int32), "x.qzeros": np.zeros((2, 1), np.int32),
                                   "x.scales": np.ones((2, 8), np.float16),
                                   "x.g_idx": np.array([0] * 8 + [2] * 8, np.int32)},
                                  {"quant_method": "gptq"}, "needs groups"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_facts(tmp_path, case):
    tensors, config, needed = REFUSED[case]
    (layer,) = [layer for layer in layers(save(tmp_path, tensors, config)).values() if layer["problem"]]
    assert "needed" in layer["problem"] and "found" in layer["problem"] and needed in layer["problem"]


@pytest.mark.parametrize("config", ["[]", "{", '{"quantization_config": {}}',
                                    '{"quantization_config": {"quant_method": 1}}',
                                    '{"quantization_config": {"quant_method": "fp8", "weight_block_size": [0, -1]}}'])
def test_bad_config(tmp_path, config):
    save(tmp_path, {"a.weight": np.zeros((2, 2), np.float32)})
    (tmp_path / "config.json").write_text(config)
    run = probe(tmp_path)
    assert run.returncode != 0 and "config.json" in run.stderr
