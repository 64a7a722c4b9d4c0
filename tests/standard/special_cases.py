"""The special cases of the Array API standard, as data: what a function gives for what.

Long, because it is a table of all of them. A row names a function, a pattern for each operand, and
the result. Rows stand for every combination of the values of their patterns, in each floating
point dtype.

| pattern                | values                                                      |
|------------------------|-------------------------------------------------------------|
| nan, +0, -inf, 1, ...  | that one                                                    |
| nan-, nan+             | NaN with the sign bit set, and without                      |
| 0, inf                 | of both signs                                               |
| positive, negative     | finite                                                      |
| >0, <0, >1, <1, <-1    | with infinities, without NaN                                |
| nonzero, finite        | of both signs; without zeros, and with                      |
| whole, half, fraction  | integers; halves between two of them; no integers           |
| odd>0, else>0          | odd integers, and all other positive numbers with infinity  |
| any, all               | all but NaN, and with it                                    |
| same, -same, other     | the first operand, its negative, a number that differs      |

A result is a number, `x1`, `|x2|` and so on, `~pi/2` (to a few roundings), `?0` (of any sign),
`+` and `-` (of that sign, but not NaN), or true and false.

source   https://data-apis.org/array-api/2025.12/API_specification, "Special cases" of each function
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

ONE = """
abs         nan        nan
abs         -0         +0
abs         -inf       +inf
acos        nan        nan
acos        >1         nan
acos        <-1        nan
acos        1          +0
acosh       nan        nan
acosh       <1         nan
acosh       1          +0
acosh       +inf       +inf
asin        nan        nan
asin        >1         nan
asin        <-1        nan
asin        +0         +0
asin        -0         -0
asinh       nan        nan
asinh       +0         +0
asinh       -0         -0
asinh       +inf       +inf
asinh       -inf       -inf
atan        nan        nan
atan        +0         +0
atan        -0         -0
atan        +inf       ~pi/2
atan        -inf       ~-pi/2
atanh       nan        nan
atanh       <-1        nan
atanh       >1         nan
atanh       -1         -inf
atanh       1          +inf
atanh       +0         +0
atanh       -0         -0
ceil        whole      x1
ceil        +inf       +inf
ceil        -inf       -inf
ceil        +0         +0
ceil        -0         -0
ceil        nan        nan
cos         nan        nan
cos         +0         1
cos         -0         1
cos         +inf       nan
cos         -inf       nan
cosh        nan        nan
cosh        +0         1
cosh        -0         1
cosh        +inf       +inf
cosh        -inf       +inf
exp         nan        nan
exp         +0         1
exp         -0         1
exp         +inf       +inf
exp         -inf       +0
expm1       nan        nan
expm1       +0         +0
expm1       -0         -0
expm1       +inf       +inf
expm1       -inf       -1
floor       whole      x1
floor       +inf       +inf
floor       -inf       -inf
floor       +0         +0
floor       -0         -0
floor       nan        nan
isfinite    inf        false
isfinite    nan        false
isfinite    finite     true
isinf       inf        true
isinf       finite     false
isinf       nan        false
isnan       nan        true
isnan       any        false
log         nan        nan
log         <0         nan
log         0          -inf
log         1          +0
log         +inf       +inf
log1p       nan        nan
log1p       <-1        nan
log1p       -1         -inf
log1p       -0         -0
log1p       +0         +0
log1p       +inf       +inf
log2        nan        nan
log2        <0         nan
log2        0          -inf
log2        1          +0
log2        +inf       +inf
log10       nan        nan
log10       <0         nan
log10       0          -inf
log10       1          +0
log10       +inf       +inf
negative    +0         -0
negative    -0         +0
negative    +inf       -inf
negative    -inf       +inf
negative    nan        nan
positive    all        x1
real        all        x1
conj        all        x1
reciprocal  nan        nan
reciprocal  +inf       +0
reciprocal  -inf       -0
reciprocal  +0         +inf
reciprocal  -0         -inf
round       whole      x1
round       +inf       +inf
round       -inf       -inf
round       +0         +0
round       -0         -0
round       nan        nan
round       half       even
sign        <0         -1
sign        0          ?0
sign        >0         1
sign        nan        nan
signbit     +0         false
signbit     -0         true
signbit     +inf       false
signbit     -inf       true
signbit     positive   false
signbit     negative   true
signbit     nan+       false
signbit     nan-       true
sin         nan        nan
sin         +0         +0
sin         -0         -0
sin         inf        nan
sinh        nan        nan
sinh        +0         +0
sinh        -0         -0
sinh        +inf       +inf
sinh        -inf       -inf
sqrt        nan        nan
sqrt        <0         nan
sqrt        +0         +0
sqrt        -0         -0
sqrt        +inf       +inf
square      nan        nan
square      0          +0
square      inf        +inf
tan         nan        nan
tan         +0         +0
tan         -0         -0
tan         inf        nan
tanh        nan        nan
tanh        +0         +0
tanh        -0         -0
tanh        +inf       1
tanh        -inf       -1
trunc       whole      x1
trunc       +inf       +inf
trunc       -inf       -inf
trunc       +0         +0
trunc       -0         -0
trunc       nan        nan
"""

TWO = """
add           nan        all        nan
add           all        nan        nan
add           +inf       -inf       nan
add           -inf       +inf       nan
add           +inf       +inf       +inf
add           -inf       -inf       -inf
add           +inf       finite     +inf
add           -inf       finite     -inf
add           finite     +inf       +inf
add           finite     -inf       -inf
add           -0         -0         -0
add           -0         +0         +0
add           +0         -0         +0
add           +0         +0         +0
add           0          nonzero    x2
add           nonzero    0          x1
add           nonzero    -same      +0
subtract      nan        all        nan
subtract      all        nan        nan
subtract      inf        same       nan
subtract      +inf       finite     +inf
subtract      -inf       finite     -inf
subtract      finite     +inf       -inf
subtract      finite     -inf       +inf
subtract      -0         +0         -0
subtract      -0         -0         +0
subtract      +0         0          +0
subtract      nonzero    0          x1
subtract      nonzero    same       +0
atan2         nan        all        nan
atan2         all        nan        nan
atan2         >0         +0         ~pi/2
atan2         >0         -0         ~pi/2
atan2         +0         >0         +0
atan2         +0         +0         +0
atan2         +0         -0         ~pi
atan2         +0         <0         ~pi
atan2         -0         >0         -0
atan2         -0         +0         -0
atan2         -0         -0         ~-pi
atan2         -0         <0         ~-pi
atan2         <0         +0         ~-pi/2
atan2         <0         -0         ~-pi/2
atan2         positive   +inf       +0
atan2         positive   -inf       ~pi
atan2         negative   +inf       -0
atan2         negative   -inf       ~-pi
atan2         +inf       finite     ~pi/2
atan2         -inf       finite     ~-pi/2
atan2         +inf       +inf       ~pi/4
atan2         +inf       -inf       ~3pi/4
atan2         -inf       +inf       ~-pi/4
atan2         -inf       -inf       ~-3pi/4
copysign      any        <0         -|x1|
copysign      any        -0         -|x1|
copysign      any        +0         |x1|
copysign      any        >0         |x1|
copysign      any        nan-       -|x1|
copysign      any        nan+       |x1|
copysign      nan        <0         nan-
copysign      nan        -0         nan-
copysign      nan        +0         nan+
copysign      nan        >0         nan+
copysign      nan        nan-       nan-
copysign      nan        nan+       nan+
divide        nan        all        nan
divide        all        nan        nan
divide        inf        inf        nan
divide        0          0          nan
divide        +0         >0         +0
divide        -0         >0         -0
divide        +0         <0         -0
divide        -0         <0         +0
divide        >0         +0         +inf
divide        >0         -0         -inf
divide        <0         +0         -inf
divide        <0         -0         +inf
divide        +inf       positive   +inf
divide        +inf       negative   -inf
divide        -inf       positive   -inf
divide        -inf       negative   +inf
divide        positive   +inf       +0
divide        positive   -inf       -0
divide        negative   +inf       -0
divide        negative   -inf       +0
divide        positive   positive   +
divide        negative   negative   +
divide        positive   negative   -
divide        negative   positive   -
equal         nan        all        false
equal         all        nan        false
equal         +inf       +inf       true
equal         -inf       -inf       true
equal         -0         0          true
equal         +0         0          true
equal         finite     same       true
equal         finite     other      false
equal         inf        finite     false
floor_divide  nan        all        nan
floor_divide  all        nan        nan
floor_divide  inf        inf        nan
floor_divide  0          0          nan
floor_divide  +0         >0         +0
floor_divide  -0         >0         -0
floor_divide  +0         <0         -0
floor_divide  -0         <0         +0
floor_divide  >0         +0         +inf
floor_divide  >0         -0         -inf
floor_divide  <0         +0         -inf
floor_divide  <0         -0         +inf
floor_divide  inf        nonzero    nan
floor_divide  positive   +inf       +0
floor_divide  positive   -inf       -1
floor_divide  negative   +inf       -1
floor_divide  negative   -inf       +0
floor_divide  positive   positive   +
floor_divide  negative   negative   +
floor_divide  positive   negative   -
floor_divide  negative   positive   -
hypot         inf        all        +inf
hypot         all        inf        +inf
hypot         0          all        |x2|
hypot         all        0          |x1|
hypot         finite     nan        nan
hypot         nan        finite     nan
hypot         nan        nan        nan
logaddexp     nan        all        nan
logaddexp     all        nan        nan
logaddexp     +inf       any        +inf
logaddexp     any        +inf       +inf
logaddexp     -inf       -inf       -inf
logaddexp     -inf       nonzero    x2
maximum       nan        all        nan
maximum       all        nan        nan
minimum       nan        all        nan
minimum       all        nan        nan
multiply      nan        all        nan
multiply      all        nan        nan
multiply      inf        0          nan
multiply      0          inf        nan
multiply      positive   positive   +
multiply      negative   negative   +
multiply      positive   negative   -
multiply      negative   positive   -
multiply      +inf       >0         +inf
multiply      +inf       <0         -inf
multiply      -inf       >0         -inf
multiply      -inf       <0         +inf
multiply      positive   +inf       +inf
multiply      positive   -inf       -inf
multiply      negative   +inf       -inf
multiply      negative   -inf       +inf
nextafter     nan        all        nan
nextafter     all        nan        nan
nextafter     -0         +0         +0
nextafter     +0         -0         -0
not_equal     nan        all        true
not_equal     all        nan        true
not_equal     +inf       -inf       true
not_equal     -inf       +inf       true
not_equal     finite     other      true
not_equal     finite     same       false
not_equal     inf        same       false
pow           not1       nan        nan
pow           all        +0         1
pow           all        -0         1
pow           nan        nonzero    nan
pow           nan        inf        nan
pow           |x|>1      +inf       +inf
pow           |x|>1      -inf       +0
pow           1          inf        1
pow           -1         inf        1
pow           1          any        1
pow           |x|<1      +inf       +0
pow           |x|<1      -inf       +inf
pow           +inf       >0         +inf
pow           +inf       <0         +0
pow           -inf       odd>0      -inf
pow           -inf       else>0     +inf
pow           -inf       odd<0      -0
pow           -inf       else<0     +0
pow           +0         >0         +0
pow           +0         <0         +inf
pow           -0         odd>0      -0
pow           -0         else>0     +0
pow           -0         odd<0      -inf
pow           -0         else<0     +inf
pow           negative   fraction   nan
remainder     nan        all        nan
remainder     all        nan        nan
remainder     inf        inf        nan
remainder     0          0          nan
remainder     +0         >0         +0
remainder     -0         >0         +0
remainder     +0         <0         -0
remainder     -0         <0         -0
remainder     >0         0          nan
remainder     <0         0          nan
remainder     inf        nonzero    nan
remainder     positive   +inf       x1
remainder     positive   -inf       x2
remainder     negative   +inf       x2
remainder     negative   -inf       x1
"""

# of three operands: x, min, max
CLIP = """
clip  nan     any     any     nan
clip  any     nan     any     nan
clip  any     any     nan     nan
"""

# one complex operand a + bj and the result; both signs of b, by the symmetry under conjugation
COMPLEX = """
abs    inf       all       +inf
abs    all       inf       +inf
abs    0         all       |b|
abs    all       0         |a|
abs    nan       finite    nan
abs    finite    nan       nan
abs    nan       nan       nan
acos   0         +0        ~pi/2 -0
acos   0         nan       ~pi/2 nan
acos   finite    +inf      ~pi/2 -inf
acos   nonzero   nan       nan nan
acos   -inf      positive  ~pi -inf
acos   +inf      positive  +0 -inf
acos   -inf      +inf      ~3pi/4 -inf
acos   +inf      +inf      ~pi/4 -inf
acos   inf       nan       nan ?inf
acos   nan       finite    nan nan
acos   nan       +inf      nan -inf
acos   nan       nan       nan nan
acosh  0         +0        +0 ~pi/2
acosh  finite    +inf      +inf ~pi/2
acosh  nonzero   nan       nan nan
acosh  +0        nan       nan ~?pi/2
acosh  -inf      positive  +inf ~pi
acosh  +inf      positive  +inf +0
acosh  -inf      +inf      +inf ~3pi/4
acosh  +inf      +inf      +inf ~pi/4
acosh  inf       nan       +inf nan
acosh  nan       finite    nan nan
acosh  nan       +inf      +inf nan
acosh  nan       nan       nan nan
asinh  +0        +0        +0 +0
asinh  positive  +inf      +inf ~pi/2
asinh  finite    nan       nan nan
asinh  +inf      positive  +inf +0
asinh  +inf      +inf      +inf ~pi/4
asinh  nan       +0        nan +0
asinh  nan       nonzero   nan nan
asinh  nan       +inf      ?inf nan
asinh  nan       nan       nan nan
atanh  +0        +0        +0 +0
atanh  +0        nan       +0 nan
atanh  1         +0        +inf +0
atanh  positive  +inf      +0 ~pi/2
atanh  nonzero   nan       nan nan
atanh  +inf      positive  +0 ~pi/2
atanh  +inf      +inf      +0 ~pi/2
atanh  +inf      nan       +0 nan
atanh  nan       finite    nan nan
atanh  nan       +inf      ?0 ~pi/2
atanh  nan       nan       nan nan
cosh   +0        +0        1 +0
cosh   +0        +inf      nan ?0
cosh   +0        nan       nan ?0
cosh   nonzero   +inf      nan nan
cosh   nonzero   nan       nan nan
cosh   +inf      +0        +inf +0
cosh   +inf      nonzero   inf*cos inf*sin
cosh   +inf      +inf      ?inf nan
cosh   +inf      nan       +inf nan
cosh   nan       0         nan ?0
cosh   nan       nonzero   nan nan
cosh   nan       nan       nan nan
exp    0         +0        1 +0
exp    finite    +inf      nan nan
exp    finite    nan       nan nan
exp    +inf      +0        +inf +0
exp    -inf      finite    0*cos 0*sin
exp    +inf      nonzero   inf*cos inf*sin
exp    -inf      +inf      ?0 ?0
exp    +inf      +inf      ?inf nan
exp    -inf      nan       ?0 ?0
exp    +inf      nan       ?inf nan
exp    nan       +0        nan +0
exp    nan       nonzero   nan nan
exp    nan       inf       nan nan
exp    nan       nan       nan nan
expm1  0         +0        ?0 +0
expm1  finite    +inf      nan nan
expm1  finite    nan       nan nan
expm1  +inf      +0        +inf +0
expm1  -inf      finite    ~-1 0*sin
expm1  +inf      nonzero   inf*cos inf*sin
expm1  -inf      +inf      ~-1 ?0
expm1  +inf      +inf      ?inf nan
expm1  -inf      nan       ~-1 ?0
expm1  +inf      nan       ?inf nan
expm1  nan       +0        nan +0
expm1  nan       nonzero   nan nan
expm1  nan       inf       nan nan
expm1  nan       nan       nan nan
log    -0        +0        -inf ~pi
log    +0        +0        -inf +0
log    finite    +inf      +inf ~pi/2
log    finite    nan       nan nan
log    -inf      positive  +inf ~pi
log    +inf      positive  +inf +0
log    -inf      +inf      +inf ~3pi/4
log    +inf      +inf      +inf ~pi/4
log    inf       nan       +inf nan
log    nan       finite    nan nan
log    nan       +inf      +inf nan
log    nan       nan       nan nan
log1p  -1        +0        -inf +0
log1p  finite    +inf      +inf ~pi/2
log1p  finite    nan       nan nan
log1p  -inf      positive  +inf ~pi
log1p  +inf      positive  +inf +0
log1p  -inf      +inf      +inf ~3pi/4
log1p  +inf      +inf      +inf ~pi/4
log1p  inf       nan       +inf nan
log1p  nan       finite    nan nan
log1p  nan       +inf      +inf nan
log1p  nan       nan       nan nan
sign   0         0         ?0 ?0
sign   nan       all       nan nan
sign   all       nan       nan nan
sinh   +0        +0        +0 +0
sinh   +0        +inf      ?0 nan
sinh   +0        nan       ?0 nan
sinh   positive  +inf      nan nan
sinh   positive  nan       nan nan
sinh   +inf      +0        +inf +0
sinh   +inf      positive  inf*cos inf*sin
sinh   +inf      +inf      ?inf nan
sinh   +inf      nan       ?inf nan
sinh   nan       +0        nan +0
sinh   nan       nonzero   nan nan
sinh   nan       nan       nan nan
sqrt   0         +0        +0 +0
sqrt   all       +inf      +inf +inf
sqrt   finite    nan       nan nan
sqrt   -inf      positive  +0 +inf
sqrt   +inf      positive  +inf +0
sqrt   -inf      nan       nan ?inf
sqrt   +inf      nan       +inf nan
sqrt   nan       finite    nan nan
sqrt   nan       nan       nan nan
tanh   +0        +0        +0 +0
tanh   nonzero   +inf      nan nan
tanh   +0        +inf      +0 nan
tanh   nonzero   nan       nan nan
tanh   +0        nan       +0 nan
tanh   +inf      positive  1 ?0
tanh   +inf      +inf      1 ?0
tanh   +inf      nan       1 ?0
tanh   nan       +0        nan +0
tanh   nan       nonzero   nan nan
tanh   nan       inf       nan nan
tanh   nan       nan       nan nan
isfinite  nan     all     false
isfinite  all     nan     false
isfinite  inf     all     false
isfinite  all     inf     false
isfinite  finite  finite  true
isinf     inf     all     true
isinf     all     inf     true
isinf     finite  finite  false
isinf     nan     finite  false
isnan     nan     all     true
isnan     all     nan     true
isnan     any     any     false
round     half    inf     even same
"""

# functions of complex numbers that are others turned by a quarter: f(x) = -1j * g(1j * x)
TURNED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh"}

# (function, elements, keywords, result): over all elements, in float32 and float64
STATISTICS = (
    ("max", ("nan", "1"), {}, "nan"),
    ("max", ("-inf", "nan", "+inf"), {}, "nan"),
    ("min", ("nan", "1"), {}, "nan"),
    ("min", ("-inf", "nan", "+inf"), {}, "nan"),
    ("mean", (), {}, "nan"),
    ("mean", ("1", "nan"), {}, "nan"),
    ("mean", ("+inf", "1"), {}, "+inf"),
    ("mean", ("+inf", "-inf"), {}, "nan"),
    ("sum", (), {}, "+0"),
    ("sum", ("1", "nan"), {}, "nan"),
    ("sum", ("+inf", "1"), {}, "+inf"),
    ("sum", ("+inf", "-inf"), {}, "nan"),
    ("prod", (), {}, "1"),
    ("prod", ("1", "nan"), {}, "nan"),
    ("prod", ("+inf", "-1"), {}, "-inf"),
    ("prod", ("+inf", "+0"), {}, "nan"),
    ("prod", ("-1", "+0"), {}, "-0"),
    ("std", (), {}, "nan"),
    ("std", ("1",), {"correction": 1}, "nan"),
    ("std", ("1", "-1"), {"correction": 2.5}, "nan"),
    ("std", ("1", "nan"), {}, "nan"),
    ("var", (), {}, "nan"),
    ("var", ("1",), {"correction": 1}, "nan"),
    ("var", ("1", "-1"), {"correction": 2.5}, "nan"),
    ("var", ("1", "nan"), {}, "nan"),
    ("cumulative_sum", ("1", "nan", "1"), {}, ("1", "nan", "nan")),
    ("cumulative_sum", ("+inf", "1", "-inf"), {}, ("+inf", "+inf", "nan")),
    ("cumulative_sum", ("-0", "-0", "+0"), {}, ("-0", "-0", "+0")),
    ("cumulative_prod", ("1", "nan", "1"), {}, ("1", "nan", "nan")),
    ("cumulative_prod", ("+inf", "-1", "+0"), {}, ("+inf", "-inf", "nan")),
    ("all", (), {}, "true"),
    ("all", ("nan", "+inf", "-1"), {}, "true"),
    ("all", ("1", "-0"), {}, "false"),
    ("any", (), {}, "false"),
    ("any", ("-0", "nan"), {}, "true"),
    ("any", ("-0", "+0"), {}, "false"),
    ("count_nonzero", ("nan", "-0", "+inf"), {}, "2"),
)

# (function, operands, result) where "least" and "most" are those of the dtype; every integer dtype
INTEGERS = (
    ("floor_divide", ("5", "0"), "0"),
    ("floor_divide", ("most", "0"), "0"),
    ("floor_divide", ("least", "0"), "0"),
    ("floor_divide", ("least", "-1"), "least"),
    ("floor_divide", ("-7", "2"), "-4"),
    ("floor_divide", ("7", "-2"), "-4"),
    ("remainder", ("5", "0"), "0"),
    ("remainder", ("least", "-1"), "0"),
    ("remainder", ("-7", "2"), "1"),
    ("remainder", ("7", "-2"), "-1"),
    ("abs", ("least",), "least"),
    ("negative", ("least",), "least"),
    ("add", ("most", "1"), "least"),
    ("subtract", ("least", "1"), "most"),
    ("multiply", ("most", "most"), "1"),
    ("bitwise_left_shift", ("1", "100"), "0"),
    ("bitwise_left_shift", ("most", "100"), "0"),
    ("bitwise_right_shift", ("most", "100"), "0"),
    ("bitwise_right_shift", ("-8", "100"), "-1"),
    ("bitwise_right_shift", ("-8", "1"), "-4"),
    ("pow", ("0", "0"), "1"),
    ("pow", ("3", "0"), "1"),
    ("sign", ("least",), "sign"),
    ("sign", ("most",), "1"),
    ("square", ("most",), "1"),
    ("ceil", ("most",), "most"),
    ("floor", ("least",), "least"),
    ("trunc", ("most",), "most"),
    ("round", ("least",), "least"),
)


class Row(NamedTuple):
    """One special case."""

    function: str
    operands: tuple[str, ...]
    result: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(self.operands)}) = {' '.join(self.result)}"


def rows(table: str, n_operands: int) -> list[Row]:
    """The rows of a table of functions of so many operands."""
    found = []
    for line in table.strip().splitlines():
        name, *rest = line.split()
        found.append(Row(name, tuple(rest[:n_operands]), tuple(rest[n_operands:])))
    return found


def count() -> int:
    """How many special cases are listed, those of complex numbers turned by a quarter included."""
    tables = [ONE, TWO, CLIP, COMPLEX]
    turned = [row for row in rows(COMPLEX, 2) if row.function in TURNED.values()]
    listed = sum(len(table.strip().splitlines()) for table in tables)
    turned_cosh = sum(row.function == "cosh" for row in rows(COMPLEX, 2))
    return listed + len(turned) + turned_cosh + len(STATISTICS) + len(INTEGERS)


NAN, INF = math.nan, math.inf
SINGLE = {
    "nan": NAN, "nan+": math.copysign(NAN, 1), "nan-": math.copysign(NAN, -1),
    "+inf": INF, "-inf": -INF, "+0": 0.0, "-0": -0.0, "1": 1.0, "-1": -1.0, "2": 2.0,
}  # fmt: skip


def values(pattern: str, dtype: type) -> list[float]:
    """The numbers that a pattern stands for, all of them exact in the dtype."""
    if pattern in SINGLE:
        return [SINGLE[pattern]]
    info = np.finfo(dtype)
    above = float(np.nextafter(dtype(1), dtype(2)))
    below = float(np.nextafter(dtype(1), dtype(0)))
    small = [float(info.smallest_subnormal), float(info.smallest_normal), 0.5]
    large = [1.5, 2.0, 3.0, 1024.0, float(info.max)]
    positive = [*small, below, 1.0, above, *large]
    negative = [-x for x in positive]
    nonzero = positive + negative
    odd = [1.0, 3.0, 5.0, 2.0**20 + 1]
    even = [*small, 1.5, 2.0, 4.0, float(info.max), INF]
    whole = [1.0, -1.0, 2.0, -3.0, 1024.0, -(2.0**20) - 1, float(info.max), float(info.min)]
    groups = {
        "0": [0.0, -0.0],
        "inf": [INF, -INF],
        "positive": positive,
        "negative": negative,
        "nonzero": nonzero,
        "finite": [*nonzero, 0.0, -0.0],
        "any": [*nonzero, 0.0, -0.0, INF, -INF],
        "all": [*nonzero, 0.0, -0.0, INF, -INF, NAN],
        ">0": [*positive, INF],
        "<0": [*negative, -INF],
        ">1": [above, *large, INF],
        "<-1": [-above, *(-x for x in large), -INF],
        "<1": [below, *small, 0.0, -0.0, *negative, -INF],
        "|x|>1": [above, *large, -above, -1.5, -2.0, -3.0, INF, -INF],
        "|x|<1": [below, *small, 0.0, -0.0, -below, -0.5],
        "not1": [*small, above, *large, *negative, 0.0, -0.0, INF, -INF, NAN],
        "whole": whole,
        "half": [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1023.5, -1024.5],
        "fraction": [0.5, -0.5, 1.5, -2.25, small[0], -small[0]],
        "odd>0": odd,
        "odd<0": [-x for x in odd],
        "else>0": even,
        "else<0": [-x for x in even],
    }
    return groups[pattern]
