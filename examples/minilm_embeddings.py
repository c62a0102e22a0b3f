#!/usr/bin/env python3
"""How far each scheme moves the sentence embeddings of all-MiniLM-L6-v2.

usage: minilm_embeddings.py [--csv FILE] [--schemes NAME,NAME] [--device DEVICE] MODEL.safetensors TOKENIZER.json

Every nn.Linear of the model (6 layers of BERT, 36 matrices) becomes a scalegemm.torch.QuantLinear, with activations as
the scheme says and with activations kept in f32. The embeddings of 100 sentences (sentences.txt: pairs that say the
same) are compared with those of the f32 model: cosine, mean and least. Needs torch and scalegemm; scripts/fetch_model.py fetches both files:

    python scripts/fetch_model.py build/models/all-minilm-l6-v2.safetensors
    python scripts/fetch_model.py build/models/all-minilm-l6-v2.json
    python examples/minilm_embeddings.py --csv results/cpu/minilm-embeddings.csv build/models/all-minilm-l6-v2.*
"""

import argparse
import csv
import json
import pathlib
import struct
import sys
import unicodedata

import torch
from torch import nn

import scalegemm
from scalegemm.torch import QuantLinear, quantize_

HERE = pathlib.Path(__file__).resolve().parent


class Tokenizer:
    """BERT's for text without Chinese: lower case without accents, words and punctuation apart, longest pieces."""

    def __init__(self, path):
        self.vocab = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]

    def __call__(self, sentence):
        ids = [piece for word in self.words(sentence) for piece in self.pieces(word)]
        return [self.vocab["[CLS]"], *ids[:126], self.vocab["[SEP]"]]

    def words(self, sentence):
        plain = unicodedata.normalize("NFD", sentence.lower())
        plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
        return "".join(c if c.isalnum() or c.isspace() else f" {c} " for c in plain).split()

    def pieces(self, word):
        found, rest = [], word
        while rest:
            prefix = "##" if found else ""
            size = next((n for n in range(len(rest), 0, -1) if prefix + rest[:n] in self.vocab), 0)
            if size == 0:
                return [self.vocab["[UNK]"]]
            found.append(self.vocab[prefix + rest[:size]])
            rest = rest[size:]
        return found


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.heads = heads

    def forward(self, x, mask):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        return self.norm(x + self.dense(mixed.transpose(1, 2).flatten(2)))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, mask):
        x = self.attention(x, mask)
        return self.norm(x + self.down(nn.functional.gelu(self.up(x))))


class MiniLM(nn.Module):
    """BERT of 6 layers; the embedding of a sentence is the mean over its tokens, of length 1."""

    def __init__(self, vocab=30522, width=384, heads=12, layers=6, positions=512):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocab, width), nn.Embedding(positions, width)
        self.types = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def forward(self, ids, mask):
        x = self.words(ids) + self.positions.weight[: ids.shape[1]] + self.types.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask)
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return nn.functional.normalize(mean, dim=-1)


# Names of the file to names of the module above.
RENAMED = (
    ("embeddings.word_embeddings", "words"),
    ("embeddings.position_embeddings", "positions"),
    ("embeddings.token_type_embeddings", "types"),
    ("embeddings.LayerNorm", "norm"),
    ("encoder.layer", "layers"),
    ("attention.self", "attention"),
    ("attention.output.dense", "attention.dense"),
    ("attention.output.LayerNorm", "attention.norm"),
    ("intermediate.dense", "up"),
    ("output.dense", "down"),
    ("output.LayerNorm", "norm"),
)


def read_safetensors(path):
    """f32 tensors by name: a header of JSON (its size before it), then the data."""
    data = bytearray(path.read_bytes())
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, about in header.items():
        if name != "__metadata__" and about["dtype"] == "F32":
            begin, end = about["data_offsets"]
            part = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=8 + size + begin)
            tensors[name] = part.reshape(about["shape"])
    return tensors


def load(path):
    state = {}
    for name, tensor in read_safetensors(path).items():
        for theirs, ours in RENAMED:
            name = name.replace(theirs, ours)
        if not name.startswith("pooler."):  # of another task
            state[name] = tensor
    model = MiniLM()
    model.load_state_dict(state)
    return model.eval()


def batch(tokenizer, sentences, device):
    """Token numbers and which of them are real, padded to the longest."""
    rows = [torch.tensor(tokenizer(sentence)) for sentence in sentences]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids.to(device), (torch.arange(ids.shape[1]) < lengths[:, None]).to(device)


def neighbours(embeddings):
    """For each sentence the one most like it."""
    return (embeddings @ embeddings.T).fill_diagonal_(-1).argmax(1)


def measure(args):
    sentences = (HERE / "sentences.txt").read_text().splitlines()
    inputs = batch(Tokenizer(args.tokenizer), sentences, args.device)
    plain = load(args.model).to(args.device)
    with torch.inference_mode():
        want = plain(*inputs)
    paired = (neighbours(want).cpu() == torch.arange(len(sentences)).bitwise_xor(1)).sum().item()
    print(f"f32: {paired} of {len(sentences)} sentences lie nearest to the one that says the same")
    if paired < 0.9 * len(sentences):
        sys.exit("error: these are not the embeddings of this model")
    rows = []
    bits = {scheme.name: scheme.bits_per_weight for scheme in scalegemm.schemes()}
    for scheme in args.schemes or bits:
        for activations in ("scheme", "keep"):
            model = quantize_(load(args.model).to(args.device), scheme, activations=activations)
            layers = sum(isinstance(module, QuantLinear) for module in model.modules())
            with torch.no_grad():
                got = model(*inputs)
            cosine = (got.double() * want.double()).sum(1)
            rows.append({"scheme": scheme, "activations": activations, "layers": layers,
                         "bits_per_weight": f"{bits[scheme]:.4g}" if scheme in bits else "",
                         "sentences": len(sentences), "mean_cosine": f"{cosine.mean().item():.6f}",
                         "least_cosine": f"{cosine.min().item():.6f}"})
            print("  ".join(str(value) for value in rows[-1].values()), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--schemes", type=lambda text: text.split(","))
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    if args.model.suffix == ".json":  # as a shell expands build/models/all-minilm-l6-v2.*
        args.model, args.tokenizer = args.tokenizer, args.model
    rows = measure(args)
    if args.csv:
        where = torch.cuda.get_device_name() if args.device != "cpu" else scalegemm.devices()[0].model
        with args.csv.open("w", newline="") as file:
            file.write(f"# scalegemm {scalegemm.__version__}, {where}, examples/sentences.txt\n")
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
