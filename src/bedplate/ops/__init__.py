"""The ops floor: what each operation is. Start at record.py; operators.py gives the overview."""

# every op and every form enters its table when its module is imported
import bedplate.ops.attention.attention
import bedplate.ops.attention.rope
import bedplate.ops.complex_numbers.arithmetic
import bedplate.ops.complex_numbers.exponential
import bedplate.ops.complex_numbers.polar
import bedplate.ops.complex_numbers.sums
import bedplate.ops.complex_numbers.trigonometry
import bedplate.ops.convolution.transposed
import bedplate.ops.custom_kernel
import bedplate.ops.fourier.fft
import bedplate.ops.image.resampling
import bedplate.ops.indexing.searching
import bedplate.ops.indexing.update_slice
import bedplate.ops.linalg.determinants
import bedplate.ops.linalg.diagonals
import bedplate.ops.linalg.eigen
import bedplate.ops.linalg.einsum
import bedplate.ops.linalg.factors
import bedplate.ops.linalg.norms
import bedplate.ops.linalg.powers
import bedplate.ops.linalg.products
import bedplate.ops.losses.classes
import bedplate.ops.matmul.quantised
import bedplate.ops.normalisation.norms
import bedplate.ops.pointwise.floats
import bedplate.ops.pooling.adaptive
import bedplate.ops.random.draws
import bedplate.ops.scan.extremes
import bedplate.ops.shape.after
import bedplate.ops.shape.rearrange
import bedplate.ops.sorting.counting
import bedplate.ops.sorting.order_statistics
import bedplate.ops.sorting.sets
from bedplate.ops.operators import Operators as Operators
