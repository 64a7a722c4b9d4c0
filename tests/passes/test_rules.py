"""Each pass: the graph before, the graph after, the same value."""

from __future__ import annotations

import numpy as np
import pytest

from bedplate.compiler.passes.algebra import BY_OP, RULES, Rule, algebra
from bedplate.compiler.passes.broadcast import broadcast
from bedplate.compiler.passes.cse import cse
from bedplate.compiler.passes.empty import empty
from bedplate.compiler.passes.expand_composed import expand_composed
from bedplate.compiler.passes.fold import fold
from bedplate.compiler.passes.reductions import reductions
from bedplate.compiler.passes.rematerialise import rematerialise
from bedplate.compiler.passes.store_in_order import store_in_order
from bedplate.compiler.passes.turn_products import turn_products
from bedplate.compiler.passes.verify import verify
from bedplate.compiler.passes.views import views
from bedplate.dtypes import float32, float64, int32, int64
from bedplate.errors import InternalError
from bedplate.graph.node import Node
from bedplate.ops.attention.attention import ATTENTION
from bedplate.ops.leaves import constant
from bedplate.ops.pointwise.comparison import not_equal
from bedplate.ops.record import REGISTRY
from bedplate.ops.reduction.softmax import softmax
from bedplate.ops.shape.views import outputs

SPECIAL = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan], np.float32)


def number(value, like):
    return constant(value, like.dtype, like.device)


ALGEBRA = {
    "x * 1 -> x": lambda x: x * number(1.0, x),
    "1 * x -> x": lambda x: number(1.0, x) * x,
    "x / 1 -> x": lambda x: x / number(1.0, x),
    "x + (-0) -> x": lambda x: x + number(-0.0, x),
    "(-0) + x -> x": lambda x: number(-0.0, x) + x,
    "x - 0 -> x": lambda x: x - number(0.0, x),
    "-(-x) -> x": lambda x: -(-x),
    "cast(x, its own dtype) -> x": lambda x: x._apply(REGISTRY["cast"], (x,), {"dtype": x.dtype}),
    "cast(cast(x, wider), d) -> cast(x, d)": lambda x: x.astype(float64).astype(float32),
    "where(c, x, x) -> x": lambda x: x._apply(REGISTRY["where"], (not_equal(x, x), x, x), {}),
    "reshape(x, its own shape) -> x": lambda x: x._apply(
        REGISTRY["reshape"], (x,), {"shape": x.shape}
    ),
    "reshape(reshape(x)) -> reshape(x)": lambda x: x.reshape((2, 3)).reshape((6,)),
    "expand(x, its own shape) -> x": lambda x: x._apply(
        REGISTRY["expand"], (x,), {"shape": x.shape}
    ),
    "permute(x, in order) -> x": lambda x: x._apply(REGISTRY["permute"], (x,), {"axes": (0,)}),
    "x[:] -> x": lambda x: x._apply(
        REGISTRY["slice"], (x,), {"starts": (0,), "stops": (6,), "steps": (1,)}
    ),
}


@pytest.mark.parametrize("rule", ALGEBRA)
def test_algebra_rule_leaves_only_the_leaf(rule, leaf, changes):
    text = changes(algebra, broadcast([ALGEBRA[rule](leaf(0, 6))])[0], [SPECIAL])
    assert text.splitlines() == ["%0 = placeholder(index=0) : float32[6]", "return %0"]


def test_every_rule_of_one_input_is_tested():
    tested = set(ALGEBRA) | {
        "not not x -> x",
        "expand(expand(x)) -> expand(x)",
        "permute(permute(x)) -> permute(x)",
        "matmul(cast(bytes, int32), cast(bytes, int32)) -> byte_matmul(bytes, bytes)",
    }
    assert {rule.text for rule in RULES} == tested


@pytest.mark.parametrize("value", [0.0, 1e-30])
def test_adding_a_positive_zero_is_kept(value, leaf, changes):
    x = leaf(0, 6)
    assert "add" in changes(algebra, broadcast([x + number(value, x)])[0], [SPECIAL])


def test_times_zero_is_kept(leaf, changes):
    x = leaf(0, 6)
    assert "multiply" in changes(algebra, broadcast([x * number(0.0, x)])[0], [SPECIAL])


def test_a_narrowing_cast_is_kept(leaf, changes):
    x = leaf(0, 6, dtype="float64")
    text = changes(algebra, x.astype(float32).astype(float64), [SPECIAL.astype(np.float64) / 3])
    assert text.count("cast") == 2


def test_two_permutes_are_one(leaf, changes):
    x = leaf(0, 2, 3, 4)
    text = changes(algebra, x.permute(2, 0, 1).permute(1, 0, 2), [np.random.rand(2, 3, 4)])
    assert text.count("permute") == 1


@pytest.mark.parametrize(("dtypes", "changed"), [
    (("int8", "uint8"), True), (("uint8", "uint8"), True), (("int8", "int16"), False),
])  # fmt: skip
def test_bytes_cast_to_int32_are_multiplied_as_bytes(dtypes, changed, leaf, changes):
    a, b = leaf(0, 3, 4, dtype=dtypes[0]), leaf(1, 5, 4, dtype=dtypes[1])
    arrays = [np.arange(-6, 6).astype(dtypes[0]).reshape(3, 4),
              np.arange(230, 250).astype(dtypes[1]).reshape(5, 4)]  # fmt: skip
    text = changes(algebra, a.astype(int32) @ b.astype(int32).permute(1, 0), arrays)
    assert ("= byte_matmul(" in text) is changed
    assert ("= cast(" in text) is not changed
    text = changes(algebra, a.astype(int64) @ b.astype(int64).permute(1, 0), arrays)
    assert "= byte_matmul(" not in text


def test_cse_merges_equal_nodes_but_not_zeros_of_two_signs(leaf, changes):
    x = leaf(0, 6)
    text = changes(cse, (x * x) + (x * x), [SPECIAL])
    assert text.count("multiply") == 1
    plus, minus = (
        number(0.0, x),
        Node(number(0.0, x).op, (), {"value": -0.0, "dtype": float32}, (), float32, x.device),
    )
    assert changes(cse, (x + plus) * (x + minus), [SPECIAL]).count("constant") == 2


def test_fold_computes_constants(leaf, changes):
    x = leaf(0, 6)
    two = number(2.0, x)
    text = changes(fold, broadcast([x * (two * two + two)])[0], [SPECIAL])
    assert "value=6.0" in text and text.count("multiply") == 1


def test_nothing_without_elements_is_computed(leaf, changes):
    x = leaf(0, 0, 3)
    array = np.zeros((0, 3), np.float32)
    assert "value=0.0" in changes(empty, x.sum(axis=0), [array])
    assert "= exp(" not in changes(empty, x.exp(), [array])


def test_broadcast_is_made_explicit(leaf, changes):
    x, y = leaf(0, 2, 3), leaf(1, 3)
    text = changes(broadcast, x + y, [np.ones((2, 3), np.float32), np.arange(3.0)])
    assert "reshape(%1) : float32[1x3]" in text and "expand" in text


def test_reductions_over_separate_axes_run_in_turn(leaf, changes):
    x = leaf(0, 2, 3, 4)
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    text = changes(reductions, x.sum(axis=(0, 2)), [array])
    assert text.count("sum") == 2
    assert changes(reductions, x.sum(axis=(1, 2)), [array]).count("sum") == 1
    assert "permute" in changes(reductions, x.argmax(axis=0), [array])


def test_expansions_keep_the_value_and_leave_nothing_composed(leaf):
    x = leaf(0, 4, 8)
    (after,) = expand_composed([x._apply(REGISTRY["softmax"], (x,), {"axis": 1})])
    verify([after], "expand_composed")
    assert after.op.kind != "composed"


def test_a_cheap_value_of_one_leaf_is_copied_for_each_user(leaf, changes):
    x = leaf(0, 6)
    mask = not_equal(x, number(3.0, x))
    both = mask.astype(float32) + mask.astype(float32).sum()
    assert changes(rematerialise, broadcast([both])[0], [SPECIAL]).count("not_equal") == 2


def test_a_product_read_transposed_alone_is_computed_transposed(leaf, changes):
    x, g = leaf(0, 40, 20), leaf(1, 40, 24)
    arrays = [np.random.default_rng(0).integers(-9, 9, (40, n)).astype("f") for n in (20, 24)]
    text = changes(turn_products, (x.permute(1, 0) @ g).permute(1, 0), arrays)
    assert "permute(%0, axes=(1, 0)) : float32[24x40]" in text and text.count("permute") == 1
    assert "matmul" in text and "return %3" in text


def test_a_batch_of_products_is_turned_by_its_last_axes(leaf, changes):
    x, w = leaf(0, 3, 20, 4), leaf(1, 4, 24)
    arrays = [np.ones((3, 20, 4), np.float32), np.arange(96.0).reshape(4, 24)]
    text = changes(turn_products, (x @ w).permute(0, 2, 1), arrays)
    assert "float32[3x24x20]" in text and "float32[3x20x24]" not in text


@pytest.mark.parametrize("kind", ["few rows", "read twice", "another order"])
def test_other_products_are_left_as_they_are(kind, leaf, changes):
    rows = 4 if kind == "few rows" else 20
    a, b = leaf(0, 2, rows, 5), leaf(1, 2, 5, 24)
    arrays = [np.ones((2, rows, 5), np.float32), np.ones((2, 5, 24), np.float32)]
    product = a @ b
    view = product.permute(*((1, 0, 2) if kind == "another order" else (0, 2, 1)))
    root = view * product.sum() if kind == "read twice" else view
    before = changes(lambda roots: roots, broadcast([root])[0], arrays)
    assert changes(turn_products, broadcast([root])[0], arrays) == before


def _attended(leaf):
    q = leaf(0, 1, 2, 5, 4)
    both = q._apply(ATTENTION, (q, q, q), {"causal": True, "window": None, "scale": 0.3})
    return outputs(both)[0]


def _heads(changes, run, root):
    return changes(run, root, [np.random.default_rng(1).normal(size=(1, 2, 5, 4)).astype("f")])


def test_a_result_read_in_another_order_is_stored_in_it(leaf, changes):
    text = _heads(changes, store_in_order, _attended(leaf).permute(0, 2, 1, 3).reshape((5, 8)))
    assert "output(%1, index=0, order=(0, 2, 1, 3)) : float32[1x5x2x4]" in text
    assert "permute" not in text


@pytest.mark.parametrize("kind", ["two orders", "as computed", "rows across"])
def test_other_results_are_stored_as_computed(kind, leaf, changes):
    out = _attended(leaf)
    root = {
        "two orders": lambda: out.permute(0, 2, 1, 3).sum() + out.permute(2, 0, 1, 3).sum(),
        "as computed": lambda: out.permute(0, 2, 1, 3).sum() + out.sum(),
        "rows across": lambda: out.permute(0, 1, 3, 2) * 2.0,
    }[kind]()
    assert "order" not in _heads(changes, store_in_order, broadcast([root])[0])


def test_a_permutation_moves_to_the_leaves(leaf, changes):
    x, y = leaf(0, 2, 3), leaf(1, 2, 3)
    arrays = [np.random.rand(2, 3).astype(np.float32) for _ in range(2)]
    text = changes(views, (x + y).permute(1, 0) * number(2.0, x).broadcast_to((3, 2)), arrays)
    assert text.index("permute") < text.index("add")


def test_views_without_a_strided_form_get_a_copy(leaf, changes):
    x = leaf(0, 3, 4)
    flat = x.permute(1, 0).reshape((12,))
    text = changes(views, flat[::5] * flat[::5], [np.random.rand(3, 4).astype(np.float32)])
    assert "cast" in text


def test_the_verifier_names_pass_rule_and_node(leaf):
    x = leaf(0, 2, 3)
    wrong = Node(REGISTRY["negative"], (x,), {}, (3, 3), float32, x.device)
    with pytest.raises(
        InternalError, match=r"after pass fancy: shape \(3, 3\) where the rule says"
    ):
        verify([wrong], "fancy")


def test_the_verifier_finds_a_composed_op(leaf):
    with pytest.raises(
        InternalError, match="after pass fancy: a composed op that was not expanded"
    ):
        verify([softmax(leaf(0, 2, 3), -1)], "fancy")


def test_rules_in_a_circle_are_named(leaf, monkeypatch):
    swap = Rule("add", "a + b -> b + a", lambda node: node.inputs[1] + node.inputs[0])
    monkeypatch.setitem(BY_OP, "add", [*BY_OP["add"], swap])
    with pytest.raises(InternalError, match=r"rules go in a circle: a \+ b -> b \+ a"):
        algebra([leaf(0, 6) + leaf(1, 6)])
