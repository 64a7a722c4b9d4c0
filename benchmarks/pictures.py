"""The pictures of the scaling page: time and memory of each series on logarithmic axes.

python -m benchmarks.pictures    draws docs/pictures/scaling-*.svg; needs the extra `plot`
"""

from __future__ import annotations

import matplotlib  # pyright: ignore[reportMissingImports]
from matplotlib import pyplot  # pyright: ignore[reportMissingImports]

from benchmarks.growth import SERIES
from benchmarks.scaling import Fit, fits, read
from benchmarks.scaling_page import PICTURES, slug

SIZE = (7.2, 2.9)  # inches
MEASURED, COUNTED = "#1f5fa8", "#9a9a9a"


def draw(fit: Fit) -> None:
    """Both panels of one series: what was measured, and the algorithm's growth through its end."""
    series = next(series for series in SERIES if series.name == fit.name)
    values = [point["value"] for point in fit.points]
    due = list(zip(*(series.growth(int(value)) for value in values), strict=True))
    figure, axes = pyplot.subplots(1, 2, figsize=SIZE, layout="constrained")
    panels = (("time", "seconds", fit.time), ("memory", "bytes", fit.memory))
    for axis, (title, key, (found, algorithm)), counted in zip(axes, panels, due, strict=True):
        measured = [point[key] for point in fit.points]
        scale = measured[-1] / counted[-1]
        axis.loglog(values, [scale * c for c in counted], "--", color=COUNTED,
                    label=f"algorithm: {algorithm:.2f}")  # fmt: skip
        axis.loglog(values, measured, "o-", color=MEASURED, label=f"measured: {found:.2f}")
        axis.set(title=f"{fit.name}: {title}", xlabel=fit.along, ylabel=key)
        axis.set_xticks(values, [f"{value:g}" for value in values], minor=False)
        axis.minorticks_off()
        axis.legend(frameon=False, fontsize="small")
        axis.title.set_fontsize("medium")
    figure.savefig(PICTURES / f"{slug(fit.name)}.svg", metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    matplotlib.use("svg")
    # the same picture has the same text, and letters are letters
    matplotlib.rcParams.update({"svg.hashsalt": "bedplate", "svg.fonttype": "none"})
    PICTURES.mkdir(exist_ok=True)
    for fit in fits(read()):
        draw(fit)


if __name__ == "__main__":
    main()
