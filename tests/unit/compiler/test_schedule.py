"""Regions, the memory of temporaries, and results that overwrite their inputs."""

from __future__ import annotations

import random

import pytest

from bedplate.compiler.builder import BufferRef, PlanBuilder
from bedplate.compiler.memory_plan import plan_memory
from bedplate.compiler.schedule import allow_overwriting, schedule
from bedplate.errors import InternalError


def names(regions):
    return [[launch.name for launch in region] for region in regions]


class Writer:
    """Enters launches by name."""

    def __init__(self):
        self.builder = PlanBuilder()

    def __call__(self, name, reads, writes, shared=False):
        launch = self.builder.launch(None, [], 1, reads=reads, writes=writes, name=name)
        launch.shared = shared
        return launch


def test_independent_launches_share_a_region_and_dependent_ones_do_not():
    write = Writer()
    a, b, c = (write.builder.temp(8) for _ in range(3))
    x, out = BufferRef(8, slot=2), BufferRef(8, slot=3)
    write("a", [x], [a])
    write("b", [x], [b])
    write("c", [a, b], [c])
    write("d", [x], [out])
    assert names(schedule(write.builder.launches)) == [["a", "b", "d"], ["c"]]


def test_a_buffer_is_not_overwritten_while_it_is_read_and_regions_of_one_do_not_wait():
    write = Writer()
    a, out = write.builder.temp(8), BufferRef(8, slot=2)
    write("first", [], [a])
    write("read", [a], [out])
    write("again", [], [a])
    left, right = BufferRef(8, slot=3), BufferRef(8, slot=4)
    write("left", [left], [out], shared=True)
    write("right", [right], [out], shared=True)
    assert names(schedule(write.builder.launches)) == [
        ["first"], ["read"], ["again", "left", "right"],
    ]  # fmt: skip


def test_a_word_of_another_kind_is_refused():
    with pytest.raises(InternalError, match="a word may not be 'x'"):
        PlanBuilder().launch(None, ["x"], 1, reads=[], writes=[], name="bad")


@pytest.mark.parametrize("seed", range(20))
def test_temporaries_that_live_at_once_do_not_overlap(seed):
    rng = random.Random(seed)
    write = Writer()
    made = [write.builder.temp(rng.choice([1, 64, 100, 4096]))]
    write("0", [], [made[0]])
    for i in range(1, 60):
        reads = rng.sample(made, min(len(made), rng.randint(1, 3)))
        target = write.builder.temp(rng.choice([1, 64, 100, 4096]))
        launch = write(str(i), reads, [target])
        if rng.random() < 0.5:
            launch.in_place = [(reads[0], target)]
        made.append(target)
    regions = schedule(write.builder.launches)
    size = plan_memory(regions)
    for level, region in enumerate(regions):
        alive = [b for b in made if _first(regions, b) <= level <= _last(regions, b)]
        in_place = {p for launch in region for p in launch.in_place}
        for i, a in enumerate(alive):
            assert a.offset % 64 == 0 and a.offset + a.nbytes <= size
            for b in alive[i + 1 :]:
                apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
                assert apart or (a, b) in in_place or (b, a) in in_place


def _touched(regions, buffer):
    return [
        level for level, region in enumerate(regions)
        if any(buffer in (*x.reads, *x.writes) for x in region)
    ]  # fmt: skip


def _first(regions, buffer):
    return _touched(regions, buffer)[0]


def _last(regions, buffer):
    return _touched(regions, buffer)[-1]


def test_memory_is_reused_along_a_chain():
    write = Writer()
    previous = write.builder.temp(1000)
    write("0", [], [previous])
    for i in range(1, 50):
        following = write.builder.temp(1000)
        write(str(i), [previous], [following])
        previous = following
    assert plan_memory(schedule(write.builder.launches)) == 2 * 1024


def test_a_result_may_overwrite_an_input_that_is_read_before_or_in_place():
    write = Writer()
    w, g, new = BufferRef(8, slot=2), write.builder.temp(8), BufferRef(8, slot=3)
    write("gradient", [w], [g])
    update = write("update", [w, g], [new])
    regions = schedule(write.builder.launches)
    assert allow_overwriting(regions, [(new, w)]) == [False]
    update.in_place = [(w, new)]
    assert allow_overwriting(regions, [(new, w)]) == [True]


def test_an_update_is_moved_behind_the_last_reader():
    write = Writer()
    w, a, b, new = (
        BufferRef(8, slot=2),
        *(BufferRef(8, slot=i) for i in (3, 4)),
        BufferRef(8, slot=5),
    )
    update = write("update", [w], [new])
    update.in_place = [(w, new)]
    write("a", [w], [a])
    write("b", [w, a], [b])
    regions = schedule(write.builder.launches)
    assert allow_overwriting(regions, [(new, w)]) == [True]
    assert names(regions) == [["a"], ["b"], ["update"]]
