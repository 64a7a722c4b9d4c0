"""The ops floor: what each operation is. Start at record.py; operators.py gives the overview."""

from bedplate.ops import attention as attention
from bedplate.ops import complex_forms as complex_forms
from bedplate.ops import complex_sums as complex_sums
from bedplate.ops import convolution as convolution
from bedplate.ops import custom_kernel as custom_kernel
from bedplate.ops import floats as floats
from bedplate.ops import losses as losses
from bedplate.ops import norms as norms
from bedplate.ops import order_statistics as order_statistics
from bedplate.ops import pooling_adaptive as pooling_adaptive
from bedplate.ops import random as random
from bedplate.ops import rearrange as rearrange
from bedplate.ops import rope as rope
from bedplate.ops.operators import Operators as Operators
