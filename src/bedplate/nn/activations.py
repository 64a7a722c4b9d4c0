"""Activations and dropout as modules, to stand in a Sequential: a row each for the plain ones."""

from __future__ import annotations

from bedplate.dtypes import DType, float32
from bedplate.errors import SettingError
from bedplate.nn import functional
from bedplate.nn.module import Module
from bedplate.nn.parameter import Parameter
from bedplate.nn.wrapped import Wrapped
from bedplate.tensor import Tensor, full


class ReLU(Wrapped):
    """max(x, 0)"""

    function = staticmethod(functional.relu)


class ReLU6(Wrapped):
    """min(max(x, 0), 6)"""

    function = staticmethod(functional.relu6)


class LeakyReLU(Wrapped):
    """x above 0, negative_slope x below"""

    function = staticmethod(functional.leaky_relu)


class RReLU(Module):
    """x above 0, a random slope times x below; in use the middle slope; see `rrelu`.

    >>> RReLU().eval()(Tensor([-6.0])).tolist()
    [-1.375]
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3) -> None:
        self.lower, self.upper = lower, upper

    def forward(self, x: Tensor) -> Tensor:
        return functional.rrelu(x, self.lower, self.upper, self.training)


class PReLU(Module):
    """x above 0, a trained slope times x below: one, or one for each channel (axis 1).

    >>> PReLU()(Tensor([-4.0])).tolist()
    [-1.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: DType = float32) -> None:
        self.weight = Parameter(full((num_parameters,), init, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return functional.prelu(x, self.weight)


class ELU(Wrapped):
    """x above 0, alpha (exp(x) - 1) below"""

    function = staticmethod(functional.elu)


class SELU(Wrapped):
    """1.0507 elu(x, 1.6733), which keeps mean 0 and variance 1 through depth"""

    function = staticmethod(functional.selu)


class CELU(Wrapped):
    """x above 0, alpha (exp(x / alpha) - 1) below"""

    function = staticmethod(functional.celu)


class GELU(Wrapped):
    """x times the normal distribution's cumulative function at x"""

    function = staticmethod(functional.gelu)


class SiLU(Wrapped):
    """x * sigmoid(x)"""

    function = staticmethod(functional.silu)


class Mish(Wrapped):
    """x tanh(log(1 + exp(x)))"""

    function = staticmethod(functional.mish)


class Softplus(Wrapped):
    """log(1 + exp(beta x)) / beta"""

    function = staticmethod(functional.softplus)


class Softsign(Wrapped):
    """x / (1 + |x|)"""

    function = staticmethod(functional.softsign)


class Tanh(Wrapped):
    """tanh(x)"""

    function = staticmethod(functional.tanh)


class Tanhshrink(Wrapped):
    """x - tanh(x)"""

    function = staticmethod(functional.tanhshrink)


class Hardshrink(Wrapped):
    """x where |x| > lambd, else 0"""

    function = staticmethod(functional.hardshrink)


class Softshrink(Wrapped):
    """x moved towards 0 by lambd"""

    function = staticmethod(functional.softshrink)


class Threshold(Wrapped):
    """x where x > threshold, else value"""

    function = staticmethod(functional.threshold)


class Sigmoid(Wrapped):
    """1 / (1 + exp(-x))"""

    function = staticmethod(functional.sigmoid)


class LogSigmoid(Wrapped):
    """-log(1 + exp(-x))"""

    function = staticmethod(functional.logsigmoid)


class Hardsigmoid(Wrapped):
    """min(max(x + 3, 0), 6) / 6"""

    function = staticmethod(functional.hardsigmoid)


class Hardswish(Wrapped):
    """x min(max(x + 3, 0), 6) / 6"""

    function = staticmethod(functional.hardswish)


class Hardtanh(Wrapped):
    """min(max(x, min_val), max_val)"""

    function = staticmethod(functional.hardtanh)


class GLU(Wrapped):
    """a sigmoid(b) with a and b the halves of x along one axis"""

    function = staticmethod(functional.glu)


class Softmax(Wrapped):
    """exp(x) over its sum along one axis"""

    function = staticmethod(functional.softmax)


class Softmin(Wrapped):
    """exp(-x) over its sum along one axis"""

    function = staticmethod(functional.softmin)


class LogSoftmax(Wrapped):
    """The logarithm of exp(x) over its sum along one axis"""

    function = staticmethod(functional.log_softmax)


class Identity(Module):
    """x"""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Dropout(Module):
    """Zero each element with probability p while training, scale the others by 1 / (1 - p).

    raises  SettingError if p is not in [0, 1)
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p < 1:
            raise SettingError(f"Dropout: p = {p} is not in [0, 1)")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
