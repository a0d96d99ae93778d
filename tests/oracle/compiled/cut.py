"""What forward keeps for backward: the minimum cut of the joint graph.

The same network as `min_cut_rematerialization_partition` makes (`torch/_functorch/partitioners.py`), with its bans:
from the inputs and from everything that must not be computed again to everything that backward needs. A node's own
edge costs its bytes, more the farther it is from backward, and twice as much if nothing else gives it memory.
"""

import collections
import heapq
import math

from graph import ONCE

#: A node's cost for each step away from backward, and how many steps count.
FARTHER, FARTHEST = 1.1, 100
#: COUNT: nodes that may be computed again one after the other.
CHAIN = 100
#: Less is left by rounding.
NOTHING = 1e-6


class Network:
    """A maximum flow (Dinic), and the cut next to its source."""

    def __init__(self):
        self.numbers, self.edges = {}, []
        self.to, self.room = [], []

    def number(self, name):
        """The node of that name."""
        if name not in self.numbers:
            self.numbers[name] = len(self.edges)
            self.edges.append([])
        return self.numbers[name]

    def edge(self, start, end, room):
        """Adds an edge, and its reverse next to it."""
        start, end = self.number(start), self.number(end)
        for here, there, much in ((start, end, room), (end, start, 0)):
            self.edges[here].append(len(self.to))
            self.to.append(there)
            self.room.append(much)

    def cut(self, source, sink):
        """The names on the side of the source."""
        source, sink = self.number(source), self.number(sink)
        while True:
            level = self.levels(source)
            if level[sink] is None:
                return {name for name, number in self.numbers.items() if level[number] is not None}
            tried = [0] * len(self.edges)
            while path := self.path(source, sink, level, tried):
                flow = min(self.room[edge] for edge in path)
                if flow == math.inf:
                    raise ValueError('backward needs what must not be kept')
                for edge in path:
                    self.room[edge] -= flow
                    self.room[edge ^ 1] += flow

    def levels(self, source):
        """How many edges with room lead to each node."""
        level = [None] * len(self.edges)
        level[source] = 0
        reached = collections.deque([source])
        while reached:
            here = reached.popleft()
            for edge in self.edges[here]:
                if self.room[edge] > NOTHING and level[self.to[edge]] is None:
                    level[self.to[edge]] = level[here] + 1
                    reached.append(self.to[edge])
        return level

    def path(self, source, sink, level, tried):
        """Edges with room to the sink, each one level on; none if there are no more."""
        path, here = [], source
        while here != sink:
            edges = self.edges[here]
            while tried[here] < len(edges):
                edge = edges[tried[here]]
                if self.room[edge] > NOTHING and level[self.to[edge]] == level[here] + 1:
                    break
                tried[here] += 1
            else:
                if not path:
                    return None
                level[here] = -1
                here = self.to[path.pop() ^ 1]
                tried[here] += 1
                continue
            path.append(edge)
            here = self.to[edge]
        return path


def saved(graph):
    """The names whose memory is kept, inputs among them."""
    return Cut(graph).answer()


class Cut:
    """The network of a joint graph."""

    def __init__(self, graph):
        self.graph = graph
        self.required = [node.name for node in graph.nodes if node.name in graph.required]
        self.order = {name: number for number, name in enumerate(self.required)}
        self.banned = set()
        self.network = Network()

    def is_fusible(self, name):
        """Whether a kernel may compute it together with others."""
        kind, operator = self.graph.kind(name), self.graph.named[name].operator
        return kind in ('point', 'view', 'small', 'part') and operator not in ONCE

    def fuses(self, name, user):
        """Whether a user reads it without memory."""
        return self.graph.named[user].operator == 'cat' or self.is_fusible(name) and self.is_fusible(user)

    def ban(self, name):
        """Not to be computed again; views always are."""
        if self.graph.kind(name) != 'view':
            self.banned.add(name)
            self.network.edge('source', (name, 'in'), math.inf)

    def answer(self):
        """Makes the network, and cuts it."""
        graph, network = self.graph, self.network
        needed = graph.made_of(graph.gradients)
        distances = self.distances()
        for node in graph.nodes:
            name = node.name
            if name not in graph.forward:
                if name in needed:
                    network.edge((name, 'in'), 'sink', math.inf)
                continue
            if graph.kind(name) == 'input' or graph.kind(name) != 'part' and graph.is_banned(name):
                self.ban(name)
            network.edge((name, 'in'), (name, 'out'), self.cost(node, distances[name]))
            for user in graph.users[name]:
                network.edge((name, 'out'), (user, 'in'), math.inf)
        self.ban_far_readers()
        self.ban_long_chains()
        side = network.cut('source', 'sink')
        cut = (name for name in graph.forward if (name, 'in') in side and (name, 'out') not in side)
        return {graph.root(name) for name in cut}

    def distances(self):
        """Steps to the first user that is no part of forward."""
        distances = {}
        for node in reversed(self.graph.nodes):
            users = [distances[user] + 1 for user in self.graph.users[node.name]]
            distances[node.name] = min(users, default=FARTHEST) if node.name in self.graph.required else 0
        return distances

    def cost(self, node, distance):
        """Of keeping what a node makes."""
        if isinstance(node.makes, list):
            return math.inf
        cost = int(node.bytes * FARTHER ** max(min(distance, FARTHEST), 1))
        is_free = node.operator and all(self.fuses(node.name, user) for user in self.graph.users[node.name])
        return 2 * cost if is_free else cost

    def ban_far_readers(self):
        """Of what has readers near and far, those are not computed again that come after the first operator that is
        not fused."""
        for name in self.required:
            users = [user for user in self.graph.users[name] if user in self.order]
            if not users:
                continue
            last = first_apart = max(self.order[user] for user in users)
            ahead, seen = [(self.order[user], user, True) for user in users], set()
            heapq.heapify(ahead)
            while ahead:
                number, here, is_fused = heapq.heappop(ahead)
                if not is_fused:
                    first_apart = number
                    break
                for user in self.graph.users[here]:
                    if self.order.get(user, last + 1) <= last:
                        entry = self.order[user], user, self.fuses(here, user)
                        if entry not in seen:
                            seen.add(entry)
                            heapq.heappush(ahead, entry)
            for user in users:
                if self.order[user] > first_apart and self.fuses(name, user) and user not in self.banned:
                    self.ban(user)

    def ban_long_chains(self):
        """Where too many fused operators follow each other, one of them is kept."""
        visited = set()
        for start in self.required:
            ahead = [(self.order[start], start)]
            while ahead:
                number, here = heapq.heappop(ahead)
                if here in visited:
                    continue
                visited.add(here)
                if number > self.order[start] + CHAIN and not ahead:
                    self.ban(here)
                    break
                for user in self.graph.users[here]:
                    if user in self.order and self.fuses(here, user) and user not in self.banned:
                        heapq.heappush(ahead, (self.order[user], user))
