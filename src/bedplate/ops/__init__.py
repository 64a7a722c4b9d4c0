"""The ops floor: what each operation is. Start at record.py; operators.py gives the overview."""

from bedplate.ops.operators import Operators as Operators
