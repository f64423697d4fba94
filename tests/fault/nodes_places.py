#!/usr/bin/env python3
"""Where workers meet on several machines: addresses, interfaces and ports as their environment says them, and what the launchers
say where a network is in the way.

    nodes_places.py [CLASS[.test] ...]    (environment: nodes/__init__.py)

Exit 77: skipped, where the system has no machines.
"""
import json
import subprocess
import sys
import time

from nodes import LOCKSTEP, parallel
from nodes.case import SLACK, OnMachines
from nodes.job import KEY

TOLD = 5 + SLACK  # seconds: what stands in the way is told within 5 of the meeting, of which nobody tells
# Tells its environment, meets all others at the store as PyTorch's clients do, with as many connections as it is told, and leaves a key.
WORKER = r"""
import json, os, socket, struct, sys, time
env = os.environ
rank, world, attempt = int(env["RANK"]), int(env["WORLD_SIZE"]), int(env["TORCHELASTIC_RESTART_COUNT"])
def text(value):
    return struct.pack("=Q", len(value)) + value
def client():
    one = socket.create_connection((env["MASTER_ADDR"], int(env["MASTER_PORT"])), 20)
    one.sendall(struct.pack("=BI", 0, 0x3C85F7CE))
    return one
def number(one):
    return struct.unpack("=q", one.recv(8, socket.MSG_WAITALL))[0]
def add(one, key, more):
    one.sendall(b"\4" + text(key) + struct.pack("=q", more))
    return number(one)
def answers(host):
    try:
        with socket.create_connection((host, int(env["MASTER_PORT"])), 5) as one:
            one.sendall(struct.pack("=BI", 0, 0x3C85F7CE) + b"\x07")
            return len(one.recv(8, socket.MSG_WAITALL)) == 8
    except OSError:
        return False
served = env["TORCHELASTIC_USE_AGENT_STORE"] == "True"
keys = 0
if served:
    clients = [client() for _ in range(int(env.get("CLIENTS", "1")))]
    clients[0].sendall(b"\x07")
    keys = number(clients[0])
    for one in clients:
        add(one, b"come", 1)
    while add(clients[0], b"come", 0) < world * len(clients):
        time.sleep(0.01)
elif rank == 0:  # the port is kept for it
    listener = socket.create_server(("", int(env["MASTER_PORT"])), family=socket.AF_INET6, dualstack_ipv6=True)
    others = [listener.accept() for _ in range(world - 1)]
else:
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((env["MASTER_ADDR"], int(env["MASTER_PORT"])), 20)
            break
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
with open(f"/srv/told-{attempt}-{rank}.json", "w") as file:
    json.dump({**env, "keys": keys, "answers": [host for host in env.get("ASK", "").split() if answers(host)]}, file)
if attempt < int(env.get("ATTEMPTS", "1")) - 1:
    add(clients[0], b"there", 1)
    while add(clients[0], b"there", 0) < world:
        time.sleep(0.01)
    if rank == 0:
        time.sleep(600)
    sys.exit(3)
"""


class Places(OnMachines):
    def launch(self, bed, options, machines=None, env=None):
        """[(exit code, what it said)] of the launchers on `machines`; `options` by machine, from 1."""
        (bed.folder / "worker.py").write_text(WORKER)
        command = [sys.executable, "-SE", "/srv/worker.py"]
        running = [bed[i].start(LOCKSTEP, "run", *options(i), "--no-python", *command, env={"LOCKSTEP_RUN_KEY": KEY, **(env or {})},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in machines or bed.machines]
        said = [process.communicate(timeout=60)[0] for process in running]
        return [(process.returncode, text) for process, text in zip(running, said)]

    def meet(self, bed, options, nodes=2, attempts=1, env=None, **more):
        """What the workers of the last attempt were told, by rank, once all launchers have ended with 0."""
        ends = self.launch(bed, options, env={"ATTEMPTS": attempts, **(env or {})}, **more)
        self.assertEqual([code for code, _ in ends], [0] * nodes, "\n".join(text for _, text in ends))
        return self.told(bed, attempts - 1)

    def told(self, bed, attempt=0):
        files = sorted(bed.folder.glob(f"told-{attempt}-*.json"), key=lambda path: int(path.stem.split("-")[2]))
        return [json.loads(file.read_text()) for file in files]

    @staticmethod
    def static(address, *more, nodes=2, rank=lambda i: i - 1):
        return lambda i: ["--nnodes", str(nodes), "--node-rank", str(rank(i)), "--master-addr", address, "--master-port", "29500", *more]

    @staticmethod
    def c10d(host, *more, nodes=2, rank=None):
        return lambda i: ["--nnodes", str(nodes), *(["--node-rank", str(rank(i))] if rank else []), "--rdzv-backend", "c10d",
                          "--rdzv-endpoint", f"{host}:29400", *more]

    def check(self, workers, name, values):
        self.assertEqual([worker.get(name) for worker in workers], values, name)

    # Names and families
    def places(self, family, names):
        bed = self.bed(2, family=family, names=names)
        host = f"[{bed[1].address}]" if family == "6" else bed[1].address
        for options, port in ((self.static(bed[1].address), "29500"), (self.c10d(host), None)):
            workers = self.meet(bed, options)
            self.check(workers, "MASTER_ADDR", [bed[1].address] * 2)
            self.check(workers, "GLOO_SOCKET_IFNAME", ["eth0"] * 2)
            self.check(workers, "TORCHELASTIC_USE_AGENT_STORE", ["True"] * 2)
            self.assertEqual(workers[0]["MASTER_PORT"], port or workers[1]["MASTER_PORT"])
        if names == "right":
            self.check(self.meet(bed, self.c10d("host1")), "MASTER_ADDR", [bed[1].v4 if family == "4" else bed[1].v6] * 2)

    def test_names_that_are_right(self):
        self.places("4", "right")

    def test_names_of_their_own(self):
        self.places("4", "own")

    def test_no_names(self):
        self.places("both", "none")

    def test_ipv6_alone(self):
        self.places("6", "right")

    def test_link_local_by_interfaces_of_other_names(self):
        bed = self.bed(2, family="6", names="none")
        bed[2].run("sh", "-c", "ip link set eth0 down && ip link set eth0 name ens5 && ip link set ens5 up && ip addr add fe80::2/64 dev ens5 nodad")
        for rank0 in (1, 2):  # at the leader, and at the other
            workers = self.meet(bed, lambda i: self.c10d(f"[fe80::1%{('eth0', 'ens5')[i - 1]}]", rank=lambda i: abs(i - rank0))(i))
            places = {worker["HOSTNAME"]: (worker["MASTER_ADDR"], worker["GLOO_SOCKET_IFNAME"]) for worker in workers}
            self.assertEqual(places, {"host1": (f"fe80::{rank0}%eth0", "eth0"), "host2": (f"fe80::{rank0}%ens5", "ens5")})

    def test_one_by_each_family(self):
        bed = self.bed(3, family="both", names="none")
        hosts_of = {1: bed[1].v4, 2: bed[1].v4, 3: f"[{bed[1].v6}]"}
        workers = self.meet(bed, lambda i: self.c10d(hosts_of[i], nodes=3, rank=lambda i: i - 1)(i), nodes=3)
        self.assertEqual([worker["MASTER_ADDR"] for worker in workers[1:]], [bed[1].v4, bed[1].v6])

    def test_rank_0_is_not_at_the_endpoint(self):
        bed = self.bed(3)
        for options in (self.static(bed[1].v4, nodes=3, rank=lambda i: 3 - i), self.c10d(bed[1].v4, nodes=3, rank=lambda i: 3 - i)):
            workers = self.meet(bed, lambda i: [*options(i), "--nproc-per-node", str(i)], nodes=3)
            self.check(workers, "MASTER_ADDR", [bed[3].v4] * 6)
            self.check(workers, "HOSTNAME", ["host3"] * 3 + ["host2"] * 2 + ["host1"])
            self.check(workers, "LOCAL_WORLD_SIZE", ["3"] * 3 + ["2"] * 2 + ["1"])
            self.check(workers, "ROLE_RANK", list("012345"))

    def test_roles_count_in_the_order_of_nodes(self):
        bed = self.bed(3)
        options = self.c10d(bed[1].v4, nodes=3, rank=lambda i: i - 1)
        workers = self.meet(bed, lambda i: [*options(i), "--role", "ab"[i % 2], "--nproc-per-node", str(i)], nodes=3)
        self.check(workers, "ROLE_NAME", list("baabbb"))
        self.check(workers, "ROLE_RANK", list("001123"))
        self.check(workers, "ROLE_WORLD_SIZE", list("422444"))

    def test_an_interface_that_leads_nowhere(self):
        """And a second address of the one that does, by which nodes meet if it is asked for.

        The store, which has no key, is on 127.0.0.1 and at the address that workers are told, on no other.
        """
        bed = self.bed(2, names="own")
        for machine in bed:
            machine.run("sh", "-c", "ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link set docker0 up && "
                                    f"ip addr add 10.78.0.{machine.index}/24 dev eth0")
        ask = {"ASK": f"127.0.0.1 {bed[1].v4} 10.78.0.1 172.17.0.1"}
        for address in (bed[1].v4, "10.78.0.1"):
            for options in (self.static(address), self.c10d(address)):
                workers = self.meet(bed, options, env=ask)
                self.check(workers, "MASTER_ADDR", [address] * 2)
                self.check(workers, "GLOO_SOCKET_IFNAME", ["eth0"] * 2)
                self.assertEqual(workers[0]["answers"], ["127.0.0.1", address])
        options = self.static("10.78.0.1")
        workers = self.meet(bed, lambda i: [*options(i), "--local-addr", f"10.78.0.{i}"], env=ask)
        self.assertEqual(workers[0]["answers"], ["127.0.0.1", "10.78.0.1"])
        options = self.c10d("10.78.0.1", rank=lambda i: 2 - i)
        self.check(self.meet(bed, lambda i: [*options(i), "--local-addr", f"10.78.0.{i}"]), "MASTER_ADDR", ["10.78.0.2"] * 2)

    def test_the_user_has_an_interface_for_gloo(self):
        bed = self.bed(2)
        self.check(self.meet(bed, self.static(bed[1].v4), env={"GLOO_SOCKET_IFNAME": "lo"}), "GLOO_SOCKET_IFNAME", ["lo"] * 2)

    # Ports
    def test_each_attempt_has_a_new_store(self):
        bed = self.bed(2)
        for options in (self.static(bed[1].v4), self.c10d(bed[1].v4)):
            workers = self.meet(bed, lambda i: [*options(i), "--max-restarts", "2", "--nproc-per-node", "2"], attempts=3)
            self.assertEqual(min(worker["keys"] for worker in workers), 0)
            self.check(workers, "TORCHELASTIC_RESTART_COUNT", ["2"] * 4)
            ports = {self.told(bed, attempt)[0]["MASTER_PORT"] for attempt in range(3)}
            self.assertEqual(len(ports), 1 if "29500" in ports else 3)

    def test_hundreds_of_clients_by_the_launchers_port(self):
        bed = self.bed(2)
        self.meet(bed, self.static(bed[1].v4), env={"CLIENTS": 200})

    def test_workers_serve_their_own(self):
        bed = self.bed(2)
        for options in (self.static(bed[1].v4), self.c10d(bed[1].v4), self.static(bed[1].v4, "--store-port", "30000")):
            workers = self.meet(bed, options, env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
            self.check(workers, "TORCHELASTIC_USE_AGENT_STORE", ["False"] * 2)
            self.assertNotIn(workers[0]["MASTER_PORT"], ("29500", "29400"))
        self.check(workers, "MASTER_PORT", ["30000"] * 2)

    def test_a_port_of_its_own(self):
        bed = self.bed(2)
        for options in (self.static(bed[1].v4, "--store-port", "30000"), self.c10d(bed[1].v4, "--store-port", "30000")):
            self.check(self.meet(bed, options), "MASTER_PORT", ["30000"] * 2)
        taker = bed[1].start(sys.executable, "-c", "import socket, time; s = socket.create_server(('', 30000)); print(flush=True); time.sleep(60)",
                             stdout=subprocess.PIPE)
        self.addCleanup(taker.stdout.close)
        taker.stdout.readline()
        for code, text in self.launch(bed, options):
            self.assertEqual(code, 69, text)
            self.assertIn(f"cannot listen on {bed[1].v4}:30000: Address already in use (process ", text)

    def test_two_launchers_of_one_machine(self):
        """Whoever comes first leads; the other's store is not at the leader's port."""
        bed = self.bed(1)
        for first, second in ((0, 1), (1, 0)):
            begun = iter((first, second))
            workers = self.meet(bed, lambda i: self.static(bed[1].v4, rank=lambda _: next(begun))(i), machines=(1, 1))
            self.check(workers, "MASTER_ADDR", [bed[1].v4] * 2)

    # What stands in the way
    def in_the_way(self, options, says, rules=(), firewall=()):
        """All launchers end with 69 in time, with the pair, the address, and these words."""
        bed = self.bed(2, names="own")
        if rules:
            bed.rules(*rules)
        if firewall:
            bed[1].firewall("iifname lo accept", "ct state established accept", "tcp dport 29400 accept", *firewall)
        begun = time.monotonic()
        for code, text in self.launch(bed, options(bed[1].v4)):
            self.assertEqual(code, 69, text)
            self.assertRegex(text, rf"node 1 \({bed[2].v4}\): the workers' store of node 0 at {bed[1].v4}:\d+ is not reached, "
                                   rf"though the launchers' own connections work: {says}")
        self.assertLess(time.monotonic() - begun, TOLD)

    def test_a_firewall_drops(self):
        self.in_the_way(self.c10d, r"no answer within 5000 ms: a firewall drops .* \(--store-port\)", firewall=["meta l4proto tcp drop"])

    def test_a_firewall_resets(self):
        self.in_the_way(self.c10d, r"refused: .* \(--store-port\)", firewall=["meta l4proto tcp reject with tcp reset"])

    def test_a_firewall_says_no(self):
        self.in_the_way(self.c10d, r"No route to host: .* \(--store-port\)", firewall=["meta l4proto tcp reject with icmp type admin-prohibited"])

    def test_an_address_translation(self):
        """Told on both sides, and what it breaks: nobody reaches a store behind it."""
        bed = self.bed(2)
        bed[2].run("ip", "addr", "add", "192.168.9.2/32", "dev", "lo")
        bed[2].run("ip", "route", "replace", "10.77.0.0/24", "dev", "eth0", "src", "192.168.9.2")
        bed[2].space.nft("table ip nat {", "chain out {", "type nat hook postrouting priority 100", "ip saddr 192.168.9.2 snat to 10.77.0.2", "}", "}")
        for rank, codes in ((lambda i: i - 1, 0), (lambda i: 2 - i, 69)):
            for code, text in self.launch(bed, self.c10d(bed[1].v4, rank=rank)):
                self.assertEqual(code, codes, text)
                self.assertIn("host2 has the address 192.168.9.2, and the leader sees 10.77.0.2. Connections from it come through", text)
        self.assertIn("the workers' store of node 0 at 10.77.0.2:", text)

    def test_a_forwarded_port(self):
        """The leader's address is its own alone."""
        bed = self.bed(2)
        bed[1].run("ip", "addr", "add", "192.168.9.1/32", "dev", "lo")
        bed[1].space.nft("table ip nat {", "chain in {", "type nat hook prerouting priority -100", "tcp dport 29500 dnat to 192.168.9.1", "}", "}")
        for code, text in self.launch(bed, self.static(bed[1].v4)):
            self.assertEqual(code, 69, text)
            self.assertRegex(text, r"store of node 0 at 192\.168\.9\.1:29500 is not reached.*the leader was reached at 10\.77\.0\.1, and its own "
                                   r"address is 192\.168\.9\.1: a port is forwarded .*--local-addr")

    def test_large_packets_vanish(self):
        self.in_the_way(self.static, r"small packets pass, large ones vanish \(.*one MTU", rules=["meta length > 1000 drop"])

    def test_large_packets_vanish_one_way(self):
        self.in_the_way(self.c10d, r"small packets pass, large ones vanish \(.*one MTU", rules=["oifname p1 meta length > 1000 drop"])

    def test_large_packets_vanish_on_the_way_back(self):
        self.in_the_way(self.c10d, r"small packets pass, large ones vanish on the way back \(.*one MTU", rules=["oifname p2 meta length > 1000 drop"])


if __name__ == "__main__":
    parallel.main()
