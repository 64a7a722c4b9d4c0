"""Functions of SciPy and scikit-learn that take any array: on tensors they give tensors.

A program of its own, since both read an environment variable when they are imported:

    SCIPY_ARRAY_API=1 python -m tests.standard.libraries_program scipy

Prints what is wrong, a line each, and at the end how many functions were called.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.optimize
import scipy.signal
import scipy.spatial.distance
import scipy.special
import scipy.stats
import sklearn
from sklearn import metrics
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
)

import bedplate as bp

Case = Callable[..., Any]
RANDOM = np.random.default_rng(0)
TABLE, OTHER = RANDOM.random((20, 3)), RANDOM.random((20, 3))
SIGNAL, SHORT = RANDOM.random(40), RANDOM.random(7)
LABELS = np.asarray(TABLE[:, 0] + 0.1 * OTHER[:, 1] > 0.5).astype(np.int64)
GUESSES = np.asarray(TABLE[:, 0] > 0.5).astype(np.int64)

SCIPY: dict[str, tuple[Case, tuple[Any, ...]]] = {
    "special.logsumexp": (scipy.special.logsumexp, (TABLE,)),
    "special.softmax": (lambda x: scipy.special.softmax(x, axis=1), (TABLE,)),
    "special.log_softmax": (lambda x: scipy.special.log_softmax(x, axis=1), (TABLE,)),
    "special.expit": (scipy.special.expit, (SIGNAL,)),
    "special.xlogy": (scipy.special.xlogy, (TABLE, OTHER)),
    "special.rel_entr": (scipy.special.rel_entr, (TABLE, OTHER)),
    "stats.zscore": (scipy.stats.zscore, (TABLE,)),
    "stats.skew": (scipy.stats.skew, (TABLE,)),
    "stats.kurtosis": (scipy.stats.kurtosis, (TABLE,)),
    "stats.gmean": (scipy.stats.gmean, (TABLE,)),
    "stats.ttest_ind": (lambda x, y: tuple(scipy.stats.ttest_ind(x, y)), (TABLE, OTHER)),
    "stats.pearsonr": (
        lambda x, y: scipy.stats.pearsonr(x, y).statistic,
        (TABLE[:, 0], TABLE[:, 1]),
    ),
    "stats.entropy": (scipy.stats.entropy, (TABLE,)),
    "stats.rankdata": (scipy.stats.rankdata, (SIGNAL,)),
    "signal.fftconvolve": (scipy.signal.fftconvolve, (SIGNAL, SHORT)),
    "signal.correlate": (scipy.signal.correlate, (SIGNAL, SHORT)),
    "signal.detrend": (scipy.signal.detrend, (SIGNAL,)),
    "signal.hilbert": (scipy.signal.hilbert, (SIGNAL,)),
    "signal.resample": (lambda x: scipy.signal.resample(x, 16), (SIGNAL,)),
    "integrate.trapezoid": (scipy.integrate.trapezoid, (SIGNAL,)),
    "integrate.cumulative_trapezoid": (scipy.integrate.cumulative_trapezoid, (SIGNAL,)),
    "fft.rfft": (scipy.fft.rfft, (SIGNAL,)),
    "cluster.vq.whiten": (scipy.cluster.vq.whiten, (TABLE,)),
    "spatial.distance.pdist": (scipy.spatial.distance.pdist, (TABLE,)),
    "optimize.rosen_der": (scipy.optimize.rosen_der, (SIGNAL,)),
}
SKLEARN: dict[str, tuple[Case, tuple[Any, ...]]] = {
    "PCA": (lambda x: PCA(2, svd_solver="full").fit_transform(x), (TABLE,)),
    "PCA, whitened": (
        lambda x: PCA(2, svd_solver="covariance_eigh", whiten=True).fit(x).transform(x),
        (TABLE,),
    ),
    "LinearDiscriminantAnalysis": (
        lambda x, y: LinearDiscriminantAnalysis().fit(x, y).predict_proba(x),
        (TABLE, LABELS),
    ),
    "Ridge": (lambda x, y: Ridge(solver="svd").fit(x, y).predict(x), (TABLE, OTHER[:, 0])),
    "GaussianNB": (lambda x, y: GaussianNB().fit(x, y).predict_proba(x), (TABLE, LABELS)),
    "StandardScaler": (lambda x: StandardScaler().fit_transform(x), (TABLE,)),
    "MinMaxScaler": (lambda x: MinMaxScaler().fit_transform(x), (TABLE,)),
    "MaxAbsScaler": (lambda x: MaxAbsScaler().fit_transform(x), (TABLE,)),
    "Normalizer": (lambda x: Normalizer().fit_transform(x), (TABLE,)),
    "PolynomialFeatures": (lambda x: PolynomialFeatures().fit_transform(x), (TABLE,)),
    "accuracy_score": (metrics.accuracy_score, (LABELS, GUESSES)),
    "f1_score": (metrics.f1_score, (LABELS, GUESSES)),
    "confusion_matrix": (metrics.confusion_matrix, (LABELS, GUESSES)),
    "log_loss": (metrics.log_loss, (LABELS, TABLE[:, 0])),
    "mean_squared_error": (metrics.mean_squared_error, (TABLE, OTHER)),
    "r2_score": (metrics.r2_score, (TABLE, OTHER)),
    "cosine_similarity": (metrics.pairwise.cosine_similarity, (TABLE, OTHER)),
    "rbf_kernel": (metrics.pairwise.rbf_kernel, (TABLE, OTHER)),
    "euclidean_distances": (metrics.pairwise.euclidean_distances, (TABLE, OTHER)),
}


def differences(got: Any, wanted: Any) -> Iterator[str]:
    """What is wrong with a result, beside NumPy's."""
    if isinstance(wanted, tuple):
        for one, other in zip(got, wanted, strict=True):
            yield from differences(one, other)
        return
    if not isinstance(wanted, float) and not isinstance(got, bp.Tensor):
        yield f"gave {type(got).__name__}, not a tensor"
    values = got.numpy() if isinstance(got, bp.Tensor) else np.asarray(got)
    if not np.allclose(values, wanted, rtol=1e-6, atol=1e-9):
        yield f"differs from NumPy by {np.max(np.abs(values - wanted))}"


def check(name: str, function: Case, arrays: tuple[Any, ...]) -> list[str]:
    """The complaints about one function."""
    wanted = function(*arrays)
    tensors = [bp.asarray(array) for array in arrays]
    try:
        with sklearn.config_context(array_api_dispatch=True):
            got = function(*tensors)
        return [f"{name}: {what}" for what in differences(got, wanted)]
    except Exception as error:  # each function is one line of the report
        return [f"{name}: {type(error).__name__}: {error}"]


def gradients() -> list[str]:
    """SciPy's functions are made of ours, so they have gradients."""
    x = bp.asarray(TABLE).requires_grad_()
    scipy.special.logsumexp(x).backward()
    share = scipy.special.softmax(TABLE)
    if x.grad is None or not np.allclose(x.grad.numpy(), share):
        return ["special.logsumexp: its gradient is not softmax"]
    return []


def main(library: str) -> None:
    warnings.simplefilter("error")
    cases = {"scipy": SCIPY, "sklearn": SKLEARN}[library]
    complaints = gradients() if library == "scipy" else []
    for name, (function, arrays) in cases.items():
        complaints += check(name, function, arrays)
    print("\n".join(complaints))
    print(f"{len(cases)} functions")


if __name__ == "__main__":
    main(sys.argv[1])
