"""A dataflow as an SVG picture."""

from __future__ import annotations

from html import escape

from srl_core.cli.dataflow import Arrow, Box, Dataflow

_WIDTH, _HEIGHT = 210, 84
_LEFT, _MIDDLE, _RIGHT = 24, 404, 784
"""Left edges of the three columns."""
_BLOCK = 400
"""Height that one policy's boxes take."""
_TOP = 24
_BOLD = ' font-weight="bold"'
_COLOURS = {
    "actor": "#d7e8f7",
    "policy": "#fbe3c8",
    "trainer": "#d9efd5",
    "parameters": "#eee6f5",
    "evaluator": "#f3f3f3",
}


def as_svg(graph: Dataflow, title: str) -> str:
    """Actors to the left, trainers to the right, what joins them between; one band a policy."""
    policies = list(dict.fromkeys(box.policy for box in graph.boxes if box.policy))
    places = {box.id: _place(box, policies) for box in graph.boxes}
    top = min(y for _, y in places.values()) - _TOP
    height = max(y for _, y in places.values()) + _HEIGHT + _TOP - top
    width = _RIGHT + _WIDTH + _LEFT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {top:.0f} {width} {height:.0f}" '
        f'width="{width}" height="{height:.0f}" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="#444"/></marker></defs>',
        f'<rect y="{top:.0f}" width="{width}" height="{height:.0f}" fill="white"/>',
        *(_arrow(arrow, places) for arrow in graph.arrows),
        *(_box(box, *places[box.id]) for box in graph.boxes),
        *(_label(arrow, places) for arrow in graph.arrows),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _place(box: Box, policies: list[str]) -> tuple[float, float]:
    """Top left corner."""
    middle = _TOP + _BLOCK * len(policies) / 2 - _BLOCK / 2
    if box.kind == "actor":
        return _LEFT, middle + 150
    if box.kind == "evaluator":
        return _RIGHT, middle + 290
    top = _TOP + _BLOCK * policies.index(box.policy)
    return {
        "policy": (_MIDDLE, top),
        "trainer": (_RIGHT, top + 126),
        "parameters": (_MIDDLE, top + 266),
    }[box.kind]


def _ends(arrow: Arrow, places: dict[str, tuple[float, float]]) -> tuple[float, float, float, float]:
    """Where the arrow leaves its box and where it meets the other."""
    (ax, ay), (bx, by) = places[arrow.source], places[arrow.target]
    if ax == bx:  # one above the other
        x = ax + _WIDTH / 2
        return (x, ay, x, by + _HEIGHT) if ay > by else (x, ay + _HEIGHT, x, by)
    right = bx > ax

    # Arrows to boxes higher up leave near the top, so that those of one box do not lie upon each other.
    def side(y: float, other: float) -> float:
        return y + _HEIGHT * (0.5 + max(-0.3, min(0.3, (other - y) / 400)))

    x1, x2 = (ax + _WIDTH, bx) if right else (ax, bx + _WIDTH)
    if ax == _LEFT and bx == _RIGHT:
        return x1, side(ay, by), x2, by + _HEIGHT * 0.4
    return x1, side(ay, by), x2, side(by, ay)


def _arrow(arrow: Arrow, places: dict[str, tuple[float, float]]) -> str:
    x1, y1, x2, y2 = _ends(arrow, places)
    # What passes the middle column goes through the gap between its boxes, level with where it arrives.
    bend = f"{_MIDDLE - 24},{y2:.0f} " if (x1 < _MIDDLE and x2 == _RIGHT) else ""
    start = ' marker-start="url(#tip)"' if arrow.duplex else ""
    return (
        f'<polyline points="{x1:.0f},{y1:.0f} {bend}{x2:.0f},{y2:.0f}" fill="none" stroke="#444" stroke-width="1.4"'
        f'{start} marker-end="url(#tip)"/>'
    )


def _label(arrow: Arrow, places: dict[str, tuple[float, float]]) -> str:
    x1, y1, x2, y2 = _ends(arrow, places)
    lines = (arrow.title, *arrow.lines)
    width = 6.6 * max(map(len, lines)) + 8
    along = 0.25 if x1 == x2 else 0.5  # upright arrows are crossed by others halfway
    x, y = x1 + along * (x2 - x1), y1 + along * (y2 - y1) - 8 * len(lines)
    if x1 < _MIDDLE and x2 == _RIGHT:
        y = y2 - 8 * len(lines)
    texts = [
        f'<text x="{x:.0f}" y="{y + 12 + 16 * i:.0f}" text-anchor="middle" font-size="12"'
        f"{_BOLD if i == 0 else ''}>{escape(line)}</text>"
        for i, line in enumerate(lines)
    ]
    plate = (
        f'<rect x="{x - width / 2:.0f}" y="{y:.0f}" width="{width:.0f}" height="{16 * len(lines)}" '
        'fill="white" fill-opacity="0.85"/>'
    )
    return "\n".join((plate, *texts))


def _box(box: Box, x: float, y: float) -> str:
    title = box.title + (f" ({box.policy})" if box.policy and box.kind != "parameters" else "")
    middle = x + _WIDTH / 2
    texts = [f'<text x="{middle:.0f}" y="{y + 28:.0f}" text-anchor="middle" font-weight="bold">{escape(title)}</text>']
    texts += [
        f'<text x="{middle:.0f}" y="{y + 50 + 18 * i:.0f}" text-anchor="middle" font-size="12">{escape(line)}</text>'
        for i, line in enumerate(box.lines)
    ]
    shape = (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="8" '
        f'fill="{_COLOURS[box.kind]}" stroke="#444"/>'
    )
    return "\n".join((shape, *texts))
