"""Replicas that come and go, step by step and request by request, in the plainest way.

It shares no code with the simulator: one step at a time, a list of requests a replica, vLLM's order
(decodes, prompts begun, new ones), the replica with the fewest open requests.  Step times depend on
numbers of sequences and of prompt tokens alone.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

END, ARRIVAL, BEGIN, EVENT = range(4)  # what comes first in a moment


@dataclass(eq=False)
class Request:
    row: int
    asked: int
    output: int
    prompt: int = 0
    read: int = 0
    written: int = 0
    first: float | None = None
    last: float | None = None


@dataclass(eq=False)
class Server:
    place: int
    ordered: float
    ready: bool = False
    leaving: bool = False
    waiting: list = field(default_factory=list)
    reading: list = field(default_factory=list)
    writing: list = field(default_factory=list)
    stepping: int = 0  # number of the step under way, 0 for none
    pieces: list = field(default_factory=list)

    @property
    def open(self) -> int:
        return len(self.waiting) + len(self.reading) + len(self.writing)


class Loop:
    def __init__(self, arrival, prompts, outputs, *, step, budget, sequences, looks, wanted,
                 initial, start_s, losses=(), replace_s=0.0, open_each=0, until_s=0.0):  # fmt: skip
        """step(decodes, prompt tokens): seconds.  looks: seconds between looks, 0 for none;
        wanted(time): replicas.  losses: (time, place)."""
        sizes = zip(prompts, outputs, strict=True)
        self.requests = [Request(row, int(p), int(o), int(p)) for row, (p, o) in enumerate(sizes)]
        self.arrival = arrival
        self.step, self.budget, self.sequences = step, budget, sequences
        self.looks, self.wanted = looks, wanted
        self.start_s, self.replace_s, self.open_each = start_s, replace_s, open_each
        self.servers: list[Server] = []
        self.queue: list[Request] = []
        self.heap, self.count, self.steps = [], 0, 0
        self.left, self.paid, self.now = len(self.requests), 0.0, 0.0
        for _ in range(initial):
            self.up(self.order())
        for row, time in enumerate(arrival):
            self.push(time, ARRIVAL, self.arrives, self.requests[row])
        for time, place in losses:
            self.push(time, EVENT, self.loses, place)
        if looks:
            self.push(0.0, EVENT, self.look)
        while self.heap and self.left:
            self.now, _, _, call, given = heapq.heappop(self.heap)
            call(*given)
        end = max(self.now, until_s)
        self.paid += sum(end - server.ordered for server in self.servers)

    def push(self, time, kind, call, *given):
        self.count += 1
        heapq.heappush(self.heap, (time, kind, self.count, call, given))

    # replicas

    def order(self) -> Server:
        place = 0
        while any(server.place == place for server in self.servers):
            place += 1
        self.servers.append(Server(place, self.now))
        return self.servers[-1]

    def up(self, server):
        if server in self.servers and not server.ready:
            server.ready = True
            self.deal()

    def look(self):
        here = [server for server in self.servers if not server.leaving]
        wanted = self.wanted(self.now)
        for _ in range(wanted - len(here)):
            self.push(self.now + self.start_s, EVENT, self.up, self.order())
        for _ in range(len(here) - wanted):
            here = [server for server in self.servers if not server.leaving]
            starting = [server for server in here if not server.ready] or here
            server = max(starting, key=lambda one: (one.ordered, one.place))
            server.leaving = True
            self.perhaps_gone(server)
        self.push(self.now + self.looks, EVENT, self.look)

    def perhaps_gone(self, server):
        if server.leaving and not server.open and server in self.servers:
            self.servers.remove(server)
            self.paid += self.now - server.ordered

    def loses(self, place):
        for server in self.servers:
            if server.place == place and server.ready:
                lost = sorted(
                    server.waiting + server.reading + server.writing, key=lambda one: one.row
                )
                for one in lost:
                    one.prompt = one.asked + one.written
                    one.read = 0
                server.waiting, server.reading, server.writing = [], [], []
                server.ready, server.stepping = False, 0
                if server.leaving:
                    self.perhaps_gone(server)
                else:
                    self.push(self.now + self.replace_s + self.start_s, EVENT, self.up, server)
                self.queue = lost + self.queue
                self.deal()
                return

    # requests

    def arrives(self, request):
        self.queue.append(request)
        self.deal()

    def deal(self):
        while self.queue:
            able = [
                server
                for server in sorted(self.servers, key=lambda one: one.place)
                if server.ready
                and not server.leaving
                and (not self.open_each or server.open < self.open_each)
            ]
            if not able:
                return
            server = min(able, key=lambda one: one.open)
            server.waiting.append(self.queue.pop(0))
            if not server.stepping:
                self.push(self.now, BEGIN, self.begins, server)

    def begins(self, server):
        if server.stepping or not server.open:
            return
        left, server.pieces = self.budget - len(server.writing), []
        while server.waiting and len(server.reading) + len(server.writing) < self.sequences:
            if left <= sum(min(one.prompt - one.read, left) for one in server.reading):
                break
            server.reading.append(server.waiting.pop(0))
        for one in server.reading:
            tokens = min(one.prompt - one.read, left)
            if tokens > 0:
                server.pieces.append((one, tokens))
                left -= tokens
        self.steps += 1
        server.stepping = self.steps
        seconds = self.step(len(server.writing), sum(tokens for _, tokens in server.pieces))
        self.push(self.now + seconds, END, self.ends, server, self.steps)

    def ends(self, server, number):
        if server.stepping != number:
            return  # it was lost
        server.stepping = 0
        written = list(server.writing)
        for one, tokens in server.pieces:
            one.read += tokens
            if one.read == one.prompt:
                server.reading.remove(one)
                server.writing.append(one)
                written.append(one)
        for one in written:
            one.written += 1
            one.first = self.now if one.first is None else one.first
            if one.written == one.output:
                one.last = self.now
                self.left -= 1
                server.writing.remove(one)
        self.perhaps_gone(server)
        self.deal()
        if server.open:
            self.push(self.now, BEGIN, self.begins, server)
