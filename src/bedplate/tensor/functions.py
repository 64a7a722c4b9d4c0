"""The functions of all ops under their plain names, and as methods.

Written by tools/namespace.py."""

from bedplate.ops.attention.attention import attention
from bedplate.ops.attention.rope import rope, swiglu
from bedplate.ops.complex_numbers.parts import (
    as_complex,
    as_real,
    conj,
    imag,
    real,
    view_as_complex,
    view_as_real,
)
from bedplate.ops.complex_numbers.parts import complex_ as complex
from bedplate.ops.complex_numbers.polar import angle, polar
from bedplate.ops.convolution.convolution import conv1d, conv2d, conv3d
from bedplate.ops.convolution.transposed import conv_transpose1d, conv_transpose2d, conv_transpose3d
from bedplate.ops.custom_kernel import kernel_output, run_kernel
from bedplate.ops.image.patches import sliding_window_view
from bedplate.ops.image.unfolding import unfold
from bedplate.ops.indexing.gather import embedding, gather, index_select, take, take_along_axis
from bedplate.ops.indexing.indexed import (
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
from bedplate.ops.indexing.searching import argwhere, count_nonzero, masked_select, nonzero
from bedplate.ops.indexing.update_slice import update_slice
from bedplate.ops.linalg.determinants import logdet
from bedplate.ops.linalg.diagonals import block_diag, diag, diag_embed
from bedplate.ops.linalg.diagonals import diagonal_ as diagonal
from bedplate.ops.linalg.diagonals import trace_ as trace
from bedplate.ops.linalg.einsum import einsum
from bedplate.ops.linalg.products import cross, dot, inner, kron, outer, tensordot, vdot, vecdot
from bedplate.ops.losses.classes import cross_entropy
from bedplate.ops.losses.regression import mse_loss
from bedplate.ops.matmul.matmul import matmul
from bedplate.ops.normalisation.norms import layer_norm, rms_norm
from bedplate.ops.pointwise.activations import erf, gelu, relu, sigmoid, silu, softplus
from bedplate.ops.pointwise.arithmetic import (
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
from bedplate.ops.pointwise.arithmetic import abs_ as abs
from bedplate.ops.pointwise.bits import (
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
)
from bedplate.ops.pointwise.comparison import (
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
from bedplate.ops.pointwise.convert import astype, where
from bedplate.ops.pointwise.exponential import (
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
from bedplate.ops.pointwise.exponential import pow_ as pow
from bedplate.ops.pointwise.extremes import clip, maximum, minimum
from bedplate.ops.pointwise.floats import copysign, hypot, nextafter, signbit
from bedplate.ops.pointwise.rounding import ceil, floor, trunc
from bedplate.ops.pointwise.rounding import round_ as round
from bedplate.ops.pointwise.safe_inverse import safe_inv
from bedplate.ops.pointwise.trigonometry import (
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
from bedplate.ops.reduction.positions import argmax, argmin
from bedplate.ops.reduction.reduce import prod
from bedplate.ops.reduction.reduce import all_ as all
from bedplate.ops.reduction.reduce import any_ as any
from bedplate.ops.reduction.reduce import max_ as max
from bedplate.ops.reduction.reduce import min_ as min
from bedplate.ops.reduction.reduce import sum_ as sum
from bedplate.ops.reduction.softmax import log_softmax, logsumexp, softmax
from bedplate.ops.reduction.statistics import mean, std, var
from bedplate.ops.scan.cumulative import (
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    logcumsumexp,
)
from bedplate.ops.scan.extremes import cummax, cummin
from bedplate.ops.scan.recurrence import linear_recurrence
from bedplate.ops.shape.creation import (
    empty_like,
    full_like,
    one_hot,
    ones_like,
    tril,
    triu,
    zeros_like,
)
from bedplate.ops.shape.rearrange import broadcast_arrays, diff, meshgrid, repeat, roll, tile
from bedplate.ops.shape.regions import chunk, concat, flip, narrow, pad, split, stack, unstack
from bedplate.ops.shape.views import (
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
from bedplate.ops.sorting.counting import bincount, histc, histogram
from bedplate.ops.sorting.order_statistics import median, quantile
from bedplate.ops.sorting.searchsorted import bucketize, isin, searchsorted
from bedplate.ops.sorting.sets import (
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from bedplate.ops.sorting.sorting import argsort, kthvalue, sort, topk
from bedplate.ops.special.bessel import sinc
from bedplate.ops.special.error_functions import erfc
from bedplate.ops.special.gamma_functions import lgamma
from bedplate.ops.special.normal_quantile import normal_quantile
from bedplate.ops.operators import Operators
from bedplate.ops.public import public

attention = public(attention, __name__)
rope = public(rope, __name__)
as_complex = public(as_complex, __name__)
as_real = public(as_real, __name__)
complex = public(complex, __name__)
conj = public(conj, __name__)
real = public(real, __name__)
view_as_complex = public(view_as_complex, __name__)
view_as_real = public(view_as_real, __name__)
angle = public(angle, __name__)
polar = public(polar, __name__)
conv1d = public(conv1d, __name__)
conv2d = public(conv2d, __name__)
conv3d = public(conv3d, __name__)
conv_transpose1d = public(conv_transpose1d, __name__)
conv_transpose2d = public(conv_transpose2d, __name__)
conv_transpose3d = public(conv_transpose3d, __name__)
kernel_output = public(kernel_output, __name__)
run_kernel = public(run_kernel, __name__)
sliding_window_view = public(sliding_window_view, __name__)
unfold = public(unfold, __name__)
embedding = public(embedding, __name__)
gather = public(gather, __name__)
index_select = public(index_select, __name__)
take = public(take, __name__)
take_along_axis = public(take_along_axis, __name__)
index_add = public(index_add, __name__)
index_copy = public(index_copy, __name__)
index_fill = public(index_fill, __name__)
index_put = public(index_put, __name__)
index_reduce = public(index_reduce, __name__)
masked_fill = public(masked_fill, __name__)
masked_scatter = public(masked_scatter, __name__)
put_along_axis = public(put_along_axis, __name__)
scatter = public(scatter, __name__)
scatter_add = public(scatter_add, __name__)
scatter_reduce = public(scatter_reduce, __name__)
argwhere = public(argwhere, __name__)
count_nonzero = public(count_nonzero, __name__)
masked_select = public(masked_select, __name__)
nonzero = public(nonzero, __name__)
update_slice = public(update_slice, __name__)
logdet = public(logdet, __name__)
block_diag = public(block_diag, __name__)
diag = public(diag, __name__)
diag_embed = public(diag_embed, __name__)
diagonal = public(diagonal, __name__)
trace = public(trace, __name__)
einsum = public(einsum, __name__)
cross = public(cross, __name__)
dot = public(dot, __name__)
inner = public(inner, __name__)
kron = public(kron, __name__)
outer = public(outer, __name__)
tensordot = public(tensordot, __name__)
vdot = public(vdot, __name__)
vecdot = public(vecdot, __name__)
cross_entropy = public(cross_entropy, __name__)
mse_loss = public(mse_loss, __name__)
matmul = public(matmul, __name__)
layer_norm = public(layer_norm, __name__)
rms_norm = public(rms_norm, __name__)
gelu = public(gelu, __name__)
softplus = public(softplus, __name__)
positive = public(positive, __name__)
bitwise_left_shift = public(bitwise_left_shift, __name__)
bitwise_right_shift = public(bitwise_right_shift, __name__)
astype = public(astype, __name__)
where = public(where, __name__)
pow = public(pow, __name__)
clip = public(clip, __name__)
nextafter = public(nextafter, __name__)
safe_inv = public(safe_inv, __name__)
argmax = public(argmax, __name__)
argmin = public(argmin, __name__)
all = public(all, __name__)
any = public(any, __name__)
max = public(max, __name__)
min = public(min, __name__)
prod = public(prod, __name__)
sum = public(sum, __name__)
log_softmax = public(log_softmax, __name__)
logsumexp = public(logsumexp, __name__)
softmax = public(softmax, __name__)
mean = public(mean, __name__)
std = public(std, __name__)
var = public(var, __name__)
cumprod = public(cumprod, __name__)
cumsum = public(cumsum, __name__)
cumulative_prod = public(cumulative_prod, __name__)
cumulative_sum = public(cumulative_sum, __name__)
logcumsumexp = public(logcumsumexp, __name__)
cummax = public(cummax, __name__)
cummin = public(cummin, __name__)
linear_recurrence = public(linear_recurrence, __name__)
empty_like = public(empty_like, __name__)
full_like = public(full_like, __name__)
one_hot = public(one_hot, __name__)
ones_like = public(ones_like, __name__)
tril = public(tril, __name__)
triu = public(triu, __name__)
zeros_like = public(zeros_like, __name__)
broadcast_arrays = public(broadcast_arrays, __name__)
diff = public(diff, __name__)
meshgrid = public(meshgrid, __name__)
repeat = public(repeat, __name__)
roll = public(roll, __name__)
tile = public(tile, __name__)
chunk = public(chunk, __name__)
concat = public(concat, __name__)
flip = public(flip, __name__)
narrow = public(narrow, __name__)
pad = public(pad, __name__)
split = public(split, __name__)
stack = public(stack, __name__)
unstack = public(unstack, __name__)
broadcast_to = public(broadcast_to, __name__)
expand_dims = public(expand_dims, __name__)
flatten = public(flatten, __name__)
matrix_transpose = public(matrix_transpose, __name__)
moveaxis = public(moveaxis, __name__)
permute = public(permute, __name__)
permute_dims = public(permute_dims, __name__)
reshape = public(reshape, __name__)
squeeze = public(squeeze, __name__)
swapaxes = public(swapaxes, __name__)
transpose = public(transpose, __name__)
bincount = public(bincount, __name__)
histc = public(histc, __name__)
histogram = public(histogram, __name__)
median = public(median, __name__)
quantile = public(quantile, __name__)
bucketize = public(bucketize, __name__)
isin = public(isin, __name__)
searchsorted = public(searchsorted, __name__)
unique = public(unique, __name__)
unique_all = public(unique_all, __name__)
unique_counts = public(unique_counts, __name__)
unique_inverse = public(unique_inverse, __name__)
unique_values = public(unique_values, __name__)
argsort = public(argsort, __name__)
kthvalue = public(kthvalue, __name__)
sort = public(sort, __name__)
topk = public(topk, __name__)
lgamma = public(lgamma, __name__)


class Methods(Operators):
    """The functions of the top level as methods."""

    __slots__ = ()

    abs = abs
    acos = acos
    acosh = acosh
    add = add
    all = all
    amax = max
    amin = min
    angle = angle
    any = any
    argmax = argmax
    argmin = argmin
    argsort = argsort
    argwhere = argwhere
    as_complex = as_complex
    as_real = as_real
    asin = asin
    asinh = asinh
    astype = astype
    atan = atan
    atanh = atanh
    bincount = bincount
    bitwise_and = bitwise_and
    bitwise_invert = bitwise_invert
    bitwise_left_shift = bitwise_left_shift
    bitwise_or = bitwise_or
    bitwise_right_shift = bitwise_right_shift
    bitwise_xor = bitwise_xor
    broadcast_to = broadcast_to
    bucketize = bucketize
    ceil = ceil
    chunk = chunk
    clamp = clip
    clip = clip
    conj = conj
    conv1d = conv1d
    conv2d = conv2d
    conv3d = conv3d
    conv_transpose1d = conv_transpose1d
    conv_transpose2d = conv_transpose2d
    conv_transpose3d = conv_transpose3d
    copysign = copysign
    cos = cos
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
    div = divide
    divide = divide
    dot = dot
    equal = equal
    erf = erf
    erfc = erfc
    exp = exp
    exp2 = exp2
    expand = broadcast_to
    expand_dims = expand_dims
    expm1 = expm1
    flatten = flatten
    flip = flip
    floor = floor
    floor_divide = floor_divide
    fmod = fmod
    gather = gather
    gelu = gelu
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
    isfinite = isfinite
    isin = isin
    isinf = isinf
    isnan = isnan
    kron = kron
    kthvalue = kthvalue
    layer_norm = layer_norm
    less = less
    less_equal = less_equal
    lgamma = lgamma
    linear_recurrence = linear_recurrence
    log = log
    log10 = log10
    log1p = log1p
    log2 = log2
    log_softmax = log_softmax
    logaddexp = logaddexp
    logcumsumexp = logcumsumexp
    logdet = logdet
    logical_and = logical_and
    logical_not = logical_not
    logical_or = logical_or
    logical_xor = logical_xor
    logsumexp = logsumexp
    masked_fill = masked_fill
    masked_scatter = masked_scatter
    masked_select = masked_select
    matmul = matmul
    matrix_transpose = matrix_transpose
    max = max
    maximum = maximum
    mean = mean
    median = median
    min = min
    minimum = minimum
    moveaxis = moveaxis
    mse_loss = mse_loss
    mul = multiply
    multiply = multiply
    narrow = narrow
    neg = negative
    negative = negative
    nextafter = nextafter
    nonzero = nonzero
    not_equal = not_equal
    outer = outer
    pad = pad
    permute = permute
    permute_dims = permute_dims
    positive = positive
    pow = pow
    prod = prod
    put_along_axis = put_along_axis
    quantile = quantile
    reciprocal = reciprocal
    relu = relu
    remainder = remainder
    repeat = repeat
    reshape = reshape
    rms_norm = rms_norm
    roll = roll
    rope = rope
    round = round
    rsqrt = rsqrt
    safe_inv = safe_inv
    scatter = scatter
    scatter_add = scatter_add
    scatter_reduce = scatter_reduce
    searchsorted = searchsorted
    sigmoid = sigmoid
    sign = sign
    signbit = signbit
    silu = silu
    sin = sin
    sinc = sinc
    sinh = sinh
    sliding_window_view = sliding_window_view
    softmax = softmax
    softplus = softplus
    sort = sort
    split = split
    sqrt = sqrt
    square = square
    squeeze = squeeze
    std = std
    sub = subtract
    subtract = subtract
    sum = sum
    swapaxes = swapaxes
    take = take
    take_along_axis = take_along_axis
    tan = tan
    tanh = tanh
    tensordot = tensordot
    tile = tile
    topk = topk
    trace = trace
    transpose = transpose
    tril = tril
    triu = triu
    trunc = trunc
    unbind = unstack
    unfold = unfold
    unique = unique
    unique_all = unique_all
    unique_counts = unique_counts
    unique_inverse = unique_inverse
    unique_values = unique_values
    unsqueeze = expand_dims
    unstack = unstack
    update_slice = update_slice
    var = var
    vdot = vdot
    vecdot = vecdot
    view = reshape
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
    "update_slice",
    "var",
    "vdot",
    "vecdot",
    "view_as_complex",
    "view_as_real",
    "where",
    "zeros_like",
]
