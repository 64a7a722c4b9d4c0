"""Every function that PyTorch has too, on PyTorch's own sample inputs: values and gradients.

PyTorch's testing package describes its operations, with sample inputs for each. An operation is
tested here as soon as Bedplate has a function of its name; `OURS` says how the call is written
where names or arguments differ, `DIFFERS` why the answers do where they are meant to.
"""

from __future__ import annotations

import inspect
import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import bedplate as bp
import bedplate.nn.functional as F
from bedplate.ops.public import other_words

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

# both sides compute in the precision of the result, in another order
TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 2e-5, "complex64": 2e-5}
GRADIENTS = (torch.float64, torch.complex128)
DTYPES = (torch.float64, torch.complex128, torch.int64, torch.bool)
QUICK = 8  # samples for an operation and dtype in a quick sweep


def _scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`add` and `sub`, whose second argument PyTorch multiplies by alpha."""
    return lambda a, b, alpha=1: function(a, b if alpha == 1 else bp.multiply(b, alpha))


def _corrected(function: Callable[..., Any]) -> Callable[..., Any]:
    """`var` and `std`, whose correction is 1 in PyTorch and 0 in the Array API."""

    def called(x: Any, dim: Any = None, unbiased: bool = True, **named: Any) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        correction = named.pop("correction", 1 if unbiased else 0)
        correction = 1 if correction is None else correction
        return function(x, axis=dim, correction=correction, **named)

    return called


def _sorted(x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """PyTorch's `sort`: the values and where they were."""
    places = bp.argsort(x, axis=dim, descending=descending)
    return bp.sort(x, axis=dim, descending=descending), places


def _scattered(x: Any, dim: int, index: Any, source: Any, reduce: str | None = None) -> Any:
    """PyTorch's `scatter`, which has an old word for what `scatter_reduce` does."""
    if reduce is None:
        return bp.scatter(x, dim, index, source)
    source = source if hasattr(source, "shape") else bp.full(index.shape, source, dtype=x.dtype)
    return bp.scatter_reduce(x, dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


# PyTorch's name -> our function of the same arguments
OURS: dict[str, Callable[..., Any]] = {
    "add": _scaled(bp.add),
    "amax": bp.max,
    "amin": bp.min,
    "bitwise_not": bp.bitwise_invert,
    "broadcast_tensors": bp.broadcast_arrays,
    "bucketize": lambda x, bounds, right=False, out_int32=False: bp.bucketize(x, bounds, right),
    "cat": lambda tensors, dim=0: bp.concat(tensors, axis=dim),
    "clamp": bp.clip,
    "diff": lambda x, n=1, dim=-1, prepend=None, append=None: bp.diff(
        x, axis=dim, n=n, prepend=prepend, append=append
    ),
    "einsum": lambda tensors, equation: bp.einsum(equation, *tensors),
    "eq": bp.equal,
    "expand": lambda x, *shape: x.expand(*shape),
    "flip": lambda x, dims: bp.flip(x, axis=dims),
    "ge": bp.greater_equal,
    "gt": bp.greater,
    "le": bp.less_equal,
    "linalg.diagonal": lambda x, *, offset=0, dim1=-2, dim2=-1: bp.linalg.diagonal(
        x.moveaxis((dim1, dim2), (-2, -1)), offset=offset
    ),
    "linalg.lstsq": lambda a, b, driver=None, **named: bp.linalg.lstsq(a, b, **named),
    # through `norm`, which calls it for any two axes
    "linalg.matrix_norm": lambda x, ord="fro", dim=(-2, -1), keepdim=False, **named: bp.linalg.norm(
        x, ord, dim, keepdim
    ),
    "lt": bp.less,
    "movedim": bp.moveaxis,
    "mul": bp.multiply,
    "ne": bp.not_equal,
    "neg": bp.negative,
    "nn.functional.embedding": lambda weight, ids, **named: F.embedding(ids, weight, **named),
    "nn.functional.embedding_bag": lambda weight, ids, **named: F.embedding_bag(
        ids, weight, **named
    ),
    "nonzero": lambda x, as_tuple=False: bp.nonzero(x) if as_tuple else bp.argwhere(x),
    "outer": bp.linalg.outer,
    "repeat": bp.tile,
    "repeat_interleave": lambda x, repeats, dim=None, **named: bp.repeat(x, repeats, axis=dim),
    "scatter": _scattered,
    "searchsorted": lambda x, values, right=False, side=None, out_int32=False, sorter=None: (
        bp.searchsorted(x, values, side=side or ("right" if right else "left"), sorter=sorter)
    ),
    "sort": _sorted,
    "std": _corrected(bp.std),
    "sub": _scaled(bp.subtract),
    "take": lambda x, places: bp.take(x.reshape(-1), places),
    "take_along_dim": lambda x, index, dim=None: (
        bp.take_along_axis(x.reshape(-1), index.reshape(-1), 0)
        if dim is None
        else bp.take_along_axis(x, index, dim)
    ),
    "unbind": lambda x, dim=0: bp.unstack(x, axis=dim),
    "unsqueeze": lambda x, dim: bp.expand_dims(x, dim),
    "var": _corrected(bp.var),
    "where": lambda x, condition, y: bp.where(condition, x, y),
    "view": lambda x, *shape: x.view(*shape),
}

_TIES = "which of equal elements comes first is open in PyTorch; here the earlier one does"
_RANDOM = "the numbers are drawn by another generator"
_LAST = "of values for one place the last stays, with the gradient; PyTorch gives it to all"
_FREE = "vectors are free in sign or phase; tests/external/test_linalg_with_torch.py fixes it"
# PyTorch's name, or its name and a dtype -> why the answers are not the same
DIFFERS: dict[str, str] = {
    "argsort-bool": _TIES,
    "empty": "the values are whatever the memory held",
    "empty_like": "the values are whatever the memory held",
    "equal": "ours is the Array API's, element by element; PyTorch's is one truth value",
    "histogram": "counts are integers, as NumPy's; tests/external/test_sorting_with_torch.py",
    "kthvalue-int64": _TIES,
    "linalg.cholesky-complex128": "the diagonal of the factor is real, hence so is its gradient",
    "linalg.eig": _FREE,
    "linalg.eigh": _FREE,
    "linalg.eigvalsh": "of the Hermitian part of the matrix; PyTorch reads one triangle of it",
    "linalg.lstsq": "residuals are always given; PyTorch's depend on driver and rank",
    "linalg.matrix_rank": "the tolerance is the Array API's rtol, relative to the largest value",
    "linalg.pinv": "the tolerance is the Array API's rtol, relative to the largest value",
    "linalg.svd": _FREE,
    "linspace-int64": "rounded to the nearest integer, as the Array API asks; PyTorch cuts off",
    "linalg.solve": "x2 is a vector only if it has one axis: the Array API; PyTorch guesses",
    "logcumsumexp-complex128": "the imaginary part is the principal one, in [-pi, pi]; PyTorch's "
    "runs on by multiples of 2 pi",
    "median": "the mean of two middle elements, as NumPy's; PyTorch takes the lower one",
    "nextafter-float64": "a step to the next float has no gradient; PyTorch gives none silently",
    "nn.functional.ctc_loss": "the gradient is that of log_probs as they are; PyTorch's is that of "
    "the logits before log_softmax",
    "nn.functional.dropout": _RANDOM,
    "nn.functional.hardsigmoid-float64": "PyTorch multiplies by 1/6 as a float32 in the gradient",
    "nn.functional.hardtanh-int64": "bounds that are no integers make floats, not other bounds",
    "nn.functional.max_unpool1d-float64": _LAST,
    "nn.functional.max_unpool2d-float64": _LAST,
    "nn.functional.max_unpool3d-float64": _LAST,
    "nn.functional.rrelu": _RANDOM,
    "nn.functional.triplet_margin_with_distance_loss": "the samples hand in functions of PyTorch",
    "randint_like": _RANDOM,
    "sort-bool": _TIES,
    "sinc-complex128": "ours is of real numbers only",
    "svd": _FREE,
    "topk-int64": _TIES,
    "unique": "ours is NumPy's, whose results are asked for by name",
}

# what Bedplate refuses by design where PyTorch takes it: how the refusal reads -> the reason
REFUSED: dict[str, str] = {
    r"axis -?\d+ is out of range\n  \w+ +\(\) ": "a 0-d value has no axes: the Array API",
    r"no such op for this dtype\n.* bool ": "truth values are no numbers: the Array API",
    r"the condition must be bool": "the condition of `where` is bool: the Array API",
    r"axis \d+ has size \d+, not 1": "`squeeze` takes only what has size 1: the Array API",
    r"gather: the index does not fit": "an index has as many axes as the value",
    r"batch_norm: x has too few axes": "a value of one axis has no channels",
    r"only floats (have a mean|can be normalised)": "integers have no mean of their own dtype",
    r"tensordot: axes .* do not fit": "sizes that are contracted are equal: the Array API",
    r"stride \[\] does not fit": "the kernel's size as stride is None, not an empty list",
    r"a loss does not broadcast": "PyTorch warns or goes on; here targets have the shape of x",
    r"nonzero: a 0-d value": "a 0-d value has no places: the Array API",
}
# PyTorch's words -> what the argument may be called here
WORDS = {
    "dim": ("axis", "axes"),
    "dim0": ("first",),
    "dim1": ("axis1", "second"),
    "dim2": ("axis2",),
    "dims": ("axes", "axis"),
    "keepdim": ("keepdims",),
}


def in_our_words(function: Callable[..., Any], named: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments under the names that the function has for them."""
    known = inspect.signature(function).parameters
    other = other_words(function)
    result = {}
    for word, value in named.items():
        if word not in known and word not in other:
            word = next((ours for ours in WORDS.get(word, ()) if ours in known), word)
        result[word] = value
    return result


def _named(name: str) -> Callable[..., Any] | None:
    """Our function under PyTorch's name, if there is one."""
    found: Any = F if name.startswith("nn.functional.") else bp
    for part in name.removeprefix("nn.functional.").split("."):
        found = getattr(found, part, None)
    return found if callable(found) and not inspect.isclass(found) else None


def _cases() -> Iterator[Any]:
    for info in op_db:
        ours = OURS.get(info.name) or _named(info.name)
        if ours is None or info.name in DIFFERS or info.variant_test_name:
            continue
        for dtype in DTYPES:
            name = f"{info.name}-{str(dtype)[6:]}"
            if info.supports_dtype(dtype, "cpu") and name not in DIFFERS:
                yield pytest.param(info, ours, dtype, id=name)


def ours_of(value: Any, twins: dict[int, Any]) -> Any:
    """A tensor, dtype or device of PyTorch as one of ours; what holds several, part by part.

    twins   our tensor for each of PyTorch's, by identity: one that comes twice stays one
    """
    if isinstance(value, torch.Tensor):
        if id(value) not in twins:
            array = value.detach().resolve_conj().resolve_neg().numpy()
            twins[id(value)] = bp.tensor(array.copy(), requires_grad=value.requires_grad)
        return twins[id(value)]
    if isinstance(value, torch.dtype):
        return getattr(bp, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return "cpu"
    if isinstance(value, list | tuple):
        return [ours_of(part, twins) for part in value]
    if isinstance(value, dict):
        return {name: ours_of(part, twins) for name, part in value.items()}
    return value


def tensors_in(value: Any, kind: type) -> list[Any]:
    """All tensors in an argument or a result, in order."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in tensors_in(part, kind)]
    return []


def samples(info: Any, dtype: torch.dtype, sweep: str) -> list[Any]:
    """The sample inputs, all of them in a full sweep."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        differentiable = dtype in GRADIENTS and info.supports_autograd
        found = list(info.sample_inputs("cpu", dtype, requires_grad=differentiable))
    if sweep == "full" or len(found) <= QUICK:
        return found
    return list(itertools.islice(found, 0, None, -(-len(found) // QUICK)))


def assert_same(ours: Any, theirs: torch.Tensor, what: str) -> None:
    got, wanted = ours.numpy(), theirs.detach().resolve_conj().resolve_neg().numpy()
    assert got.shape == wanted.shape, f"{what}: {got.shape}, PyTorch {wanted.shape}"
    scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)) if wanted.size else 1.0
    bound = TOLERANCE.get(str(wanted.dtype), 0.0)
    np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound * scale, err_msg=what)


def gradients(outputs: list[Any], inputs: list[Any], weights: list[np.ndarray[Any, Any]]) -> Any:
    """The gradient of the weighted sum of all outputs for each input that wants one."""
    make = torch.tensor if isinstance(outputs[0], torch.Tensor) else bp.tensor
    total: Any = 0
    for output, weight in zip(outputs, weights, strict=True):
        part = (output * make(weight)).sum()
        total = total + (part.real if weight.dtype.kind == "c" else part)
    for x in inputs:
        x.grad = None  # samples may share their tensors
    if total.requires_grad:
        total.backward()
    return [x.grad for x in inputs if x.requires_grad]


def compare(ours: Callable[..., Any], info: Any, sample: Any) -> None:
    """The values, and the gradients where there are any."""
    arguments = ours_of([[sample.input, *sample.args], sample.kwargs], {})
    mine = ours(*arguments[0], **in_our_words(ours, arguments[1]))
    theirs = info(sample.input, *sample.args, **sample.kwargs)
    found, wanted = tensors_in(mine, bp.Tensor), tensors_in(theirs, torch.Tensor)
    assert len(found) == len(wanted), f"{len(found)} results, PyTorch has {len(wanted)}"
    for number, (got, right) in enumerate(zip(found, wanted, strict=True)):
        assert_same(got, right, f"result {number}")
    pairs = [(got, right) for got, right in zip(found, wanted, strict=True) if right.requires_grad]
    if not pairs:
        return
    rng = np.random.default_rng(0)
    weights = [np.asarray(_weight(rng, right)) for _, right in pairs]
    kept = tensors_in(arguments, bp.Tensor)
    given = tensors_in([sample.input, *sample.args, sample.kwargs], torch.Tensor)
    mine = gradients([got for got, _ in pairs], kept, weights)
    theirs = gradients([right for _, right in pairs], given, weights)
    for number, (got, right) in enumerate(zip(mine, theirs, strict=True)):
        zero = right is None or got is None
        if not zero:
            assert_same(got, right, f"gradient {number}")
        else:
            assert all(g is None or not g.any() for g in (got, right)), f"gradient {number}"


def _weight(rng: np.random.Generator, right: torch.Tensor) -> Any:
    weight = rng.standard_normal(tuple(right.shape))
    return weight + 1j * rng.standard_normal(weight.shape) if right.is_complex() else weight


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("info", "ours", "dtype"), list(_cases()))
def test_agrees_with_torch(
    info: Any, ours: Callable[..., Any], dtype: torch.dtype, sweep: str
) -> None:
    for number, sample in enumerate(samples(info, dtype, sweep)):
        try:
            compare(ours, info, sample)
        except Exception as error:
            if any(re.search(pattern, str(error)) for pattern in REFUSED):
                continue
            raise AssertionError(f"sample {number}: {sample.summary()}\n{error}") from error
