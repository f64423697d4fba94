"""The faults of chaos_hosts.py that cut the network: between two hosts, around one, in halves, one way; for good, or healed in time."""
import time

LIMIT_S = 2.0  # L
BRIEF_S = (0.05, 0.3)


class Cuts:
    """Of a life, one at a time, for it is known by what was dropped."""

    def cut(self, what, a, b, healed, one_way=False):
        if a is None or self.cuts > 0:
            return None
        self.cuts += 1
        sides = [[host.rank + 1 for host in side] for side in (a, b)]
        self.say(f"cut: {what}, {sides}")
        (self.bed.cut_one_way if one_way else self.bed.cut)(*sides)

        def heal():
            dropped = self.bed.dropped() > 0
            self.bed.heal()
            return dropped

        def ends():
            happened = self.lost(all, b) if len(a) > 1 else self.lost(any, (*a, *b))
            time.sleep(self.dice.uniform(0, LIMIT_S))
            return heal() and happened
        if not healed:
            return ends
        time.sleep(self.dice.uniform(*BRIEF_S))  # what is sent again comes after as long once more
        dropped = heal()
        return lambda: dropped

    def pair(self, healed):
        """Of which one may go, if the cut lasts."""
        if healed:
            both = self.dice.sample(self.alive(), 2) if len(self.alive()) > 1 else (None, None)
            return ([both[0]], [both[1]]) if both[0] else (None, None)
        if self.cuts > 0 or self.gone or (host := self.victim(kills=False)) is None:
            return None, None
        other = self.dice.choice(self.alive())
        self.gone.clear()  # one of the two
        if self.may_lose(other):
            self.may_go.add(other.rank)
        self.gone |= {host, other}
        return [host], [other]

    def around(self, healed):
        if self.cuts > 0:
            return None, None
        host = self.dice.choice(self.alive()) if healed else self.victim(kills=False)
        rest = [other for other in self.alive() if other is not host]
        return ([host], rest) if host and rest else (None, None)

    def halves(self, healed):
        """The first, and who leads, on one side."""
        alive = self.alive()
        others = [host for host in alive[1:] if healed or host is not self.leader()]
        if self.cuts > 0 or len(alive) < 4 or len(others) < len(alive) // 2 or (self.gone and not healed):
            return None, None
        there = self.dice.sample(others, len(alive) // 2)
        if not healed:
            self.gone.update(there)
            self.may_go.update(host.rank for host in there)
        return [host for host in alive if host not in there], there

    def do_cut_pair(self):
        return self.cut("a pair", *self.pair(False), healed=False)

    def do_cut_pair_healed(self):
        return self.cut("a pair, healed in time", *self.pair(True), healed=True)

    def do_cut_one_way(self):
        return self.cut("one way", *self.pair(False), healed=False, one_way=True)

    def do_cut_one_way_healed(self):
        return self.cut("one way, healed in time", *self.pair(True), healed=True, one_way=True)

    def do_cut_host(self):
        return self.cut("around one", *self.around(False), healed=False)

    def do_cut_host_healed(self):
        return self.cut("around one, healed in time", *self.around(True), healed=True)

    def do_cut_halves(self):
        return self.cut("in halves", *self.halves(False), healed=False)

    def do_cut_halves_healed(self):
        return self.cut("in halves, healed in time", *self.halves(True), healed=True)
