"""Losses and distances as modules: a row each, with the settings of the function it names."""

from __future__ import annotations

from bedplate.nn import functional
from bedplate.nn.wrapped import Wrapped


class L1Loss(Wrapped):
    """mean(|x - target|)."""

    function = staticmethod(functional.l1_loss)
    n_inputs = 2


class MSELoss(Wrapped):
    """mean((x - target)^2)."""

    function = staticmethod(functional.mse_loss)
    n_inputs = 2


class SmoothL1Loss(Wrapped):
    """Absolute, but squared near 0."""

    function = staticmethod(functional.smooth_l1_loss)
    n_inputs = 2


class HuberLoss(Wrapped):
    """Squared near 0, absolute far out."""

    function = staticmethod(functional.huber_loss)
    n_inputs = 2


class KLDivLoss(Wrapped):
    """target (log(target) - x) of log-probabilities x."""

    function = staticmethod(functional.kl_div)
    n_inputs = 2


class PoissonNLLLoss(Wrapped):
    """The negative log likelihood of counts."""

    function = staticmethod(functional.poisson_nll_loss)
    n_inputs = 2


class GaussianNLLLoss(Wrapped):
    """The negative log likelihood of normal numbers: of (x, target, var)."""

    function = staticmethod(functional.gaussian_nll_loss)
    n_inputs = 3


class CrossEntropyLoss(Wrapped):
    """The negative log likelihood of classes, from logits (N, n_classes, ...)."""

    function = staticmethod(functional.cross_entropy)
    n_inputs = 2


class NLLLoss(Wrapped):
    """The negative log likelihood of classes, from log-probabilities (N, n_classes, ...)."""

    function = staticmethod(functional.nll_loss)
    n_inputs = 2


class BCELoss(Wrapped):
    """Binary cross-entropy of probabilities."""

    function = staticmethod(functional.binary_cross_entropy)
    n_inputs = 2


class BCEWithLogitsLoss(Wrapped):
    """Binary cross-entropy of logits."""

    function = staticmethod(functional.binary_cross_entropy_with_logits)
    n_inputs = 2


class SoftMarginLoss(Wrapped):
    """log(1 + exp(-target x)) of signs."""

    function = staticmethod(functional.soft_margin_loss)
    n_inputs = 2


class MultiLabelSoftMarginLoss(Wrapped):
    """The mean over the classes of binary cross-entropies of logits."""

    function = staticmethod(functional.multilabel_soft_margin_loss)
    n_inputs = 2


class MultiMarginLoss(Wrapped):
    """The class of each row must win by a margin."""

    function = staticmethod(functional.multi_margin_loss)
    n_inputs = 2


class MultiLabelMarginLoss(Wrapped):
    """Each class of a row must beat each other class by 1."""

    function = staticmethod(functional.multilabel_margin_loss)
    n_inputs = 2


class CosineEmbeddingLoss(Wrapped):
    """Vectors should agree or not: of (x1, x2, target)."""

    function = staticmethod(functional.cosine_embedding_loss)
    n_inputs = 3


class MarginRankingLoss(Wrapped):
    """One should rank above the other: of (x1, x2, target)."""

    function = staticmethod(functional.margin_ranking_loss)
    n_inputs = 3


class HingeEmbeddingLoss(Wrapped):
    """A distance should be small or large."""

    function = staticmethod(functional.hinge_embedding_loss)
    n_inputs = 2


class TripletMarginLoss(Wrapped):
    """The positive should be nearer by a margin: of (anchor, positive, negative)."""

    function = staticmethod(functional.triplet_margin_loss)
    n_inputs = 3


class TripletMarginWithDistanceLoss(Wrapped):
    """The same by a distance of one's own."""

    function = staticmethod(functional.triplet_margin_with_distance_loss)
    n_inputs = 3


class CosineSimilarity(Wrapped):
    """The cosine of the angle between vectors: of (x, other)."""

    function = staticmethod(functional.cosine_similarity)
    n_inputs = 2


class PairwiseDistance(Wrapped):
    """The length of the difference along the last axis: of (x1, x2)."""

    function = staticmethod(functional.pairwise_distance)
    n_inputs = 2


class CTCLoss(Wrapped):
    """All ways to stretch labels over time: of (log_probs, targets, input and target lengths)."""

    function = staticmethod(functional.ctc_loss)
    n_inputs = 4
