"""Functions of neural networks that are ops.

Written by tools/namespace.py."""

from bedplate.ops.convolution.convolution import conv1d, conv2d, conv3d
from bedplate.ops.convolution.transposed import conv_transpose1d, conv_transpose2d, conv_transpose3d
from bedplate.ops.image.grid_sampling import affine_grid, grid_sample
from bedplate.ops.image.padding import pad_ as pad
from bedplate.ops.image.patches import fold, unfold
from bedplate.ops.image.resampling import interpolate
from bedplate.ops.image.shuffles import channel_shuffle, pixel_shuffle, pixel_unshuffle
from bedplate.ops.indexing.embedding_bag import embedding_bag
from bedplate.ops.indexing.gather import embedding
from bedplate.ops.indexing.indexed import one_hot
from bedplate.ops.losses.binary import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    soft_margin_loss,
)
from bedplate.ops.losses.classes import cross_entropy, nll_loss
from bedplate.ops.losses.ctc import ctc_loss
from bedplate.ops.losses.ranking import (
    cosine_embedding_loss,
    cosine_similarity,
    hinge_embedding_loss,
    margin_ranking_loss,
    pairwise_distance,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from bedplate.ops.losses.regression import (
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from bedplate.ops.matmul.quantised import quantised_linear
from bedplate.ops.normalisation.normalisation import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from bedplate.ops.pointwise.activations import (
    gelu,
    glu,
    logsigmoid,
    mish,
    relu,
    sigmoid,
    silu,
    softplus,
    softsign,
    tanhshrink,
)
from bedplate.ops.pointwise.piecewise import (
    celu,
    elu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    prelu,
    relu6,
    selu,
    softshrink,
    threshold,
)
from bedplate.ops.pointwise.trigonometry import tanh
from bedplate.ops.pooling.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from bedplate.ops.pooling.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from bedplate.ops.pooling.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from bedplate.ops.reduction.softmax import log_softmax, logsumexp, softmax, softmin
from bedplate.ops.public import public

conv1d = public(conv1d, __name__)
conv2d = public(conv2d, __name__)
conv3d = public(conv3d, __name__)
conv_transpose1d = public(conv_transpose1d, __name__)
conv_transpose2d = public(conv_transpose2d, __name__)
conv_transpose3d = public(conv_transpose3d, __name__)
affine_grid = public(affine_grid, __name__)
grid_sample = public(grid_sample, __name__)
pad = public(pad, __name__)
fold = public(fold, __name__)
unfold = public(unfold, __name__)
interpolate = public(interpolate, __name__)
channel_shuffle = public(channel_shuffle, __name__)
pixel_shuffle = public(pixel_shuffle, __name__)
pixel_unshuffle = public(pixel_unshuffle, __name__)
embedding_bag = public(embedding_bag, __name__)
embedding = public(embedding, __name__)
one_hot = public(one_hot, __name__)
binary_cross_entropy = public(binary_cross_entropy, __name__)
binary_cross_entropy_with_logits = public(binary_cross_entropy_with_logits, __name__)
multi_margin_loss = public(multi_margin_loss, __name__)
multilabel_margin_loss = public(multilabel_margin_loss, __name__)
multilabel_soft_margin_loss = public(multilabel_soft_margin_loss, __name__)
soft_margin_loss = public(soft_margin_loss, __name__)
cross_entropy = public(cross_entropy, __name__)
nll_loss = public(nll_loss, __name__)
ctc_loss = public(ctc_loss, __name__)
cosine_embedding_loss = public(cosine_embedding_loss, __name__)
cosine_similarity = public(cosine_similarity, __name__)
hinge_embedding_loss = public(hinge_embedding_loss, __name__)
margin_ranking_loss = public(margin_ranking_loss, __name__)
pairwise_distance = public(pairwise_distance, __name__)
triplet_margin_loss = public(triplet_margin_loss, __name__)
triplet_margin_with_distance_loss = public(triplet_margin_with_distance_loss, __name__)
gaussian_nll_loss = public(gaussian_nll_loss, __name__)
huber_loss = public(huber_loss, __name__)
kl_div = public(kl_div, __name__)
l1_loss = public(l1_loss, __name__)
mse_loss = public(mse_loss, __name__)
poisson_nll_loss = public(poisson_nll_loss, __name__)
smooth_l1_loss = public(smooth_l1_loss, __name__)
quantised_linear = public(quantised_linear, __name__)
batch_norm = public(batch_norm, __name__)
group_norm = public(group_norm, __name__)
instance_norm = public(instance_norm, __name__)
layer_norm = public(layer_norm, __name__)
local_response_norm = public(local_response_norm, __name__)
normalize = public(normalize, __name__)
rms_norm = public(rms_norm, __name__)
gelu = public(gelu, __name__)
glu = public(glu, __name__)
logsigmoid = public(logsigmoid, __name__)
mish = public(mish, __name__)
softplus = public(softplus, __name__)
softsign = public(softsign, __name__)
tanhshrink = public(tanhshrink, __name__)
celu = public(celu, __name__)
elu = public(elu, __name__)
hardshrink = public(hardshrink, __name__)
hardsigmoid = public(hardsigmoid, __name__)
hardswish = public(hardswish, __name__)
hardtanh = public(hardtanh, __name__)
leaky_relu = public(leaky_relu, __name__)
prelu = public(prelu, __name__)
relu6 = public(relu6, __name__)
selu = public(selu, __name__)
softshrink = public(softshrink, __name__)
threshold = public(threshold, __name__)
adaptive_avg_pool1d = public(adaptive_avg_pool1d, __name__)
adaptive_avg_pool2d = public(adaptive_avg_pool2d, __name__)
adaptive_avg_pool3d = public(adaptive_avg_pool3d, __name__)
adaptive_max_pool1d = public(adaptive_max_pool1d, __name__)
adaptive_max_pool2d = public(adaptive_max_pool2d, __name__)
adaptive_max_pool3d = public(adaptive_max_pool3d, __name__)
avg_pool1d = public(avg_pool1d, __name__)
avg_pool2d = public(avg_pool2d, __name__)
avg_pool3d = public(avg_pool3d, __name__)
lp_pool1d = public(lp_pool1d, __name__)
lp_pool2d = public(lp_pool2d, __name__)
lp_pool3d = public(lp_pool3d, __name__)
max_pool1d = public(max_pool1d, __name__)
max_pool2d = public(max_pool2d, __name__)
max_pool3d = public(max_pool3d, __name__)
max_unpool1d = public(max_unpool1d, __name__)
max_unpool2d = public(max_unpool2d, __name__)
max_unpool3d = public(max_unpool3d, __name__)
log_softmax = public(log_softmax, __name__)
logsumexp = public(logsumexp, __name__)
softmax = public(softmax, __name__)
softmin = public(softmin, __name__)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "elu",
    "embedding",
    "embedding_bag",
    "fold",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "logsumexp",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "quantised_linear",
    "relu",
    "relu6",
    "rms_norm",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
]
