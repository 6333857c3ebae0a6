"""One file for each figure or table of the paper, named here."""

from srl_core.base.registry import Registry

FIGURES = Registry(
    "figure",
    {
        "pong-learning": "reproductions.figures.pong_learning:FIGURE",
        "single-machine-throughput": "reproductions.figures.single_machine_throughput:FIGURE",
    },
)
