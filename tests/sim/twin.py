"""A naive simulator in plain Python: lists instead of records, everything looked at again at every scheduling point.

It shares the description of a network with the real one, and nothing else: the formulas are written from the papers.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from penstock.sim.arrivals import Arrivals
from penstock.sim.layout import Beliefs, Level, SimSettings
from penstock.sim.network import Network

CLOSE = 1e-9


@dataclass
class Item:
    tuple: int
    time: float
    size: float
    ideal: float
    left: float | None = None


@dataclass
class Node:
    number: int
    cost: float
    chance: float
    passed: float
    attribute: int
    query: int
    stream: int
    before: int
    partner: int
    window: float
    bound: float
    slide: float
    weight: float
    ideal: float
    targets: tuple[int, ...]
    charted: float  # the selectivity that progress charts are drawn with, whatever is learnt
    seen: int = 0
    seen_out: int = 0
    believed: tuple[float, float, float] | None = None  # selectivity, cost and ideal time told instead of the truth
    at_once: tuple[bool, ...] = ()
    queue: deque[Item] = field(default_factory=deque)
    entered: int = 0  # when it came on its day of the calendar
    table: list[Item] = field(default_factory=list)

    @property
    def head(self) -> Item:
        return self.queue[0]


@dataclass
class Twin:
    net: Network
    arrivals: Arrivals
    values: np.ndarray
    policy: str
    settings: SimSettings
    beliefs: Beliefs = field(default_factory=Beliefs)

    def __post_init__(self) -> None:
        s, n = self.net.segments, self.net
        self.nodes = [
            Node(
                number=k,
                cost=float(s.cost[k]),
                chance=float(n.chance[k]),
                passed=float(s.passed[k]),
                attribute=int(n.attribute[k]),
                query=int(s.query[k]),
                stream=int(n.stream[k]),
                before=int(n.before[k]),
                partner=int(n.partner[k]),
                window=float(n.window[k]),
                bound=float(s.bound[k]),
                slide=float(s.slide[k]),
                weight=float(s.weight[k]),
                ideal=float(s.ideal[k]),
                targets=n.edges[k],
                charted=float(s.passed[k]),
                at_once=(self.settings.level is Level.QUERY,) * len(n.edges[k]),
            )
            for k in range(len(s))
        ]
        told = self.beliefs
        if told.selectivity is not None and told.mean_cost is not None and told.ideal is not None:
            for node, *facts in zip(self.nodes, told.selectivity, told.mean_cost, told.ideal, strict=True):
                node.believed = (float(facts[0]), float(facts[1]), float(facts[2]))
        for node, at_once in zip(self.nodes, told.inline or (), strict=False):
            node.at_once = at_once
        self.now, self.next, self.turn = 0.0, 0, -1
        self.answers: list[tuple[int, int, float, float, float]] = []
        self.flushing: tuple[int, float] | None = None
        self.memory: list[tuple[float, float]] = []
        self.size = 0.0
        self.family, _, knob = self.policy.rstrip(")").partition("(")
        self.knob = float(knob) if knob else 1.0
        self.entries, self.weighed = 0, 0

    # -- what a policy knows -----------------------------------------------------------------------------------

    def path(self, node: Node) -> list[Node]:
        return [node, *(self.path(self.nodes[node.targets[0]]) if node.targets else [])]

    def s(self, node: Node) -> float:
        if node.believed is not None:
            return node.believed[0]
        return node.passed * (self.s(self.nodes[node.targets[0]]) if node.targets else 1.0)

    def c(self, node: Node) -> float:
        if node.believed is not None:
            return node.believed[1]
        return node.cost + (node.passed * self.c(self.nodes[node.targets[0]]) if node.targets else 0.0)

    def due(self, node: Node, item: Item) -> float:
        if node.slide > 0:
            return (math.floor(item.time / node.slide + CLOSE) + 1) * node.slide
        return item.time + node.bound

    def rate(self, node: Node) -> float:
        return self.s(node) / self.c(node)

    def slope(self, node: Node, flat: float = 0.0) -> float:
        """The slope of the steepest line from the start of the node's segment of the lower envelope.

        From the first segment flatter than a slope on, all is one.
        """
        steepest = 0.0
        fed = {
            x.targets[0] for x in self.nodes if x.targets
        }  # a shared operator's other ways begin charts of their own
        leaves = [x for x in self.nodes if x.number not in fed and node in self.path(x)]
        for first in leaves:
            way, sizes, times = self.path(first), [1.0], [0.0]
            for step in way:
                times.append(times[-1] + step.cost * sizes[-1])
                sizes.append(0.0 if step is way[-1] else sizes[-1] * step.charted)
            at, mine = 0, way.index(node)
            while True:
                lines = [(sizes[at] - sizes[j]) / (times[j] - times[at]) for j in range(at + 1, len(times))]
                best = lines.index(max(lines)) + at + 1
                if max(lines) < flat:
                    lines = [lines[-1]]
                    best = len(times) - 1
                if mine < best:
                    steepest = max(steepest, max(lines))
                    break
                at = best
        return steepest

    def value(self, node: Node) -> float:
        wait, pending = self.now - node.head.time, len(node.queue)
        t = node.ideal if node.believed is None else node.believed[2]
        match self.family:
            case "FCFS" | "FIFO":
                return -node.head.time
            case "SRPT":
                return 1 / sum(x.cost for x in reversed(self.path(node)))
            case "LSF":
                return 1 / t * wait
            case "HR" | "RB" | "RR" | "Hybrid":
                return self.rate(node)
            case "HNR":
                return self.s(node) / (self.c(node) * t)
            case "BRT":
                return self.rate(node) * wait
            case "BSD":
                return self.s(node) / (self.c(node) * t * t) * wait
            case "EDF":
                return -self.due(node, node.head)
            case "FAS-MCQ":
                length = pending**self.knob
                return node.weight * (1 - (1 - min(self.s(node), 1.0)) ** length) / (length * self.c(node))
            case "Greedy":
                return (1 - (node.charted if node.targets else 0.0)) / node.cost
            case "Chain" | "Chain-Flush" | "Chain-Flush*":
                return self.slope(node)
            case "Mixed":
                return self.slope(node, self.knob)
            case "HR-O" | "HNR-O":
                return self.oracle(node) / (t if self.policy == "HNR-O" else 1.0)
        raise AssertionError(self.policy)

    def oracle(self, node: Node) -> float:
        spent = 0.0
        for item in node.queue:
            alive = 1
            for step in self.path(node):
                spent += alive * step.cost
                alive *= self.copies(step, item.tuple)
            if alive:
                return 1 / spent
        return 0.0

    # -- choosing ----------------------------------------------------------------------------------------------

    def ready(self, node: Node) -> bool:
        if not node.queue:
            return False
        if not self.settings.synced or node.partner < 0:
            return True
        other = self.nodes[node.partner]
        if other.queue:
            return node.head.tuple <= other.head.tuple
        if self.next < len(self.arrivals):
            return False
        while other.before >= 0:
            other = self.nodes[other.before]
            if other.queue:
                return False
        return True

    def best(self, latest: float = math.inf) -> Node | None:
        nodes = [n for n in self.nodes if self.ready(n) and self.due(n, n.head) <= latest]
        if self.settings.calendar:
            self.weighed += 1 if nodes else 0
            return max(nodes, key=lambda n: (self.day(n), -n.entered), default=None)
        self.weighed += len(nodes)
        return max(nodes, key=lambda n: (self.value(n), -n.head.tuple, -n.number), default=None)

    def day(self, node: Node) -> int:
        """The class of a priority: so many factors of 1.1 below the highest of a single tuple."""
        highest = max(
            n.weight * min(self.s(n), 1.0) / self.c(n) if self.family == "FAS-MCQ" else self.value_alone(n)
            for n in self.nodes
        )
        value = self.value(node)
        return max(0, 127 - max(0, math.floor(math.log(highest / value) / math.log(1.1) + CLOSE)))

    def value_alone(self, node: Node) -> float:
        """A static priority."""
        kept, node.queue = node.queue, deque([Item(0, 0.0, 1.0, 0.0)])
        found = self.value(node)
        node.queue = kept
        return found

    def enter(self, node: Node) -> None:
        """Put a queue at the end of its day, which is one use of the calendar."""
        if self.settings.calendar and node.queue:
            self.entries += 1
            node.entered = self.entries
            self.weighed += 1

    def choose(self) -> tuple[Node | None, float]:
        """The node to run, and when to look again at the latest."""
        nodes = [n for n in self.nodes if self.ready(n)]
        if self.policy == "RR":
            turn = {n.number: n.query if self.settings.turns else n.number for n in self.nodes}
            turns = max(turn.values()) + 1
            found = min(nodes, key=lambda n: ((turn[n.number] - self.turn - 1) % turns, -self.rate(n)), default=None)
            self.turn = self.turn if found is None else turn[found.number]
            return found, math.inf
        if self.policy == "Hybrid":
            return self.hybrid(nodes), math.inf
        if self.policy == "Chain-Flush":
            return self.chain_flush()
        if self.policy == "Chain-Flush*" and (node := self.flush_heads()) is not None:
            return node, math.inf
        return self.best(), math.inf

    def hybrid(self, nodes: list[Node]) -> Node | None:
        self.weighed += len(nodes)

        def work(node: Node) -> float:
            due = self.due(node, node.head)
            return self.c(node) * (sum(i.time < due for i in node.queue) if node.stream >= 0 else 1)

        early = [n for n in nodes if self.now + work(n) <= self.due(n, n.head)]
        late = [n for n in nodes if n not in early]
        first = min(early, key=lambda n: self.due(n, n.head), default=None)
        fast = max(late, key=self.rate, default=None)
        if first is None or fast is None:
            return first or fast
        return fast if self.now + work(fast) < self.due(first, first.head) else first

    def work_left(self, node: Node, item: Item) -> float:
        whole = item.size * self.c(node)
        return whole if item.left is None else whole - item.size * node.cost + item.left

    def chain_flush(self) -> tuple[Node | None, float]:
        waiting = [(self.due(n, i), self.work_left(n, i)) for n in self.nodes for i in n.queue]
        again = math.inf
        for due in sorted({d for d, _ in waiting}):
            slack = due - self.now - sum(work for d, work in waiting if d <= due)
            if slack <= CLOSE * max(1.0, self.now):
                return self.best(due), again
            again = min(again, self.now + slack)
        return self.best(), again

    def flush_heads(self) -> Node | None:
        def start(n: Node) -> float:
            return self.due(n, n.head) - self.c(n) * n.head.size

        def furthest() -> Node | None:
            assert self.flushing is not None
            way = self.path(self.nodes[self.flushing[0]])
            held = [n for n in way if n.queue and self.due(n, n.head) <= self.flushing[1]]
            return held[-1] if held else None

        if self.flushing is not None and (found := furthest()) is not None:
            return found
        self.flushing = None
        tight = [n for n in self.nodes if n.queue and self.now >= start(n) - CLOSE * max(1.0, self.now)]
        if not tight:
            return None
        first = min(tight, key=start)
        self.flushing = (first.number, self.due(first, first.head))
        return furthest()

    # -- running -----------------------------------------------------------------------------------------------

    def copies(self, node: Node, number: int) -> int:
        whole = math.floor(node.chance)
        return whole + (self.values[number, node.attribute] <= node.chance - whole)

    def note(self, amount: float, time: float) -> None:
        self.size += amount
        if self.memory and self.memory[-1][0] == time:
            self.memory.pop()
        self.memory.append((time, self.size))

    def advance(self, until: float) -> None:
        while self.next < len(self.arrivals) and self.arrivals.time[self.next] <= until:
            time = float(self.arrivals.time[self.next])
            for node in self.nodes:
                if node.stream == self.arrivals.stream[self.next]:
                    node.queue.append(Item(self.next, time, 1.0, time + node.ideal))
                    if len(node.queue) == 1 or self.family == "FAS-MCQ":
                        self.enter(node)
                    self.note(1.0, time)
            self.next += 1
        self.now = until

    def run(self) -> Twin:
        while True:
            node, again = self.choose()
            if node is None:
                if self.next == len(self.arrivals):
                    return self
                self.advance(float(self.arrivals.time[self.next]))
                continue
            if self.settings.charge:
                spent, self.weighed = self.settings.charge * self.weighed, 0
                self.advance(self.now + spent)
            item = node.head
            work = node.cost * item.size if item.left is None else item.left
            length = self.length(work, again)
            self.advance(self.now + length)
            if work - length > 1e-12 * max(1.0, self.now):
                item.left = work - length
                continue
            node.queue.popleft()
            self.enter(node)
            self.finish(node, item)

    def length(self, work: float, again: float) -> float:
        if self.settings.level is not Level.PREEMPTIVE:
            return work
        found = work
        if self.policy == "RR" and self.settings.quantum > 0:
            found = min(found, self.settings.quantum)
        elif self.next < len(self.arrivals):
            found = min(found, float(self.arrivals.time[self.next]) - self.now)
        return min(found, max(again - self.now, 0.0))

    def finish(self, node: Node, item: Item) -> None:
        self.note(-item.size, self.now)
        outputs: list[Item] = []
        if node.partner >= 0 and not self.settings.fluid:
            outputs = self.join(node, item)
        elif self.settings.fluid:
            outputs = [Item(item.tuple, item.time, item.size * node.chance, item.ideal)]
        else:
            outputs = [Item(item.tuple, item.time, item.size, item.ideal)] * self.copies(node, item.tuple)
            self.learn(node, len(outputs))
        moved = []
        for output in outputs:
            if not node.targets:
                self.answers.append((node.query, output.tuple, output.time, self.now, output.ideal))
            for target in node.targets:
                ideal = output.ideal if len(node.targets) == 1 else output.time + self.nodes[target].ideal
                moved.append((target, Item(output.tuple, output.time, output.size, ideal)))
                self.note(output.size, self.now)
        # What is queued is queued in order; of what goes on at once, copies and matches made last go on first.
        width = max(1, len(node.targets))
        batches = [moved[begin : begin + width] for begin in range(0, len(moved), width)]
        for batch in batches:
            for (target, output), at_once in zip(batch, node.at_once, strict=True):
                if not at_once:
                    self.nodes[target].queue.append(output)
                    if len(self.nodes[target].queue) == 1 or self.family == "FAS-MCQ":
                        self.enter(self.nodes[target])
        for batch in reversed(batches):
            for (target, output), at_once in zip(batch, node.at_once, strict=True):
                if at_once:
                    self.advance(self.now + self.nodes[target].cost * output.size)
                    self.finish(self.nodes[target], output)

    def learn(self, node: Node, outputs: int) -> None:
        """Mix what a window of tuples showed into the estimate (S07 §3.3.3)."""
        node.seen, node.seen_out = node.seen + 1, node.seen_out + outputs
        if node.seen == self.settings.adapt_window:
            alpha = self.settings.adapt_alpha
            node.passed = (1 - alpha) * node.passed + alpha * node.seen_out / node.seen
            node.seen, node.seen_out = 0, 0

    def join(self, node: Node, item: Item) -> list[Item]:
        other = self.nodes[node.partner]
        node.table.insert(0, item)
        found = []
        for mate in other.table:
            if abs(mate.time - item.time) > node.window:
                continue
            first, second = (item, mate) if node.number < other.number else (mate, item)
            if pair_value(self.settings.seed, first.tuple, second.tuple) <= node.chance:
                ideal = self.ideal_of_pair(node, item, mate)
                found.append(Item(max(item.tuple, mate.tuple), max(item.time, mate.time), item.size, ideal))
        return found

    def ideal_of_pair(self, node: Node, item: Item, mate: Item) -> float:
        def side(n: Node) -> float:
            return n.cost + (side(self.nodes[n.before]) if n.before >= 0 else 0.0)

        costs = {id(item): side(node), id(mate): side(self.nodes[node.partner])}
        first, second = (mate, item) if item.time >= mate.time else (item, mate)
        common = sum(n.cost for n in self.path(node)[1:])
        return max(first.time + costs[id(first)], second.time) + costs[id(second)] + common


def slowdowns(twin: Twin) -> list[float]:
    """1 plus the delay beyond the ideal, by the query's own time."""
    return [1 + (done - ideal) / float(twin.net.ideal_of_query[query]) for query, _, _, done, ideal in twin.answers]


def staleness(twin: Twin, end: float) -> list[float]:
    """The share of the time until the end covered by [arrival, done] of some answer, for every query."""
    found = []
    for query in range(len(twin.net.ideal_of_query)):
        spans = sorted((t, min(done, end)) for q, _, t, done, _ in twin.answers if q == query)
        covered, reached = 0.0, 0.0
        for begin, done in spans:
            covered += max(0.0, done - max(begin, reached))
            reached = max(reached, done)
        found.append(covered / end)
    return found


def pair_value(seed: int, first: int, second: int) -> float:
    mixed = seed % 2**32
    for part in (first, second, 12_345):
        mixed ^= part
        for _ in range(2):
            mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) % 2**32
        mixed ^= mixed >> 16
    return (mixed + 1) / 2**32
