"""`report_page`: a report as a page: the verdict, the graph, what threads did and when, steps, the start, the ranks."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.flight import SLOWEST
from ..core.process import bytes_text
from ..core.times import State, Table, TimeSpan
from ..pictures.graph import EXPLORER_STYLE, SCRIPT
from ..pictures.page import Content, Html, bar, curve, data_block, fragment, histogram, markup, page, prose, table, tag
from .drawing import duration, graph_of, panel
from .report import IN_WORDS, Report
from .verdict import RankTimes, RankView

MAX_SPANS = 50_000
"""The spans on a page; of more, the longest."""
_STATES: tuple[State, ...] = tuple(IN_WORDS)


def report_page(report: Report) -> str:
    """The page, in one file that loads nothing."""
    names = {op.name: op.code for rank in report.ranks for op in rank.operators}
    header = tag(
        "header",
        tag("h1", prose(report.verdict)),
        tag("p", prose(f"What to do: {report.bottleneck.repair}.")) if report.bottleneck is not None else None,
        tag("p", _summary(report)),
    )
    parts: list[Content] = [
        _section("Operators", _graph(report)),
        _section("Threads", _threads(report)),
        _section("Timeline", _timeline(report.ranks, names)),
        _section("Steps", _steps(report.ranks)),
        _section("The first element", _start(report.ranks, names)),
        _section("The slowest rows and files", _slowest(report.ranks, names)),
        _section("Memory and queues", _resources(report.ranks)),
        _section("Ranks", _ranks(report.ranks)) if len(report.ranks) > 1 else None,
    ]
    style = tag("style", Html(EXPLORER_STYLE), Html(REPORT_STYLE))
    return page(report.verdict, style, header, tag("main", parts), script=SCRIPT + TIMELINE_SCRIPT)


def report_fragment(report: Report) -> str:
    """The verdict, the operators and the threads, for a notebook."""
    lines = [
        (
            tag("code", op.operator),
            "" if op.where is None else str(op.where),
            f"{'' if op.measured == 1 else 'about '}{op.rows:,}",
            f"{op.seconds:.2f}",
            bar(op.share),
            f"{op.cpu:.0%}",
        )
        for op in report.operators
    ]
    operators = table(("operator", "line", "rows", "seconds", "share of the work", "on a CPU"), lines, (2, 3, 5))
    threads = tag("details", tag("summary", "threads"), _threads(report))
    return fragment(tag("div", tag("b", prose(report.verdict))), tag("div", _summary(report)), operators, threads)


def _section(title: str, *content: Content) -> Html:
    return tag("section", tag("h2", title), content, class_="part")


def _summary(report: Report) -> str:
    step = f"a step takes {duration(report.step_seconds)} without its wait"
    dry = "" if report.dry is None else f"; the GPU ran dry in {report.dry:.0%} of the steps"
    ranks = f"{len(report.ranks)} ranks, " if len(report.ranks) > 1 else ""
    return (
        f"{ranks}{report.steps:,} steps; {step}; {duration(report.start_seconds)} to the first element; the loop waits "
        f"{report.waiting:.0%} of its time{dry}"
    )


def _graph(report: Report) -> Html:
    operators = max((rank.operators for rank in report.ranks), key=len, default=[])
    if not operators:
        return tag("p", "nothing is known of the operators")
    graph = graph_of(operators, {}, report)
    times = {op.name: op for op in report.operators}
    panels: list[Html] = []
    for shape in graph.shapes:
        operator, *others = (operators[at] for at in shape.members)
        panels.append(panel(operator, [other.code for other in others], None, times.get(operator.name), None))
    shares = [shape.share or 0.0 for shape in graph.shapes]
    return graph.explorer(panels, shares.index(max(shares)))


# Threads


def _threads(report: Report) -> Html:
    """A bar for each thread, divided by what it did, and the same in words."""
    lines: list[Sequence[Content]] = []
    for thread in report.threads:
        states: list[tuple[State, float]] = [
            (state, thread.states[state]) for state in _STATES if thread.states.get(state, 0) >= 0.0005
        ]
        parts = [
            tag("span", class_=f"state s-{state}", style=f"width:{100 * share:.2f}%", title=_share(state, share))
            for state, share in states
        ]
        did = ", ".join(_share(state, share) for state, share in sorted(states, key=lambda s: -s[1]) if share >= 0.005)
        name = thread.name if len(report.ranks) == 1 else f"rank {thread.rank}, {thread.name}"
        cpu = "" if thread.cpu is None else f"{thread.cpu:.0%}"
        whole = tag("div", parts, class_="states", aria_hidden="true")
        lines.append((name, duration(thread.seconds), cpu, whole, tag("small", did)))
    return markup(_legend(), table(("thread", "time", "on a CPU", "", "what it did"), lines, (1, 2)))


def _share(state: State, share: float) -> str:
    return f"{IN_WORDS[state]} {share:.0%}"


def _legend() -> Html:
    entries = [tag("span", tag("span", class_=f"state s-{state}"), IN_WORDS[state]) for state in _STATES]
    return tag("p", entries, class_="legend", aria_hidden="true")


def _timeline(ranks: Sequence[RankTimes], names: dict[str, str]) -> Html:
    """The last spans of each thread: a picture for those who see it; the tables around it say the same in sums."""
    tracks = [(rank, one) for rank in ranks for one in rank.tables if one.spans]
    if not tracks:
        return tag("p", "no thread did one thing for half a millisecond or longer")
    begin = _begin(ranks)
    spans = sorted((span.ns for _, one in tracks for span in one.spans), reverse=True)
    least = spans[MAX_SPANS] if len(spans) > MAX_SPANS else 0
    of = {name: place for place, name in enumerate(dict.fromkeys(s.of for _, one in tracks for s in one.spans))}
    data = {
        "states": [[state, IN_WORDS[state]] for state in _STATES],
        "of": [names.get(name, name) for name in of],
        "tracks": [
            [
                one.thread if len(ranks) == 1 else f"rank {rank.rank}, {one.thread}",
                [value for span in one.spans if span.ns > least for value in _numbers(span, one, begin, of)],
            ]
            for rank, one in tracks
        ],
    }
    buttons = [
        tag("button", label, type="button", data_zoom=what, aria_label=name)
        for label, what, name in (("+", "in", "zoom in"), ("-", "out", "zoom out"), ("all", "all", "show all"))
    ]
    label = "timeline of threads; plus and minus zoom, the arrows move, Home shows all"
    canvas = tag("canvas", tabindex=0, role="img", aria_label=label)
    hint = "drag to move, double-click or press + to zoom in, point at a span to read it"
    note = f"the longest {MAX_SPANS:,} of {len(spans):,} spans; " if least else ""
    return tag(
        "div",
        tag("p", buttons, " ", tag("output", f"{note}{hint}", class_="soft")),
        tag("div", canvas, class_="lane"),
        data_block("timeline", data),
        class_="timeline",
    )


def _begin(ranks: Sequence[RankTimes]) -> int:
    """The begin of the first span, in nanoseconds since 1970."""
    return min((one.clock + span.since for rank in ranks for one in rank.tables for span in one.spans), default=0)


def _numbers(span: TimeSpan, one: Table, begin: int, of: dict[str, int]) -> tuple[int, int, int, int]:
    """Begin and length in microseconds, the state, and what it is about."""
    return (one.clock + span.since - begin) // 1000, span.ns // 1000, _STATES.index(span.state), of[span.of]


def _slowest(ranks: Sequence[RankTimes], names: dict[str, str]) -> Html:
    """The rows and the files that took longest."""
    works = [(work, rank, one) for rank in ranks for one in rank.tables for work in one.slow]
    begin = _begin(ranks)
    parts: list[Content] = []
    for title, kind, none in (
        ("Rows", "row", "no row that was measured took half a millisecond or longer"),
        ("Files, or parts of them", "file", "no file that was read to its end took half a millisecond or longer"),
    ):
        found = sorted((entry for entry in works if entry[0].kind == kind), key=lambda entry: -entry[0].ns)[:SLOWEST]
        lines = [
            (
                duration(work.ns / 1e9),
                work.where,
                f"{work.rows:,}" if kind == "file" else None,
                tag("code", names.get(work.of, work.of)),
                one.thread if len(ranks) == 1 else f"rank {rank.rank}, {one.thread}",
                _after(begin, work.since, one),
            )
            for work, rank, one in found
        ]
        head = ("time", kind, "rows" if kind == "file" else "", "operator", "thread", "began at")
        parts += [tag("h3", title), table(head, lines, (0, 2, 5)) if lines else tag("p", none)]
    return markup(parts)


def _after(begin: int, at: int, one: Table) -> str:
    return f"{max(0, one.clock + at - begin) / 1e9:.3f} s"


# Memory and queues


def _resources(ranks: Sequence[RankTimes]) -> Html:
    """The memory of each process, and what its threads had ready, over time."""
    tables = [(rank, one) for rank in ranks for one in rank.tables if one.samples]
    if not tables:
        return tag("p", "nothing was noted: the run was too short, or the system does not tell")
    times = [one.clock + sample.at for _, one in tables for sample in one.samples]
    begin, end = min(times), max(times)
    several = len(ranks) > 1
    processes: dict[tuple[int, int], tuple[str, Table]] = {}
    queues: list[tuple[str, Table]] = []
    for rank, one in tables:
        name = f"rank {rank.rank}, {one.thread}" if several else one.thread
        if (first := processes.get((rank.rank, one.process))) is None or len(one.samples) > len(first[1].samples):
            processes[rank.rank, one.process] = name, one
        if any(sample.ready >= 0 for sample in one.samples):
            queues.append((name, one))

    def drawn(one: Table, values: Sequence[int], most: int, label: str) -> Html:
        places = [(one.clock + sample.at - begin) / max(1, end - begin) for sample in one.samples]
        return curve(list(zip(places, values, strict=True)), most, label)

    memory: list[Sequence[Content]] = []
    largest = max(sample.resident for _, one in processes.values() for sample in one.samples)
    for name, one in processes.values():
        sizes = [sample.resident for sample in one.samples]
        if most := max(sizes):
            label = f"memory of the process of {name}: at most {bytes_text(most)}"
            shared = bytes_text(max(sample.shared for sample in one.samples))
            memory.append((name, drawn(one, sizes, largest, label), bytes_text(most), shared, bytes_text(sizes[-1])))
    ready: list[Sequence[Content]] = []
    for name, one in queues:
        counts = [max(0, sample.ready) for sample in one.samples]
        label = f"ready of {name}: at most {max(counts)}"
        empty = f"{counts.count(0) / len(counts):.0%}"
        mean = f"{sum(counts) / len(counts):.1f}"
        ready.append((name, drawn(one, counts, max(counts), label), mean, max(counts), empty))
    over = f"over {duration((end - begin) / 1e9)}" if end > begin else "at one moment, because the run was short"
    head = ("process of", over, "at most", "of that shared, at most", "at the end")
    return markup(
        tag("h3", "Memory"),
        table(head, memory, (2, 3, 4)) if memory else tag("p", "the system does not tell"),
        tag("h3", "Elements, or blocks, that were ready"),
        table(("queue of", over, "mean", "at most", "empty"), ready, (2, 3, 4))
        if ready
        else tag("p", "no thread had a queue, or the run was too short to see it"),
    )


# Steps


def _steps(ranks: Sequence[RankTimes]) -> Html:
    """How long steps took, and how long they waited."""
    steps = [rank.steps for rank in ranks]
    parts = [
        _counts(
            "Time of a step, with its wait", [sum(counts) for counts in zip(*(s.lengths for s in steps), strict=True)]
        ),
        _counts("Wait of a step", [sum(counts) for counts in zip(*(s.waits for s in steps), strict=True)]),
    ]
    return tag("div", parts, class_="pair")


def _counts(title: str, counts: Sequence[int]) -> Html:
    places = [place for place, count in enumerate(counts) if count]
    if not places:
        return tag("div", tag("h3", title), tag("p", "there was no step"))
    first, last = places[0], places[-1] + 1
    shown = counts[first:last]
    total = sum(shown)
    titles = [f"{_bounds(first + at)}: {count:,} steps, {count / total:.0%}" for at, count in enumerate(shown)]
    ends = _edge(first - 1) if first else "0", _edge(last - 1)
    most = max(range(len(shown)), key=lambda at: shown[at])
    label = f"{title}: mostly {titles[most]}"
    percents = ", ".join(f"{part}% take up to {_edge(_place(counts, part / 100))}" for part in (50, 95, 99))
    return tag("div", tag("h3", title), histogram(shown, titles, ends, label), tag("p", tag("small", percents)))


def _bounds(place: int) -> str:
    return f"{_edge(place - 1)} to {_edge(place)}" if place else "0"


def _edge(place: int) -> str:
    """The upper end of a place of `StepTimes`."""
    return duration(2**place / 1e9) if place > 0 else "0"


def _place(counts: Sequence[int], part: float) -> int:
    left = part * sum(counts)
    for place, count in enumerate(counts):
        left -= count
        if left <= 0 and count:
            return place
    return len(counts) - 1


def _start(ranks: Sequence[RankTimes], names: dict[str, str]) -> Html:
    """What threads did before their first block, and the loop before its first element."""
    lines: list[Sequence[Content]] = []
    for rank in ranks:
        for one in rank.tables:
            slots = {key: slot.start_ns for key, slot in one.slots.items() if slot.start_ns}
            total = sum(slots.values())
            if total < 1_000_000:
                continue
            who = one.thread if len(ranks) == 1 else f"rank {rank.rank}, {one.thread}"
            for (state, of), ns in sorted(slots.items(), key=lambda item: -item[1]):
                if ns >= 0.01 * total:
                    what = "starts the run" if state == "loop" else IN_WORDS[state]
                    about = tag("code", names.get(of, of)) if of else ""
                    lines.append((who, duration(ns / 1e9), bar(ns / total), what, about))
                    who = ""
    if not lines:
        return tag("p", "it took less than a millisecond")
    return table(("thread", "time", "", "what it did", ""), lines, (1,))


# Ranks


def _ranks(ranks: Sequence[RankTimes]) -> Html:
    views = [RankView(rank) for rank in ranks]
    lines = [
        (
            f"rank {view.seen.rank}",
            f"{view.steps:,}",
            duration(view.step_ns / 1e9),
            duration(view.made_ns / 1e9),
            bar(view.waiting),
            f"{view.seen.workers}",
        )
        for view in views
    ]
    return table(("", "steps", "a step", "work for a step", "waits", "workers"), lines, (1, 2, 3, 5))


REPORT_STYLE = """
.fp .part{padding:0 1.2rem;border-bottom:1px solid var(--line)}.fp .part>.explorer{margin:0 -1.2rem}
.fp{--s-operator:#d2552f;--s-engine:#8a6d3b;--s-storage:#8450c7;--s-calls:#b0459b;--s-input:#c9a227;--s-worker:#e0b93b}
.fp{--s-consumer:#b9c2cc;--s-memory:#8c96a1;--s-send:#2b9a8c;--s-receive:#3cb6a6;--s-ranks:#a3794f;--s-device:#3f9b4f}
.fp{--s-loop:#3f7cbf}
.fp .states{display:flex;width:16rem;height:1.1em;background:var(--box);overflow:hidden}
.fp .state{display:inline-block;height:100%}.fp .legend .state{width:.8em;height:.8em;margin-right:.35em}
.fp .legend{display:flex;flex-wrap:wrap;gap:.2em 1.1em;font-size:12.5px;color:var(--soft)}
.fp .pair{display:flex;flex-wrap:wrap;gap:1rem 3rem}
.fp .lane{overflow:auto;max-height:70vh;border:1px solid var(--line)}
.fp canvas{display:block;width:100%;touch-action:pan-y;cursor:grab}
.fp button{font:inherit;color:inherit;background:var(--box);border:1px solid var(--line);padding:.1em .7em}
.fp .timeline{margin-bottom:1rem}
""" + "".join(f".fp .s-{state}{{background:var(--s-{state})}}" for state in _STATES)
TIMELINE_SCRIPT = """
for (const timeline of document.querySelectorAll('.timeline')) {
  const data = JSON.parse(document.getElementById('timeline').textContent);
  const canvas = timeline.querySelector('canvas'), output = timeline.querySelector('output'), hint = output.textContent;
  const HIGH = 22, LABEL = 150, AXIS = 20;
  const end = Math.max(1, ...data.tracks.map(([, spans]) => {
    let last = 0;
    for (let at = 0; at < spans.length; at += 4) last = Math.max(last, spans[at] + spans[at + 1]);
    return last;
  }));
  let from = 0, to = end;
  const wide = () => Math.max(50, canvas.clientWidth - LABEL);
  const label = us => {
    if (us >= 1e6) return (us / 1e6).toPrecision(4) + ' s';
    return us >= 1e3 ? (us / 1e3).toPrecision(4) + ' ms' : us + ' µs';
  };
  const draw = () => {
    const scale = devicePixelRatio || 1, high = AXIS + HIGH * data.tracks.length;
    canvas.style.height = high + 'px';
    canvas.width = canvas.clientWidth * scale;
    canvas.height = high * scale;
    const style = getComputedStyle(canvas), colour = name => style.getPropertyValue(name).trim();
    const colours = data.states.map(([state]) => colour('--s-' + state));
    const pen = canvas.getContext('2d');
    pen.scale(scale, scale);
    pen.font = '12px system-ui, sans-serif';
    pen.textBaseline = 'middle';
    const step = 10 ** Math.ceil(Math.log10((to - from) / wide() * 60));
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = LABEL + (at - from) / (to - from) * wide();
      pen.fillStyle = colour('--line');
      pen.fillRect(x, 0, 1, high);
      pen.fillStyle = colour('--soft');
      pen.fillText(label(Math.round(at)), x + 3, AXIS / 2);
    }
    data.tracks.forEach(([name, spans], track) => {
      const y = AXIS + track * HIGH;
      pen.save();
      pen.beginPath();
      pen.rect(LABEL, y, wide(), HIGH);
      pen.clip();
      for (let at = 0; at < spans.length; at += 4) {
        const x = LABEL + (spans[at] - from) / (to - from) * wide();
        const width = Math.max(1, spans[at + 1] / (to - from) * wide());
        if (x + width < LABEL || x > LABEL + wide()) continue;
        pen.fillStyle = colours[spans[at + 2]];
        pen.fillRect(x, y + 2, width, HIGH - 4);
      }
      pen.restore();
      pen.save();
      pen.beginPath();
      pen.rect(0, y, LABEL - 6, HIGH);
      pen.clip();
      pen.fillStyle = colour('--fg');
      pen.fillText(name, 6, y + HIGH / 2);
      pen.restore();
    });
  };
  const look = (low, high) => {
    const length = Math.min(end, Math.max(10, high - low));
    from = Math.max(0, Math.min(low, end - length));
    to = from + length;
    canvas.dataset.shown = Math.round(from) + ' ' + Math.round(to);
    draw();
  };
  const zoom = (factor, at = (from + to) / 2) => look(at - (at - from) * factor, at + (to - at) * factor);
  const time = event => from + (event.offsetX - LABEL) / wide() * (to - from);
  const actions = { in: () => zoom(0.5), out: () => zoom(2), all: () => look(0, end) };
  timeline.querySelectorAll('button').forEach(button => button.addEventListener('click', actions[button.dataset.zoom]));
  canvas.addEventListener('dblclick', event => zoom(0.5, time(event)));
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, time(event));
  }, { passive: false });
  canvas.addEventListener('keydown', event => {
    const move = (to - from) / 4;
    if (event.key === '+' || event.key === '=') zoom(0.5);
    else if (event.key === '-') zoom(2);
    else if (event.key === 'Home') look(0, end);
    else if (event.key === 'ArrowRight') look(from + move, to + move);
    else if (event.key === 'ArrowLeft') look(from - move, to - move);
    else return;
    event.preventDefault();
  });
  let held = null;
  canvas.addEventListener('pointerdown', event => { held = time(event); canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener('pointerup', () => { held = null; });
  canvas.addEventListener('pointermove', event => {
    if (held !== null) { const by = held - time(event); look(from + by, to + by); return; }
    const found = data.tracks[Math.floor((event.offsetY - AXIS) / HIGH)], at = time(event);
    let text = hint;
    if (found && at >= from) for (let place = 0; place < found[1].length; place += 4) {
      const [begin, length, state, of] = found[1].slice(place, place + 4);
      if (begin <= at && at <= begin + length) {
        const what = data.states[state][1] + ' ' + data.of[of];
        text = found[0] + ': ' + what + ', ' + label(length) + ' from ' + label(begin);
      }
    }
    output.textContent = text;
  });
  addEventListener('resize', draw);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  look(0, end);
}
"""
"""Draws the timeline; its text is set as text."""
