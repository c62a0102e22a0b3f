"""examples/minilm_embeddings.py on a model of its shape with small sizes; the real one is fetched by hand."""

import csv
import functools
import importlib.util
import json
import pathlib
import struct
import sys

import pytest

import scalegemm as sg

torch = pytest.importorskip("torch", reason="torch is not installed")
PATH = pathlib.Path(__file__).resolve().parents[2] / "examples" / "minilm_embeddings.py"


@pytest.fixture
def example(monkeypatch):
    spec = importlib.util.spec_from_file_location("minilm_embeddings", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    small = functools.partial(module.MiniLM, vocab=2000, width=64, heads=4, layers=2, positions=40)
    monkeypatch.setattr(module, "MiniLM", small)
    return module


@pytest.fixture
def tokenizer(tmp_path):
    words = set((PATH.parent / "sentences.txt").read_text().lower().split())
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted({word.strip(".,'") for word in words}), ".", ",", "##s", "##'"]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"vocab": {piece: number for number, piece in enumerate(pieces)}}}))
    return path


def write_model(example, path):
    """A random model under the names and in the form of the real file."""
    torch.manual_seed(3)
    state = example.MiniLM().state_dict()
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in state.items():
        theirs = name.replace("layers", "encoder.layer")
        if theirs.startswith("encoder"):
            for old, new in [
                ("attention.dense", "attention.output.dense"), ("attention.norm", "attention.output.LayerNorm"),
                ("attention.query", "attention.self.query"), ("attention.key", "attention.self.key"),
                ("attention.value", "attention.self.value"), (".up.", ".intermediate.dense."),
                (".down.", ".output.dense."), (".norm.", ".output.LayerNorm."),
            ]:  # fmt: skip
                theirs = theirs.replace(old, new)
        else:
            for old, new in [("words", "word_embeddings"), ("positions", "position_embeddings"),
                             ("types", "token_type_embeddings"), ("norm", "LayerNorm")]:  # fmt: skip
                theirs = theirs.replace(old, new)
            theirs = "embeddings." + theirs
        raw = tensor.numpy().tobytes()
        header[theirs] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return state


def test_tokenizer(example, tokenizer):
    example.Tokenizer(tokenizer)
    vocab = json.loads(tokenizer.read_text())["model"]["vocab"]
    ids = example.Tokenizer(tokenizer)("The CATS sleeps, thé zebra.")
    names = {number: piece for piece, number in vocab.items()}
    assert [names[i] for i in ids] == ["[CLS]", "the", "cat", "##s", "sleeps", ",", "the", "[UNK]", ".", "[SEP]"]


def test_weights_by_name(example, tmp_path):
    state = write_model(example, tmp_path / "model.safetensors")
    loaded = example.load(tmp_path / "model.safetensors").state_dict()
    assert loaded.keys() == state.keys() and all(torch.equal(loaded[name], state[name]) for name in state)


def test_padding_changes_nothing(example, tokenizer, tmp_path):
    write_model(example, tmp_path / "model.safetensors")
    model, tokens = example.load(tmp_path / "model.safetensors"), example.Tokenizer(tokenizer)
    both = ["Water boils.", "The cat sleeps on the warm radiator every winter evening."]
    with torch.no_grad():
        together = model(*example.batch(tokens, both, "cpu"))
        alone = model(*example.batch(tokens, both[:1], "cpu"))
    assert torch.allclose(together[:1], alone, atol=1e-5)
    assert torch.allclose(together.norm(dim=1), torch.ones(2))


def test_table(example, tokenizer, tmp_path, monkeypatch):
    write_model(example, tmp_path / "model.safetensors")
    # A random model knows no meaning, but pairs share words; the real run demands 90 of 100.
    monkeypatch.setattr(example, "neighbours", lambda e: torch.arange(len(e)).bitwise_xor(1))
    out = tmp_path / "out.csv"
    arguments = ["--csv", out, "--schemes", "none:a=f32,rowcol,mxfp4", tmp_path / "model.safetensors", tokenizer]
    monkeypatch.setattr(sys, "argv", ["minilm_embeddings.py", *map(str, arguments)])
    example.main()
    lines = out.read_text().splitlines()
    assert lines[0].startswith(f"# scalegemm {sg.__version__}, ")
    rows = {(row["scheme"], row["activations"]): row for row in csv.DictReader(lines[1:])}
    assert len(rows) == 6 and all(row["layers"] == "12" and row["sentences"] == "100" for row in rows.values())
    least = {key: float(row["least_cosine"]) for key, row in rows.items()}
    assert least["none:a=f32", "scheme"] > 0.99999 > least["rowcol", "scheme"] > least["mxfp4", "scheme"] > 0.5
