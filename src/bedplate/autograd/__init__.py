"""The tape, gradients of functions, operations of a user's own, and what checks them."""

from bedplate.autograd.autograd import Autograd, Gradients
from bedplate.autograd.check import gradcheck, gradgradcheck
from bedplate.autograd.functional import grad, hessian, jacobian, jvp, value_and_grad, vjp
from bedplate.autograd.mode import enable_grad, is_recording, no_grad
from bedplate.autograd.operation import Operation

__all__ = [
    "Autograd", "Gradients", "Operation", "enable_grad", "grad", "gradcheck", "gradgradcheck",
    "hessian", "is_recording", "jacobian", "jvp", "no_grad", "value_and_grad", "vjp",
]  # fmt: skip
