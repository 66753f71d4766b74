"""The virtual clock once more, as an event simulation: a heap of events and a small program for every node.

Written from the model's words (``docs/simulated-clock.md``), message by message and link by link; no arrays.
A program is a list of ``("compute", seconds of each node)``, ``("exchange" | "post", bytes of each node)``,
``("collect",)`` and ``("reduce", nbytes)``, the same kinds on all nodes.
"""

import heapq
import itertools
import math


class Simulation:
    def __init__(self, neighbours, latency, bandwidth, overhead=0.0):
        self.neighbours, self.n = neighbours, len(neighbours)
        self.latency, self.bandwidth, self.overhead = latency, bandwidth, overhead
        self.events, self.order = [], itertools.count()
        self.inboxes = {}  # (node, round) -> what its link has served
        self.barriers = {}  # place in the program -> nodes that have come, and when

    def at(self, time, what, *details):
        heapq.heappush(self.events, (time, next(self.order), what, details))

    def run(self, program):
        """Return the time at which each node has done its program."""
        flat = []
        for kind, *details in program:
            flat += [("post", *details), ("collect",)] if kind == "exchange" else [(kind, *details)]
        self.program = flat
        self.place, self.time = [0] * self.n, [0.0] * self.n
        self.posted, self.collected = [0] * self.n, [0] * self.n
        self.out, self.waiting = {}, [False] * self.n
        for node in range(self.n):
            self.at(0.0, self.go_on, node)
        while self.events:
            time, _, what, details = heapq.heappop(self.events)
            what(time, *details)
        assert all(place == len(flat) for place in self.place), "somebody waits for ever"
        return self.time

    def go_on(self, time, node):
        """Let a node do what comes next in its program."""
        self.time[node] = time
        if self.place[node] == len(self.program):
            return
        kind, *details = self.program[self.place[node]]
        if kind == "compute":
            self.place[node] += 1
            self.at(time + details[0][node], self.go_on, node)
        elif kind == "post":
            self.hand_over(time, node, details[0][node])
            self.place[node] += 1
            self.at(time, self.go_on, node)
        elif kind == "collect":
            self.waiting[node] = True
            self.look(time, node)
        else:
            came = self.barriers.setdefault(self.place[node], [])
            came.append(node)
            if len(came) == self.n:
                end = time + self.reduction(details[0])
                for other in came:
                    self.place[other] += 1
                    self.at(end, self.go_on, other)

    def hand_over(self, time, node, nbytes):
        """All copies share the link, byte by byte, so that they are out together."""
        degree, round_ = len(self.neighbours[node]), self.posted[node]
        self.posted[node] += 1
        out = time + degree * nbytes / self.bandwidth
        self.out[node, round_] = out
        for other in self.neighbours[node]:
            self.at(time + self.latency, self.first_byte, other, round_, nbytes)
            self.at(out + self.latency, self.last_byte, other, round_)
        self.at(out, self.look, node)

    def inbox(self, node, round_):
        return self.inboxes.setdefault((node, round_), {"queue": [], "free": True, "served": 0, "whole": 0})

    def first_byte(self, time, node, round_, nbytes):
        inbox = self.inbox(node, round_)
        inbox["queue"].append(nbytes)
        self.serve(time, node, round_)

    def serve(self, time, node, round_):
        inbox = self.inbox(node, round_)
        if inbox["free"] and inbox["queue"]:
            inbox["free"] = False
            self.at(time + inbox["queue"].pop(0) / self.bandwidth, self.served, node, round_)

    def served(self, time, node, round_):
        inbox = self.inbox(node, round_)
        inbox["free"], inbox["served"] = True, inbox["served"] + 1
        self.serve(time, node, round_)
        self.look(time, node)

    def last_byte(self, time, node, round_):
        self.inbox(node, round_)["whole"] += 1
        self.look(time, node)

    def look(self, time, node):
        """Let a node that waits go on, if its round is there."""
        round_ = self.collected[node]
        if not self.waiting[node]:
            return
        degree, inbox = len(self.neighbours[node]), self.inbox(node, round_)
        if inbox["served"] < degree or inbox["whole"] < degree or time < self.out[node, round_]:
            return
        self.waiting[node] = False
        self.collected[node] += 1
        self.place[node] += 1
        self.at(time + max(degree - 1, 0) * self.overhead, self.go_on, node)

    def reduction(self, nbytes):
        """A tree there and back, or pieces scattered and gathered: the sooner of the two."""
        if self.n == 1:
            return 0.0
        depth = math.ceil(math.log2(self.n))
        tree = 2 * depth * (self.latency + nbytes / self.bandwidth)
        pieces = 4 * depth * self.latency + 4 * (1 - 1 / self.n) * nbytes / self.bandwidth
        return min(tree, pieces)
