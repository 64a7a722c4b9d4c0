"""The functions of all ops under their plain names, and as methods.

Written by tools/namespace.py."""

from bedplate.ops.activations import erf, gelu, relu, sigmoid, silu, softplus
from bedplate.ops.arithmetic import (
    add,
    divide,
    floor_divide,
    fmod,
    multiply,
    negative,
    positive,
    reciprocal,
    remainder,
    sign,
    square,
    subtract,
)
from bedplate.ops.arithmetic import abs_ as abs
from bedplate.ops.attention import attention
from bedplate.ops.bessel import sinc
from bedplate.ops.bits import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from bedplate.ops.comparison import (
    equal,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from bedplate.ops.complex_parts import (
    as_complex,
    as_real,
    conj,
    imag,
    real,
    view_as_complex,
    view_as_real,
)
from bedplate.ops.complex_parts import complex_ as complex
from bedplate.ops.complex_polar import angle, polar
from bedplate.ops.convert import astype, where
from bedplate.ops.convolution import conv1d, conv2d, conv3d
from bedplate.ops.convolution_transposed import conv_transpose1d, conv_transpose2d, conv_transpose3d
from bedplate.ops.counting import bincount, histc, histogram
from bedplate.ops.creation import empty_like, full_like, one_hot, ones_like, tril, triu, zeros_like
from bedplate.ops.cumulative import cumprod, cumsum, cumulative_prod, cumulative_sum, logcumsumexp
from bedplate.ops.cumulative_extremes import cummax, cummin
from bedplate.ops.custom_kernel import kernel_output, run_kernel
from bedplate.ops.einsum import einsum
from bedplate.ops.error_functions import erfc
from bedplate.ops.exponential import (
    exp,
    exp2,
    expm1,
    log,
    log10,
    log1p,
    log2,
    logaddexp,
    rsqrt,
    sqrt,
)
from bedplate.ops.exponential import pow_ as pow
from bedplate.ops.extremes import clip, maximum, minimum
from bedplate.ops.floats import copysign, hypot, nextafter, signbit
from bedplate.ops.gamma_functions import lgamma
from bedplate.ops.gather import embedding, gather, index_select, take, take_along_axis
from bedplate.ops.indexed import (
    index_add,
    index_copy,
    index_fill,
    index_put,
    index_reduce,
    masked_fill,
    masked_scatter,
    put_along_axis,
    scatter,
    scatter_add,
    scatter_reduce,
)
from bedplate.ops.linalg_determinants import logdet
from bedplate.ops.linalg_diagonals import block_diag, diag, diag_embed
from bedplate.ops.linalg_diagonals import diagonal_ as diagonal
from bedplate.ops.linalg_diagonals import trace_ as trace
from bedplate.ops.linalg_products import cross, dot, inner, kron, outer, tensordot, vdot, vecdot
from bedplate.ops.losses import cross_entropy
from bedplate.ops.matmul import matmul
from bedplate.ops.norms import layer_norm, rms_norm
from bedplate.ops.order_statistics import median, quantile
from bedplate.ops.patches import sliding_window_view
from bedplate.ops.positions import argmax, argmin
from bedplate.ops.quantile import normal_quantile
from bedplate.ops.rearrange import broadcast_arrays, diff, meshgrid, repeat, roll, tile
from bedplate.ops.recurrence import linear_recurrence
from bedplate.ops.reduce import prod
from bedplate.ops.reduce import all_ as all
from bedplate.ops.reduce import any_ as any
from bedplate.ops.reduce import max_ as max
from bedplate.ops.reduce import min_ as min
from bedplate.ops.reduce import sum_ as sum
from bedplate.ops.regions import chunk, concat, flip, narrow, pad, split, stack, unstack
from bedplate.ops.regression_losses import mse_loss
from bedplate.ops.rope import rope, swiglu
from bedplate.ops.rounding import ceil, floor, trunc
from bedplate.ops.rounding import round_ as round
from bedplate.ops.safe_inverse import safe_inv
from bedplate.ops.searching import argwhere, count_nonzero, masked_select, nonzero
from bedplate.ops.searchsorted import bucketize, isin, searchsorted
from bedplate.ops.sets import unique, unique_all, unique_counts, unique_inverse, unique_values
from bedplate.ops.softmax import log_softmax, logsumexp, softmax
from bedplate.ops.sorting import argsort, kthvalue, sort, topk
from bedplate.ops.statistics import mean, std, var
from bedplate.ops.trigonometry import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
)
from bedplate.ops.unfolding import unfold
from bedplate.ops.views import (
    broadcast_to,
    expand_dims,
    flatten,
    matrix_transpose,
    moveaxis,
    permute,
    permute_dims,
    reshape,
    squeeze,
    swapaxes,
    transpose,
)
from bedplate.ops.operators import Operators


class Methods(Operators):
    """The functions of the top level as methods."""

    __slots__ = ()

    acos = acos
    acosh = acosh
    angle = angle
    argsort = argsort
    argwhere = argwhere
    as_complex = as_complex
    as_real = as_real
    asin = asin
    asinh = asinh
    atan = atan
    atanh = atanh
    bincount = bincount
    bitwise_and = bitwise_and
    bitwise_invert = bitwise_invert
    bitwise_left_shift = bitwise_left_shift
    bitwise_or = bitwise_or
    bitwise_right_shift = bitwise_right_shift
    bitwise_xor = bitwise_xor
    bucketize = bucketize
    conj = conj
    conv1d = conv1d
    conv2d = conv2d
    conv3d = conv3d
    conv_transpose1d = conv_transpose1d
    conv_transpose2d = conv_transpose2d
    conv_transpose3d = conv_transpose3d
    copysign = copysign
    cosh = cosh
    count_nonzero = count_nonzero
    cross = cross
    cummax = cummax
    cummin = cummin
    cumprod = cumprod
    cumsum = cumsum
    cumulative_prod = cumulative_prod
    cumulative_sum = cumulative_sum
    diag = diag
    diag_embed = diag_embed
    diagonal = diagonal
    diff = diff
    dot = dot
    equal = equal
    erfc = erfc
    fmod = fmod
    gather = gather
    greater = greater
    greater_equal = greater_equal
    histc = histc
    histogram = histogram
    hypot = hypot
    index_add = index_add
    index_copy = index_copy
    index_fill = index_fill
    index_put = index_put
    index_reduce = index_reduce
    index_select = index_select
    inner = inner
    isin = isin
    kron = kron
    kthvalue = kthvalue
    layer_norm = layer_norm
    less = less
    less_equal = less_equal
    lgamma = lgamma
    linear_recurrence = linear_recurrence
    logaddexp = logaddexp
    logcumsumexp = logcumsumexp
    logdet = logdet
    logical_xor = logical_xor
    masked_fill = masked_fill
    masked_scatter = masked_scatter
    masked_select = masked_select
    matrix_transpose = matrix_transpose
    median = median
    mse_loss = mse_loss
    nextafter = nextafter
    nonzero = nonzero
    not_equal = not_equal
    outer = outer
    pad = pad
    permute_dims = permute_dims
    positive = positive
    put_along_axis = put_along_axis
    quantile = quantile
    repeat = repeat
    rms_norm = rms_norm
    roll = roll
    rope = rope
    safe_inv = safe_inv
    scatter = scatter
    scatter_add = scatter_add
    scatter_reduce = scatter_reduce
    searchsorted = searchsorted
    signbit = signbit
    sinc = sinc
    sinh = sinh
    sliding_window_view = sliding_window_view
    sort = sort
    tensordot = tensordot
    tile = tile
    topk = topk
    trace = trace
    unfold = unfold
    unique = unique
    unique_all = unique_all
    unique_counts = unique_counts
    unique_inverse = unique_inverse
    unique_values = unique_values
    vdot = vdot
    vecdot = vecdot
    view_as_complex = view_as_complex
    view_as_real = view_as_real


__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "angle",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_complex",
    "as_real",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "attention",
    "bincount",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block_diag",
    "broadcast_arrays",
    "broadcast_to",
    "bucketize",
    "ceil",
    "chunk",
    "clip",
    "complex",
    "concat",
    "conj",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cross",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diag",
    "diag_embed",
    "diagonal",
    "diff",
    "divide",
    "dot",
    "einsum",
    "embedding",
    "empty_like",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "fmod",
    "full_like",
    "gather",
    "gelu",
    "greater",
    "greater_equal",
    "histc",
    "histogram",
    "hypot",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "inner",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "kernel_output",
    "kron",
    "kthvalue",
    "layer_norm",
    "less",
    "less_equal",
    "lgamma",
    "linear_recurrence",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax",
    "logaddexp",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "mse_loss",
    "multiply",
    "narrow",
    "negative",
    "nextafter",
    "nonzero",
    "normal_quantile",
    "not_equal",
    "one_hot",
    "ones_like",
    "outer",
    "pad",
    "permute",
    "permute_dims",
    "polar",
    "positive",
    "pow",
    "prod",
    "put_along_axis",
    "quantile",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "rms_norm",
    "roll",
    "rope",
    "round",
    "rsqrt",
    "run_kernel",
    "safe_inv",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinc",
    "sinh",
    "sliding_window_view",
    "softmax",
    "softplus",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "swiglu",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "unfold",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "var",
    "vdot",
    "vecdot",
    "view_as_complex",
    "view_as_real",
    "where",
    "zeros_like",
]
