"""update_slice: values, refusals, and that a captured state is written where it lies."""

import numpy as np
import pytest

import bedplate as bp
from bedplate.config import config
from bedplate.errors import DTypeError, ShapeError


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "complex64"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_rows_land_where_start_says(dtype, axis):
    rng = np.random.default_rng(0)
    x = bp.tensor(rng.integers(0, 2, (5, 7, 37))).astype(dtype)
    values = bp.tensor(rng.integers(0, 2, (5, 7, 37))).astype(dtype).narrow(axis, 0, 3)
    wanted = x.astype("complex64").numpy().copy()
    place = [slice(None)] * 3
    place[axis] = slice(2, 5)
    wanted[tuple(place)] = values.astype("complex64").numpy()
    found = bp.update_slice(x, values, bp.tensor(2), axis)
    assert (found.astype("complex64").numpy() == wanted).all()


def test_turned_operands():
    x, values = bp.arange(35).reshape((5, 7)), -bp.arange(10).reshape((2, 5))
    wanted = x.numpy().T.copy()
    wanted[1:3] = values.numpy()
    assert (bp.update_slice(x.T, values, 1).numpy() == wanted).all()
    wanted = x.numpy().copy()
    wanted[:, 4:6] = values.numpy().T
    assert (bp.update_slice(x, values.T, 4, axis=1).numpy() == wanted).all()


def test_what_does_not_fit_is_refused():
    x = bp.zeros((4, 3))
    with pytest.raises(ShapeError, match="do not fit along axis 0"):
        bp.update_slice(x, bp.zeros((2, 4)), 0)
    with pytest.raises(ShapeError, match="do not fit along axis 0"):
        bp.update_slice(x, bp.zeros((5, 3)), 0)
    with pytest.raises(ShapeError, match="do not fit"):
        bp.update_slice(x, bp.zeros((1, 3)), bp.tensor([0]))
    with pytest.raises(DTypeError, match="the dtype of x"):
        bp.update_slice(x, bp.zeros((1, 3), dtype="float64"), 0)
    for start in (3, -1):
        with pytest.raises(IndexError, match=f"index {start} is out of range"):
            bp.update_slice(x, bp.zeros((2, 3)), start).numpy()


def test_a_state_that_nobody_else_holds_is_written_in_place():
    @bp.jit
    def step(state, row, place):
        state.assign(bp.update_slice(state, row, place))
        return state.sum()

    state, wanted = bp.zeros((9, 5)).realise(), np.zeros((9, 5), np.float32)
    for i in range(6):
        before = state._node.block.address
        wanted[i] = i
        assert step(state, bp.full((1, 5), float(i)), bp.tensor(i)).item() == wanted.sum()
        assert i < 2 or not config.jit or config.check or state._node.block.address == before
    held = state.numpy()
    step(state, bp.full((1, 5), 7.0), bp.tensor(8))
    assert (held == wanted).all()  # what somebody holds stays as it was
    wanted[8] = 7
    assert (state.numpy() == wanted).all()


def test_a_state_that_is_also_another_argument_is_not_overwritten():
    @bp.jit
    def step(state, row):
        state.assign(bp.update_slice(state, row, 1))
        return row + 0

    for _ in range(4):
        state = bp.arange(6.0).realise()
        step(state, state[3:5].realise())
        assert state.tolist() == [0, 3, 4, 3, 4, 5]
        rest = state.detach()
        step(state, rest[:2])
        assert rest.tolist() == [0, 3, 4, 3, 4, 5]
