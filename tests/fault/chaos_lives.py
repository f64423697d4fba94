"""What chaos_linked.py and chaos_hosts.py have in common: one life after the other, until the time is over and each fault has happened."""
import collections
import concurrent.futures
import itertools
import time


def rarest_first(dice, kinds, seen):
    """Kinds of faults in the order in which they are to be tried; `seen`: how often each was, a Counter."""
    return sorted(dice.sample(kinds, len(kinds)), key=lambda kind: seen[kind])


def play(given, kinds, live):
    """True: all lives were as they should be. `kinds`: of faults that all have to happen, within twice the time; `live(number, fired)`:
    those that have happened in that life, a Counter, or None where it has failed."""
    begun, lives, fired = time.monotonic(), itertools.count(), collections.Counter()

    def missing():
        return [kind for kind in kinds if not fired[kind]] if given.life is None else []

    def one_after_the_other(_):
        for count in itertools.count():
            lasted = time.monotonic() - begun
            if lasted > given.seconds and (not missing() or lasted > 2 * given.seconds):
                return count
            happened = live(next(lives) if given.life is None else given.life, fired)
            if happened is None:
                return None
            fired.update(happened)
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        counts = list(pool.map(one_after_the_other, range(given.jobs)))
    print(f"{sum(count or 0 for count in counts)} lives: {dict(fired)}", flush=True)
    if None in counts:
        return False
    if missing():
        print(f"faults that did not happen: {', '.join(missing())}", flush=True)
    return not missing()
