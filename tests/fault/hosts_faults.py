"""What happens to a run on several hosts in the matrix (hosts_matrix.py)."""
import signal
import time

from hosts_group import RESUMABLE, send, send_all

KILLED = -signal.SIGKILL


# Each is given the group, which has not been started, and says the exit codes, and who has the result.
def undisturbed_run(group):
    group.start()
    return everybody(group)


def everybody(group):
    return everybody_but(group)


def everybody_but(group, *lost, code=KILLED):
    """`lost` hosts: the first host says so of each."""
    stay = [host.rank for host in group.hosts if host.rank not in lost]
    group.lost = lost
    return [0 if host.rank in stay else code for host in group.hosts], stay


def kill_workers(group, at=20, rounds=1):
    """One on each host that has others, in one step; again once all are back at their numbers."""
    group.start()
    group.until_committed(at)
    several = [host for host in group.hosts if host.workers > 1]
    for turn in range(rounds):
        group.kill([host.all_workers()[turn % 2 - 1] for host in several])
    for host in several:
        host.all_workers()
    return everybody(group)


def kill_one_of_each(group, phase, txn=12):
    """On every host, in one phase of one step; each has others."""
    group.start({host.rank: ("--inject", f"kill host=any txn={txn} phase={phase}") for host in group.hosts})
    group.deaths += len(group.hosts)
    return everybody(group)


def kill_newcomers(group, coming, own):
    """On each host that has others: a worker, one that is to take its place, and the next in the first step of its own."""
    options, first = {}, 0
    for host in group.hosts:
        first += host.workers
        if host.workers > 1:
            options[host.rank] = ("--inject", f"kill rank={first - 1} phase={own} repeat=2; kill rank=new host=any phase={coming}")
            group.deaths += 3
    group.start(options)
    return everybody(group)


def kill_only_worker(group, rank, phase):
    """The others go on without it, until its host has another one."""
    group.start({rank: ("--inject", f"kill host=any txn=12 phase={phase}")})
    group.without = (rank,)
    return everybody(group)


def kill_host(group, rank, phase, txn):
    """Whole, while one of its workers is in that phase of that transaction."""
    where = f"phase={phase}" + ("" if txn is None else f" txn={txn}")
    group.start({rank: ("--stop-grace", 60, "--inject", f"stop host=any {where}")})
    group.until_stopped(rank)
    group.hosts[rank].kill()
    ends = everybody_but(group, rank)
    if phase == "done":
        group.lost = ()  # the others may have ended by then
    return ends


def kill_host_in_heal(group, rank, newcomer):
    """While a newcomer takes the state, of another host or its own: that one's last worker was killed."""
    last = sum(host.workers for host in group.hosts[:newcomer + 1]) - 1
    group.start({newcomer: ("--stop-grace", 60, "--inject", f"kill rank={last} txn=5; stop rank=new host=any phase=heal")})
    pid = group.until_stopped(newcomer)
    group.hosts[rank].kill()
    time.sleep(0.5)
    if rank != newcomer:
        assert send(pid, signal.SIGCONT)
    return everybody_but(group, rank)


def kill_host_at_start(group, rank):
    """All are there, and no worker is."""
    group.start()
    group.until_said(0, "all . nodes are here")
    group.until_said(0, "replacements of those that die")
    group.hosts[rank].kill()
    return everybody_but(group, rank)


def kill_host_before_all_are_there(group, rank):
    """Another launcher takes its place."""
    last = group.hosts[-1]
    for host in group.hosts[:-1]:
        host.start()
    time.sleep(0.5)
    group.hosts[rank].kill()
    group.hosts[rank].process.wait()
    for host in (group.hosts[rank], last):
        host.start()
    return everybody(group)


def kill_two_hosts(group, pair, at=20):
    group.start()
    group.until_committed(at)
    for rank in pair:
        group.hosts[rank].kill()
    return everybody_but(group, *pair)


def take_out(group, rank, at):
    """Killed, and out of the set in force."""
    group.until_committed(at)
    group.hosts[rank].kill()
    group.until_lost(rank)
    other = next(host for host in group.hosts if host.process.poll() is None)
    done = other.committed()
    group.until(lambda: other.committed() > done + 1, "a commit without it", may_end=True)


def kill_two_hosts_in_turn(group, pair, at=10):
    """The second once the first is taken out."""
    group.start()
    take_out(group, pair[0], at)
    group.hosts[pair[1]].kill()
    return everybody_but(group, *pair)


def kill_two_hosts_then_one_more(group, pair, third, at=10):
    """Two at once, and a third once both are out of the set in force. Half of the two that are left goes on if it is their first."""
    group.start()
    group.until_committed(at)
    for rank in pair:
        group.hosts[rank].kill()
    for rank in pair:
        group.until_lost(rank)
    done = group.hosts[0].committed()
    group.until(lambda: group.hosts[0].committed() > done + 1, "a commit without them", may_end=True)
    group.hosts[third].kill()
    if third != 0:
        return everybody_but(group, *pair, third)
    group.expect([RESUMABLE if host.rank not in (*pair, third) else KILLED for host in group.hosts])
    group.start()
    return everybody(group)


def crash_everybody(group, share=5):
    """Whoever computes that share of that step crashes. The third time the run says so."""
    group.start({host.rank: ("--inject", f"segv host=any txn=6 phase=forward share={share} repeat=9") for host in group.hosts})
    group.until_said(0, "a share of one step crashed 3 workers", may_end=True)
    return [1] * len(group.hosts), []


def link_fault(group, rank, number, at=20):
    group.start()
    group.until_committed(at)
    assert send(group.hosts[rank].link(), number)
    group.until_said(rank, "another one takes its place", may_end=True)
    return everybody(group)


def pause(group, rank, whole, at=20):
    """Beyond L; it wakes while the others still train, and ends."""
    group.start()
    group.until_committed(at)
    host = group.hosts[rank]
    pids = host.pids() if whole else [host.process.pid]
    send_all(pids, signal.SIGSTOP)
    group.until_lost(rank)
    send_all(pids, signal.SIGCONT)
    return everybody_but(group, rank, code=RESUMABLE)


def pause_beyond_the_end(group, rank, at=20):
    """It wakes when nobody is there any more."""
    group.start()
    group.until_committed(at)
    host = group.hosts[rank]
    pids = host.pids()
    send_all(pids, signal.SIGSTOP)
    others = [each for each in group.hosts if each is not host]
    group.until(lambda: all(each.process.poll() is not None for each in others), "the others' end", may_end=True)
    send_all(pids, signal.SIGCONT)
    return everybody_but(group, rank, code=RESUMABLE)


def pause_briefly(group, rank, at=20):
    group.start()
    group.until_committed(at)
    pids = group.hosts[rank].pids()
    send_all(pids, signal.SIGSTOP)
    time.sleep(0.4)
    send_all(pids, signal.SIGCONT)
    return everybody(group)


def kill_everything(group, at=20):
    """The same command goes on."""
    group.start()
    group.until_committed(at)
    for host in group.hosts:
        host.kill()
    group.start()
    return everybody(group)


def kill_most(group, at=20):
    """Whoever is left ends, and the same command goes on."""
    group.start()
    group.until_committed(at)
    *killed, last = group.hosts
    for host in killed:
        host.kill()
    group.expect([RESUMABLE if host is last else KILLED for host in group.hosts])
    group.start()
    return everybody(group)


def terminate(group, rank, number, at=20):
    group.start()
    group.until_committed(at)
    group.hosts[rank].process.send_signal(number)
    group.expect([128 + number] * len(group.hosts))
    group.start()
    return everybody(group)


def terminate_while_one_is_lost(group, rank, at=20):
    group.start()
    group.until_committed(at)
    group.hosts[rank].kill()
    group.hosts[0].process.send_signal(signal.SIGTERM)
    group.expect([KILLED if host.rank == rank else 143 for host in group.hosts])
    group.start()
    return everybody(group)


def kill_only_worker_as_it_stops(group, rank, phase):
    """In its next step: SIGTERM comes while the worker stands still, and its launcher sees it dead when the run stops already."""
    group.start({rank: ("--stop-grace", 60, "--inject", f"stop host=any txn=12 phase={phase}")})
    worker, launcher = group.until_stopped(rank), group.hosts[rank].process
    launcher.send_signal(signal.SIGSTOP)
    assert send(worker, signal.SIGKILL)
    group.hosts[0].process.send_signal(signal.SIGTERM)
    group.until_said(0, "stopped by SIGTERM")
    launcher.send_signal(signal.SIGCONT)
    group.expect([143] * len(group.hosts))
    group.start()
    return everybody(group)


def kill_all_workers(group, at=20):
    """With a restart left the group starts again. Launchers stand still meanwhile, so they see all of it at once."""
    group.start()
    group.until_committed(at)
    group.kill_workers(group.hosts)
    return everybody(group)


def lost_before_a_new_start(group, at=20):
    """Who was lost before the group started again is not waited for when the next one goes."""
    group.start()
    group.until_committed(at)
    group.hosts[3].kill()
    group.until_lost(3)
    group.kill_workers(group.hosts[:3])
    return lose_one_more(group, 2, lost=3)


def older_state(group, at=20):
    """Who comes in later, for its state is older, answers all the same when the next one goes."""
    group.start()
    group.until_committed(at)
    group.hosts[3].kill()
    group.until_lost(3)
    done = group.hosts[0].committed()
    group.until(lambda: group.hosts[0].committed() > done + 12, "a checkpoint without it", may_end=True)
    group.hosts[0].process.send_signal(signal.SIGTERM)
    group.expect([143] * 3 + [KILLED])
    group.start()
    group.until_said(0, "node 3 has an older state", may_end=True)
    return lose_one_more(group, 2)


def lose_one_more(group, rank, lost=None):
    """Its only worker, once the group trains."""
    pids = group.until(group.hosts[rank].worker_pids, "its worker", may_end=True)
    done = group.hosts[0].committed()
    group.until(lambda: group.hosts[0].committed() > done, "a commit", may_end=True)
    assert send(pids[0], signal.SIGKILL)
    codes = [KILLED if each == lost else 0 for each in range(len(group.hosts))]
    group.lost, group.without = () if lost is None else (lost,), (rank,)
    return codes, [each for each in range(len(group.hosts)) if each != lost]
