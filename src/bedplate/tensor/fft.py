"""Discrete Fourier transforms: the functions of `bedplate.fft`.

Written by tools/namespace.py."""

from bedplate.ops.fourier.fft import (
    fft,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)
from bedplate.tensor.frequencies import fftfreq, rfftfreq
from bedplate.ops.public import public

fft = public(fft, __name__)
fftn = public(fftn, __name__)
fftshift = public(fftshift, __name__)
hfft = public(hfft, __name__)
ifft = public(ifft, __name__)
ifftn = public(ifftn, __name__)
ifftshift = public(ifftshift, __name__)
ihfft = public(ihfft, __name__)
irfft = public(irfft, __name__)
irfftn = public(irfftn, __name__)
rfft = public(rfft, __name__)
rfftn = public(rfftn, __name__)
fftfreq = public(fftfreq, __name__)
rfftfreq = public(rfftfreq, __name__)

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
