"""scalegemm convert: what is carried over is the same to the bit, what is quantised decodes as the format says, and an
interrupted run goes on where it stopped. Files are decoded here from their tensors, by nothing of the library; where the
compressed-tensors package is installed, by it as well.
"""

import json
import os
import pathlib
import signal
import subprocess
import time

import numpy as np
import pytest
import safetensors

from formats_test import (BF16, E4M3, FP4, awq_words, decode, e4m3, fp4_bytes, fp4_codes, layers, repeat, rng, save,
                          words)

TOOL = pathlib.Path(os.environ["SCALEGEMM_BUILD_DIR"]) / "bin" / "scalegemm"


def convert(*arguments, **kwargs):
    return subprocess.run([TOOL, "convert", *map(str, arguments)], capture_output=True, text=True, timeout=120, **kwargs)


def converted(*arguments):
    run = convert(*arguments, "--json")
    assert run.returncode == 0, run.stderr
    return {t["name"]: t for t in json.loads(run.stdout)["tensors"]}


ARRAYS = {"F32": np.float32, "F16": np.float16, "BF16": BF16, "F8_E4M3": E4M3, "U8": np.uint8, "I8": np.int8,
          "I32": np.int32, "I64": np.int64}


def tensors_of(path):
    """Arrays by name, and the metadata; the package of the format must take the file too."""
    safetensors.deserialize(path.read_bytes())
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:end])
    metadata = header.pop("__metadata__", {})
    return {name: np.frombuffer(raw[end + t["data_offsets"][0]:end + t["data_offsets"][1]],
                                ARRAYS[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}, metadata


def nibbles(packed, count):
    """Of words or bytes, lowest first, along the last axis."""
    bits = 4 * np.arange(8 if packed.dtype == np.int32 else 2)
    values = (packed.view(np.uint32 if packed.dtype == np.int32 else np.uint8)[..., None] >> bits) & 15
    return values.reshape(*packed.shape[:-1], -1)[..., :count]


def from_file(tensors, name):
    """The weight, as the description of compressed-tensors has it, in float64."""
    part = {key[len(name) + 1:]: value for key, value in tensors.items() if key.startswith(name + ".weight")}
    scale = part.get("weight_scale")
    if scale is None:
        return part["weight"].astype(np.float64)
    if "weight_shape" in part:
        n, k = part["weight_shape"]
        codes = nibbles(part["weight_packed"], k).astype(np.int64) - 8
        group = k // scale.shape[1]
        index = part["weight_g_idx"] if "weight_g_idx" in part else np.arange(k) // group
        zero = np.zeros((n, scale.shape[1]), np.int64)
        if "weight_zero_point" in part:
            zero = nibbles(np.ascontiguousarray(part["weight_zero_point"].T), n).T.astype(np.int64) - 8
        return (codes - zero[:, index]) * scale.astype(np.float64)[:, index]
    if "weight_packed" in part:
        k = part["weight_packed"].shape[1] * 2
        codes = FP4[nibbles(part["weight_packed"], k)]
        if scale.dtype == np.uint8:
            return codes * np.repeat(np.exp2(scale - 127.0), 32, 1)[:, :k]
        factor = np.float64(np.float32(1) / part["weight_global_scale"][0])
        return codes * np.repeat(scale.astype(np.float64), 16, 1)[:, :k] * factor
    codes = part["weight"].astype(np.float64)
    if scale.dtype == np.uint8:
        return codes * np.repeat(np.exp2(scale - 127.0), 32, 1)[:, :codes.shape[1]]
    wide = scale.astype(np.float64)
    if wide.ndim == 2 and wide.shape[1] > 1:
        return codes * repeat(wide, 128, 128, codes.shape)
    return codes * wide.reshape(-1, 1)


def plain_model(folder, layer_count=3, n=64, k=256, dtype=BF16):
    tensors = {f"model.{i}.up.weight": (rng(i).standard_normal((n, k)) * 0.1).astype(dtype) for i in range(layer_count)}
    tensors["model.norm.weight"] = rng(9).standard_normal(k).astype(np.float32)
    tensors["model.0.up.bias"] = rng(8).standard_normal(n).astype(np.float32)
    tensors["lm_head.weight"] = rng(7).standard_normal((40, k)).astype(dtype)
    tensors["model.embed_tokens.weight"] = rng(6).standard_normal((40, k)).astype(dtype)
    folder.mkdir(exist_ok=True)
    save(folder, tensors)
    (folder / "config.json").write_text('{"model_type": "toy"}')
    (folder / "tokenizer.json").write_text("{}")
    return tensors


SCHEMES = {"rowcol": ("float-quantized", 30), "tensor": ("float-quantized", 29), "abquant:bn=128": ("float-quantized", 29),
           "int8": ("int-quantized", 36), "mxfp4": ("mxfp4-pack-quantized", 16), "nvfp4": ("nvfp4-pack-quantized", 18),
           "mxfp8": ("mxfp8-quantized", 26), "bquant:b=int4,g=128": ("pack-quantized", 16),
           "bquant:b=uint4,g=32,zero=uint4": ("pack-quantized", 19), "none:a=bf16": ("dense", 40)}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_quantised_weights_decode_as_the_format_says(tmp_path, scheme):
    source = plain_model(tmp_path / "in")
    out = tmp_path / "out"
    seen = converted(tmp_path / "in", "--scheme", scheme, "-o", out)
    word, least = SCHEMES[scheme]
    tensors, _ = tensors_of(out / "model.safetensors")
    read = layers(out)
    for name in ("model.0.up", "model.1.up", "model.2.up"):
        assert seen[name]["to"] == word and seen[name]["exact"]
        values, x = from_file(tensors, name), source[name + ".weight"].astype(np.float64)
        error = values - x
        sqnr = 10 * np.log10((x * x).sum() / (error * error).sum()) if error.any() else np.inf
        assert sqnr > least
        if seen[name]["sqnr_db"] is not None:
            assert seen[name]["sqnr_db"] == pytest.approx(sqnr, abs=0.01)
        assert np.array_equal(decode(read[name]).astype(np.float32), values.astype(np.float32))
    for name in ("lm_head.weight", "model.embed_tokens.weight", "model.norm.weight", "model.0.up.bias"):
        assert tensors[name].tobytes() == source[name].tobytes() and seen[name.removesuffix(".weight")
                                                                           if name in ("lm_head.weight", "model.embed_tokens.weight") else name]["how"] == "copied"
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "toy" and (out / "tokenizer.json").read_text() == "{}"
    quantization = config["quantization_config"]
    assert quantization["quant_method"] == "compressed-tensors" and quantization["format"] == word
    assert sorted(quantization["ignore"]) == ["lm_head", "model.embed_tokens"]
    assert not list(tmp_path.glob("**/*.partial*"))


def test_all_and_ignore(tmp_path):
    plain_model(tmp_path / "in")
    seen = converted(tmp_path / "in", "--scheme", "rowcol", "--all", "--ignore", "*.1.up", "-o", tmp_path / "o.safetensors")
    assert {n for n, t in seen.items() if t["how"] == "quantised"} == {"model.0.up", "model.2.up", "lm_head",
                                                                      "model.embed_tokens"}
    _, metadata = tensors_of(tmp_path / "o.safetensors")
    assert json.loads(metadata["quantization_config"])["ignore"] == ["model.1.up"]


def test_a_single_file_brings_only_what_models_have(tmp_path):
    plain_model(tmp_path / "in")
    for name in ("secrets.txt", "notes.md", "other.json", "run.py"):
        (tmp_path / "in" / name).write_text("{}")
    converted(tmp_path / "in" / "model.safetensors", "--scheme", "rowcol", "-o", tmp_path / "file")
    assert {p.name for p in (tmp_path / "file").iterdir()} == {"model.safetensors", "config.json", "tokenizer.json"}
    converted(tmp_path / "in", "--scheme", "rowcol", "-o", tmp_path / "folder")
    assert {p.name for p in (tmp_path / "folder").iterdir()} == {"model.safetensors", "config.json", "tokenizer.json",
                                                                 "secrets.txt", "notes.md", "other.json", "run.py"}


def gptq(top, order):
    n, k, group = 16, 64, 16
    stored = rng(1).integers(0, top + 1, (k // group, n))
    stored[0, 0] = top
    groups = np.arange(k) // group
    groups = rng(3).permutation(groups) if order else groups
    return ({"x.qweight": words(rng().integers(0, 16, (k, n)), 0), "x.qzeros": words(stored),
             "x.scales": (rng(2).random((k // group, n)) + 0.1).astype(np.float16), "x.g_idx": groups.astype(np.int32)},
            {"quant_method": "gptq", "bits": 4, "group_size": group, "checkpoint_format": "gptq"})


CODES, MX, NV = fp4_codes((6, 96)), rng(1).integers(118, 135, (6, 3), np.uint8), np.abs(e4m3((6, 6), 1))
CARRIED = {
    "deepseek": ({"x.weight": e4m3((576, 200)), "x.weight_scale_inv": (rng(1).random((5, 2)) + 0.1).astype(np.float32)},
                 {"quant_method": "fp8", "weight_block_size": [128, 128]}, "float-quantized"),
    "gpt-oss": ({"x_blocks": fp4_bytes(fp4_codes((3, 6, 3, 32))), "x_scales": rng(1).integers(118, 135, (3, 6, 3), np.uint8)},
                {"quant_method": "mxfp4"}, "mxfp4-pack-quantized"),
    "modelopt-fp8": ({"x.weight": e4m3((10, 12)), "x.weight_scale": np.float32(0.3)},
                     {"quant_method": "modelopt", "quant_algo": "FP8"}, "float-quantized"),
    "modelopt-nvfp4": ({"x.weight": fp4_bytes(CODES), "x.weight_scale": NV, "x.weight_scale_2": np.float32(1 / 64)},
                       {"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4-pack-quantized"),
    "quark": ({"x.weight": fp4_bytes(CODES), "x.weight_scale": MX},
              {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}},
              "mxfp4-pack-quantized"),
    "mxfp8": ({"x.weight": e4m3((6, 96)), "x.weight_scale": MX}, None, "mxfp8-quantized"),
    "gptq": (*gptq(14, False), "pack-quantized"),
    "gptq-act-order": (*gptq(14, True), "pack-quantized"),
    "awq": ({"x.qweight": awq_words(rng().integers(0, 16, (64, 24))), "x.qzeros": awq_words(rng(1).integers(0, 16, (4, 24))),
             "x.scales": (rng(2).random((4, 24)) + 0.1).astype(np.float16)},
            {"quant_method": "awq", "bits": 4, "version": "gemm"}, "pack-quantized"),
}


@pytest.mark.parametrize("kind", CARRIED)
def test_carried_weights_are_the_same_to_the_bit(tmp_path, kind):
    tensors, config, word = CARRIED[kind]
    (tmp_path / "in").mkdir()
    save(tmp_path / "in", {**tensors, "norm.weight": np.ones(7, np.float32)}, config)
    (source,) = layers(tmp_path / "in").values()
    seen = converted(tmp_path / "in", "-o", tmp_path / "out")
    written, _ = tensors_of(tmp_path / "out" / "model.safetensors")
    read = layers(tmp_path / "out")
    members = len(source["members"])
    for member in range(members):
        name = "x" if members == 1 else f"x.{member}"
        assert (seen[name]["how"], seen[name]["to"], seen[name]["exact"]) == ("carried", word, True)
        expected = decode(source, member)
        assert np.array_equal(from_file(written, name), expected)
        assert np.array_equal(decode(read[name]), expected)
        assert np.array_equal(np.signbit(decode(read[name])), np.signbit(expected))
    assert written["norm.weight"].tobytes() == np.ones(7, np.float32).tobytes()


def test_a_factor_without_a_divisor_is_said_to_be_inexact(tmp_path):
    factor = next(f for f in (np.float32(1) - np.arange(1, 4000, dtype=np.float32) * np.float32(2**-24))
                  if all(np.float32(1) / d != f for d in (np.nextafter(np.float32(1) / f, np.float32(x)) for x in (0, 9)))
                  and np.float32(1) / (np.float32(1) / f) != f)
    save(tmp_path, {"x.weight": fp4_bytes(CODES), "x.weight_scale": NV, "x.weight_scale_2": factor},
         {"quant_method": "modelopt", "quant_algo": "NVFP4"})
    seen = converted(tmp_path, "-o", tmp_path / "out")
    assert seen["x"]["how"] == "carried" and not seen["x"]["exact"]
    assert np.allclose(decode(layers(tmp_path / "out")["x"]), decode(layers(tmp_path)["x"]), rtol=2e-7, atol=0)


def test_requantised_from_what_the_source_decodes_to(tmp_path):
    tensors, config = gptq(14, True)
    (tmp_path / "in").mkdir()
    save(tmp_path / "in", tensors, config)
    seen = converted(tmp_path / "in", "--scheme", "rowcol", "-o", tmp_path / "out")
    assert seen["x"]["how"] == "quantised" and seen["x"]["from"] == "GPTQ v1" and seen["x"]["sqnr_db"] > 25
    written, _ = tensors_of(tmp_path / "out" / "model.safetensors")
    x = decode(layers(tmp_path / "in")["x"])
    assert np.abs(from_file(written, "x") - x).max() < 0.04 * np.abs(x).max()


def test_gguf(tmp_path):
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(str(path), "toy")
    x = rng().standard_normal((8, 64)).astype(np.float32)
    for name, kind in (("a", gguf.GGMLQuantizationType.Q4_0), ("b", gguf.GGMLQuantizationType.Q8_0)):
        writer.add_tensor(f"blk.0.{name}.weight", gguf.quants.quantize(x, kind), raw_dtype=kind)
    writer.add_tensor("blk.0.c.weight", x.astype(np.float16))
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
    run = convert(path, "-o", tmp_path / "out.safetensors")  # int8 in groups of 32 has no tensors in the format
    assert run.returncode == 1 and "blk.0.b" in run.stderr and "compressed-tensors needs" in run.stderr
    seen = converted(path, "--scheme", "bquant:b=int4,g=32,scale=f16", "-o", tmp_path / "out.safetensors")
    assert seen["blk.0.a"]["how"] == "carried" and seen["blk.0.a"]["exact"]
    assert seen["blk.0.b"]["how"] == "quantised" and seen["blk.0.c"]["how"] == "quantised"
    written, _ = tensors_of(tmp_path / "out.safetensors")
    expected = gguf.quants.dequantize(gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q4_0),
                                      gguf.GGMLQuantizationType.Q4_0)
    assert np.array_equal(from_file(written, "blk.0.a").astype(np.float32), expected)


def big_model(folder):
    folder.mkdir()
    save(folder, {f"m.{i}.weight": rng(i).standard_normal((1024, 1024), np.float32).astype(BF16) for i in range(48)})


def test_goes_on_after_it_was_killed(tmp_path):
    big_model(tmp_path / "in")
    whole, out = tmp_path / "whole.safetensors", tmp_path / "out.safetensors"
    converted(tmp_path / "in", "--scheme", "rowcol", "-o", whole, "--threads", 1)
    log = tmp_path / "out.safetensors.partial.log"
    command = [TOOL, "convert", tmp_path / "in", "--scheme", "rowcol", "-o", out, "--threads", "2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not log.exists() or log.stat().st_size < 33 + 8):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists() and log.exists()
    refused = convert(tmp_path / "in", "--scheme", "int8", "-o", out)
    assert refused.returncode == 1 and "was begun from another input or with other options" in refused.stderr
    os.utime(tmp_path / "in" / "model.safetensors")
    refused = convert(tmp_path / "in", "--scheme", "rowcol", "-o", out)
    assert refused.returncode == 1 and "another input" in refused.stderr
    os.remove(log), os.remove(tmp_path / "out.safetensors.partial")

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not log.exists() or log.stat().st_size < 33 + 8:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    assert "goes on from there" in process.communicate()[1] and process.returncode == 1
    seen = converted(tmp_path / "in", "--scheme", "rowcol", "-o", out, "--threads", 1)
    assert 1 <= sum(t["resumed"] for t in seen.values()) < 48
    assert out.read_bytes() == whole.read_bytes()
    assert not log.exists() and not (tmp_path / "out.safetensors.partial").exists()


def test_memory_is_that_of_the_matrices_at_hand(tmp_path):
    big_model(tmp_path / "in")  # 96 MB; a matrix takes 4 MB as f32
    code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    run = subprocess.run(["python3", "-c", code, TOOL, "convert", tmp_path / "in", "--scheme", "mxfp4", "-o",
                          tmp_path / "o.safetensors", "--threads", "1"], capture_output=True, text=True, timeout=120)
    # The map of the input counts as well, as it is read.
    assert int(run.stdout) < 96 * 1024 + 80 * 1024, run.stderr


@pytest.mark.parametrize("arguments,reason", [
    (["in", "-o", "in"], "a place of its own"),
    (["in", "-o", "in/model.safetensors"], "a place of its own"),
    (["in", "-o", "o", "--scheme", "nothing"], "nothing"),
    (["in", "-o", "o", "--scheme", "bquant:b=int4,g=96"], "layer 'model.0.up': pack-quantized needs a K"),
    (["in", "-o", "o", "--scheme", "none:a=e2m1"], "compressed-tensors needs"),
    (["in", "-o", "tokenizer/o.safetensors"], "tokenizer"),
    (["gone", "-o", "o"], "gone"),
    (["in"], "--output"),
])
def test_refusals(tmp_path, arguments, reason):
    plain_model(tmp_path / "in")
    before = sorted(p.name for p in tmp_path.glob("**/*"))
    run = convert(*arguments, cwd=tmp_path)
    assert run.returncode in (1, 2) and reason in run.stderr and "scalegemm explain" not in run.stderr, run.stderr
    assert sorted(p.name for p in tmp_path.glob("**/*")) == before


def test_a_full_disk_is_said_and_the_rest_kept(tmp_path):
    plain_model(tmp_path / "in")
    run = subprocess.run(["bash", "-c", f"ulimit -f 40; trap '' XFSZ; '{TOOL}' convert in --scheme rowcol -o o.safetensors"],
                         cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "File too large" in run.stderr
    assert not (tmp_path / "o.safetensors").exists()
    converted(tmp_path / "in", "--scheme", "rowcol", "-o", tmp_path / "o.safetensors")


def test_mutated_and_cut_files_are_read_or_refused(tmp_path):
    tensors, config = gptq(14, True)
    save(tmp_path, {**tensors, **CARRIED["quark"][0]}, config)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    mutants = [whole[:cut] for cut in range(0, header + 64, 7)]
    mutants += [whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1:] for at in range(0, header, 3)]
    for mutant in mutants:
        path.write_bytes(mutant)
        run = subprocess.run([TOOL, "inspect", path], capture_output=True, text=True, timeout=30)
        assert run.returncode in (0, 1) and "Traceback" not in run.stderr
        assert run.returncode == 0 or run.stderr.startswith("error: ") or "cannot be read" in run.stdout


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s != "none:a=bf16"])
def test_the_compressed_tensors_package_decodes_the_same(tmp_path, scheme):
    torch = pytest.importorskip("torch")
    compressors = pytest.importorskip("compressed_tensors.compressors")
    from compressed_tensors.quantization import QuantizationConfig
    from safetensors.torch import load_file

    plain_model(tmp_path / "in", dtype=np.float32)
    converted(tmp_path / "in", "--scheme", scheme, "-o", tmp_path / "out")
    config = QuantizationConfig.model_validate(
        json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"])
    (group,) = config.config_groups.values()
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    compressor = compressors.BaseCompressor.get_value_from_registry(group.format)
    written, _ = tensors_of(tmp_path / "out" / "model.safetensors")
    name = "model.1.up"
    part = {key[len(name) + 1:]: value for key, value in tensors.items() if key.startswith(name + ".weight")}
    weight = compressor.decompress(part, group)["weight"]
    expected = torch.from_numpy(from_file(written, name))
    # It multiplies in the type of its scales, bf16 where they are exponents or e4m3.
    assert torch.allclose(weight.double(), expected, rtol=2**-7, atol=0), (weight.double() - expected).abs().max()
