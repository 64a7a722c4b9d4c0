"""The kind of work of a perceptron that a user trains: a whole step, cross-entropy and AdamW too.

The answer is the loss before the step. This file needs NumPy alone: the peers' processes import it
too.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.kinds import Arrays, Kind, Parameters, cross_entropy_answer, normal, nothing_moved

CLASSES = 10


def _layers(p: Parameters, rng: np.random.Generator) -> Arrays:
    """A weight and a bias for each layer of p["sizes"]."""
    made = []
    for fan_in, fan_out in pairwise(p["sizes"]):
        made += [normal(rng, fan_out, fan_in) / np.float32(np.sqrt(fan_in)), normal(rng, fan_out)]
    return made


def _perceptron_inputs(p: Parameters, rng: np.random.Generator) -> Arrays:
    x, targets = normal(rng, p["batch"], p["sizes"][0]), rng.integers(0, CLASSES, p["batch"])
    return [x, targets, *_layers(p, rng)]


def _perceptron_answer(p: Parameters, inputs: Arrays) -> Arrays:
    x, targets, *weights = inputs
    layers = list(zip(weights[::2], weights[1::2], strict=True))
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.T + bias
        x = np.maximum(x, 0) if i < len(layers) - 1 else x
    return cross_entropy_answer(p, [x, targets])[:1]


def _perceptron_flops(p: Parameters) -> float:
    """Of the products, forward and both gradients; the first layer's input needs none."""
    sizes = [a * b for a, b in pairwise(p["sizes"])]
    return p["batch"] * (6.0 * sum(sizes) - 2.0 * sizes[0])


NETWORKS = {
    "perceptron": Kind(_perceptron_inputs, _perceptron_answer, _perceptron_flops, nothing_moved),
}
