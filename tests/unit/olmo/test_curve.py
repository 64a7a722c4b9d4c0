"""The loss curve: a picture that a browser can read, whatever the run was."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from bedplate.olmo.curve import write_curve

SVG = "{http://www.w3.org/2000/svg}"


def records(count, held_out_every=10):
    for step in range(1, count + 1):
        record = {"step": step, "loss": 1.0 + 4.0 * math.exp(-step / 50)}
        if step % held_out_every == 0:
            record["held_out"] = record["loss"] + 0.1
        yield record


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_it_is_well_formed_and_inside(tmp_path, count):
    root = ElementTree.parse(write_curve(tmp_path / "loss.svg", list(records(count)))).getroot()
    assert root.tag == SVG + "svg"
    width, height = float(root.get("width")), float(root.get("height"))
    for line in root.iter(SVG + "polyline"):
        places = [tuple(map(float, place.split(","))) for place in line.get("points").split()]
        assert len(places) <= 1300
        assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def test_numbers_stand_at_the_axes(tmp_path):
    path = write_curve(tmp_path / "loss.svg", list(records(600)))
    texts = [element.text for element in ElementTree.parse(path).getroot().iter(SVG + "text")]
    assert {"100", "600", "1", "5", "step"} <= set(texts)


def test_a_loss_that_is_not_finite_is_left_out(tmp_path):
    path = write_curve(tmp_path / "loss.svg", [*records(5), {"step": 6, "loss": math.nan}])
    assert "nan" not in path.read_text()
