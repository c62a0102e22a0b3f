#!/usr/bin/env python3
"""Serves a linear layer of a checkpoint as it is stored.

usage: checkpoint_linear.py MODEL LAYER A.npy D.npy

A is M x K in f32; D becomes matrices x M x N in f32, a matrix for each expert of the layer. examples/checkpoint_linear.cc
does the same in C++, `scalegemm run --model` at the command line, with the same bits (docs/checkpoints.md).
"""

import sys

import numpy as np

import scalegemm


def serve(model, name, a):
    checkpoint = scalegemm.Checkpoint(model)
    layer = next((layer for layer in checkpoint.layers if layer.name == name), None)
    if layer is None:
        raise SystemExit(f"error: {model} has no layer {name}")
    print(f"{name}: {layer.format}, scheme {layer.scheme}, {layer.count} of {layer.n} x {layer.k}")
    products = []
    for member in range(layer.count):
        weight = checkpoint.weight(name, member)
        packed = scalegemm.pack(weight.quantized, weight.scheme)  # once a weight
        x = a if weight.columns is None else np.ascontiguousarray(a[:, weight.columns])
        products.append(scalegemm.matmul(scalegemm.quantize(x, weight.scheme, "a"), packed))
    return np.stack(products)


def main():
    if len(sys.argv) != 5:
        raise SystemExit(__doc__.split("\n\n")[1])
    model, name, a, d = sys.argv[1:]
    try:
        np.save(d, serve(model, name, np.load(a)))
    except (scalegemm.Error, OSError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
