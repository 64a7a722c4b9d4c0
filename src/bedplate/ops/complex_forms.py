"""What arithmetic on complex numbers is made of: the forms of ops, each on the parts."""

from __future__ import annotations

from typing import Any

from bedplate.ops import complex_parts as parts
from bedplate.ops.arithmetic import negative
from bedplate.ops.complex_form import Pair, complex_form


@complex_form(parts._real)
def real(x: Pair) -> Any:
    return x.re


@complex_form(parts.imag)
def imag(x: Pair) -> Any:
    return x.im


@complex_form(parts._conj)
def conj(x: Pair) -> Pair:
    return Pair(x.re, negative(x.im))


@complex_form(parts._complex)
def complex_(re: Any, im: Any) -> Pair:
    return Pair(re, im)
