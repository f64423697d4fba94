#!/usr/bin/env python3
"""What people report of launchers over several machines: names, addresses, ports, who is who. Each either works, or is told within
SOON of the moment at which it can be known, on every node that can know it, with what was given, what was found, and the remedy.
The second half is nodes_networks.py; workers' own ports and large packets are in nodes_places.py.

    nodes_cases.py [CLASS[.test] ...]    (environment: nodes/__init__.py)

Exit 77: skipped, where the system has no machines.
"""
import signal
import time

from nodes import parallel
from nodes.case import SLACK, OnMachines
from nodes.job import QUICK

SOON = 5.0
STATIC = {"rdzv-endpoint": None, "rdzv-id": None}


def static(host, port=29500):
    return {**STATIC, "master-addr": host, "master-port": port}


class Case(OnMachines):
    def works(self, bed, warns=False, environment=None, machines=None, per_machine=(), **more):
        """A run of five steps ends with 0 on all machines, and with no word of complaint; the workers' environments by rank.

        environment  what each worker has of it
        """
        job = self.job(bed=bed, machines=machines, worker=more.pop("worker", ("--steps", "5")), **more)
        job.expect(0, seconds=20)
        if not warns:
            self.assertEqual(job.warnings(), {})
        found = [w.environment for w in job.witness.of(0)]
        for name, value in (environment or {}).items():
            self.assertEqual([one.get(name) for one in found], [value] * len(found), name)
        return found

    def told(self, job, patterns, seconds=SOON):
        """Each machine's launcher says all of its patterns soon."""
        for index, wanted in patterns.items():
            for pattern in wanted:
                job.until_said(job.bed[index], pattern, seconds)

    def given_apart(self, count, *each, **more):
        """Launchers that are given different options, or another environment (env)."""
        bed = self.bed(count)
        job = self.job(bed=bed, start=False, **more)
        for machine, options in zip(bed, each):
            job.start(machine, **options)
        return job


class Names(Case):
    HERE = {"MASTER_ADDR": "10.77.0.1", "GLOO_SOCKET_IFNAME": "eth0"}

    def test_n1_n5_no_names_at_all(self):
        self.works(self.bed(3, names="none"), endpoint="10.77.0.1:29400", environment=self.HERE)

    def test_n2_own_name_is_127_0_1_1(self):
        """As Debian has it; the endpoint's name is known to all."""
        bed = self.bed(3)
        bed.name("own")
        for machine in bed:
            file = machine.etc / "hosts"
            file.write_text(file.read_text() + ("" if machine.index == 1 else "10.77.0.1 host1\n"))
        self.works(bed, environment=self.HERE)
        self.works(bed, options=static("host1"), environment={**self.HERE, "MASTER_PORT": "29500"})

    def test_n3_service_and_pod(self):
        bed = self.bed(2)
        bed.name("10.77.0.1 pod-0 pod-0.service\n")
        self.works(bed, endpoint="pod-0.service", environment=self.HERE)

    def test_n4_reverse_names_lie(self):
        bed = self.bed(2)
        bed.name("10.77.0.9 right.example\n10.77.0.1 wrong.example\n10.77.0.2 wrong.example\n")
        job = self.job(bed=bed, endpoint="10.77.0.1:29400")
        job.until_works()
        self.kill_worker(job.worker_on(bed[2]))
        job.until_works(1)
        job.finish()
        job.expect(0)
        self.assertIn("10.77.0.2", job.said(bed[1]))
        self.assertNotIn("wrong.example", job.log())

    def test_n6_ipv6_alone(self):
        here = {"MASTER_ADDR": "fd77::1", "GLOO_SOCKET_IFNAME": "eth0"}
        bed = self.bed(3, family="6")
        self.works(bed, endpoint="[fd77::1]:29500", environment=here)
        self.works(bed, environment=here)
        self.works(bed, options=static("fd77::1"), environment={**here, "MASTER_PORT": "29500"})

    def test_n6_link_local(self):
        self.works(self.bed(2, family="6"), endpoint="[fe80::1%eth0]:29500", environment={"GLOO_SOCKET_IFNAME": "eth0"})

    def test_n6_loopback_of_either_family(self):
        """Two agents of one machine, without a key."""
        for family, endpoint in (("6", "[::1]:29500"), ("4", "127.0.0.1:29500"), ("4", "localhost")):
            with self.subTest(endpoint=endpoint):
                bed = self.bed(1, family=family)
                job = self.job(bed=bed, start=False, endpoint=endpoint, worker=("--steps", "5"))
                agents = [job.start(bed[1], **{"nnodes": 2, "node-rank": rank}, env={"LOCKSTEP_RUN_KEY": ""}) for rank in (0, 1)]
                self.assertEqual([agent.wait(20) for agent in agents], [0, 0], job.log())
                job.expect(0)
                self.assertEqual({w.environment["MASTER_ADDR"] for w in job.witness.of(0)}, {"127.0.0.1"})

    def test_n7_one_family_is_dead(self):
        for dead, master in (("ip6", "10.77.0.1"), ("ip", "fd77::1")):
            with self.subTest(dead=dead):
                bed = self.bed(2, family="both")
                bed.rules(f"ether type {dead} drop")
                self.works(bed, environment={"MASTER_ADDR": master})

    def test_n8_an_interface_that_leads_nowhere(self):
        bed = self.bed(2)
        for machine in bed:
            machine.space.ip("link add name docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up")
        self.works(bed, environment=self.HERE)
        for machine in bed:
            machine.space.ip(f"addr add 10.78.0.{machine.index}/24 dev eth0")
        for endpoint in ("10.78.0.1", "host1"):  # the second by the other network
            job = self.job(bed=bed, start=False, worker=("--steps", "5"), endpoint=endpoint)
            for machine in bed:
                job.start(machine, **{"local-addr": f"10.78.0.{machine.index}"})
            job.expect(0)
            self.assertEqual({w.environment["MASTER_ADDR"] for w in job.witness.of(0)}, {"10.78.0.1"})

    def test_n9_a_loopback_endpoint_on_each(self):
        bed = self.bed(2)
        begun = time.monotonic()
        job = self.job(bed=bed, endpoint="localhost:29500", conf=f"{QUICK},join_timeout=9")
        self.told(job, {1: ["localhost.*this machine"], 2: ["localhost.*this machine"]})
        self.told(job, {2: ["localhost:29500 is not reached: .*node 0 leads.*start one with --node-rank 0 on this machine.*"
                            r"goes on trying for [0-4]\.\d s \(--rdzv-conf join_timeout\)"]}, SOON + 4)
        job.expect(69, seconds=15)
        self.assertRegex(job.said(bed[1]), r"not all nodes came to the launcher at localhost:29500 within 9\.0 s .*missing: node 1 \(never seen\)")
        self.assertRegex(job.said(bed[2]), r"localhost:29500 was not reached within 9\.0 s \(--rdzv-conf join_timeout\): .*start one with --node-rank 0")
        self.assertGreater(time.monotonic() - begun, 8)

    def test_n9_an_endpoint_where_each_would_lead(self):
        bed = self.bed(2)
        bed.name("10.77.0.1 train\n10.77.0.2 train\n")
        for endpoint, says in (("train", "'train' leads to 2 addresses"), ("10.77.0.255", "broadcast"), ("224.0.0.1", "multicast"), ("0", "any")):
            with self.subTest(endpoint=endpoint):
                job = self.job(bed=bed, endpoint=endpoint)
                self.told(job, {1: [says], 2: [says]})
                job.expect(69 if endpoint == "train" else 2)  # an earlier pod's address may be among a name's for a while
        bed.name("127.0.1.1 job\n")
        job = self.job(bed=bed, endpoint="job", conf=f"{QUICK},join_timeout=9")
        self.told(job, {i: ["'job' leads to 127.0.1.1 on this machine.*/etc/hosts"] for i in (1, 2)})
        self.told(job, {i: [r"waiting for node .*, [0-4]\.\d s left \(--rdzv-conf join_timeout\); this launcher leads at job:29400"] for i in (1, 2)}, SOON + 4)
        job.expect(69, seconds=15)

    def test_n10_unset_variables(self):
        bed = self.bed(1)
        for options in ({"rdzv-endpoint": ":29500"}, {**STATIC, "master-addr": ""}, {"rdzv-endpoint": ""}, {"node-rank": ""}):
            with self.subTest(options=options):
                job = self.job(bed=bed, start=False)
                self.assertEqual(job.start(bed[1], nnodes=2, **options).wait(5), 2, job.log())
                self.assertEqual(job.said(bed[1]).count("error: "), 1)


class Ports(Case):
    CLOSED = ("ct state established accept", "tcp dport 29400 accept")

    def test_p1_the_endpoints_port_is_enough(self):
        """In the static form; the workers here use the store alone."""
        bed = self.bed(3)
        for machine in bed:
            machine.firewall(*self.CLOSED, "meta l4proto tcp iifname eth0 drop")
        self.works(bed, options=static("host1", 29400), worker=("--steps", "5", "--by-store"))

    def test_p1_a_port_for_the_store(self):
        bed = self.bed(2)
        for machine in bed:
            machine.firewall(*self.CLOSED, "tcp dport 29401 accept", "meta l4proto tcp iifname eth0 reject with tcp reset")
        self.works(bed, options={"rdzv-backend": "c10d", "store-port": 29401}, worker=("--steps", "5", "--by-store"),
                   environment={"MASTER_PORT": "29401"})

    def test_p2_the_given_port_is_taken(self):
        bed = self.bed(2)
        text = "import socket, time; s = socket.create_server(('', 29500)); print(flush=True); time.sleep(60)"
        holder = bed[1].start("python3", "-c", text, stdout=-1)
        holder.stdout.readline()
        job = self.job(bed=bed, options=static("host1"), conf=f"{QUICK},join_timeout=9")
        job.until_said(bed[1], r"29500.* \(process \d+: .*python", SOON + SLACK)
        holder.kill()
        holder.communicate()

    def test_p3_another_run_at_the_same_endpoint(self):
        bed = self.bed(2)
        first = self.job(bed=bed)
        first.until_works()
        second = [bed[i].start(*first.command(bed[i], **{"rdzv-id": "second"}), env=first.environment(), stderr=-1, text=True) for i in (1, 2)]
        for agent in second:
            told = agent.communicate(timeout=SOON)[1]
            self.assertEqual(agent.returncode, 69, told)
            self.assertRegex(told, r"('second'.*'test'|'test'.*'second').* has been there for \d+\.\d s")
        self.assertEqual(first.until_works(), 0)
        first.finish()
        first.expect(0)

    def test_p4_an_agent_of_an_earlier_run(self):
        """Stopped while its run ends; the id is used again, and the new run notices nothing of it."""
        bed = self.bed(3)
        job = self.job(bed=bed, machines=(1, 2))
        job.until_works()
        old = job.agents.pop(bed[2])
        old.send_signal(signal.SIGSTOP)
        job.agents[bed[1]].send_signal(signal.SIGTERM)
        job.expect_codes(143)
        job.witness.wait(lambda: not job.witness.alive(), "the end of the old workers", 10)
        again = self.job(bed=bed, machines=(1, 3))
        again.until_works()
        old.send_signal(signal.SIGCONT)
        self.assertIn(old.wait(3 * SOON), (69, 143))
        self.assertEqual(again.until_works(), 0)
        again.finish()
        again.expect(0)
        self.assertEqual([line for line in again.warnings().get("host3", [])], [])


class WhoIsWho(Case):
    def ranks(self, found):
        return {one["HOSTNAME"]: one["GROUP_RANK"] for one in found}

    def test_w1_ranks_against_addresses(self):
        for options in ({"rdzv-backend": "c10d"}, {"rdzv-backend": "static"}, static("host1")):
            with self.subTest(options=options):
                found = self.works(self.bed(3), machines=(3, 2, 1), endpoint="host1:29400", options=options)
                self.assertEqual(self.ranks(found), {"host3": "0", "host2": "1", "host1": "2"})
                self.assertEqual([one["MASTER_ADDR"] for one in found], ["10.77.0.3"] * 3)

    def test_w1_without_ranks(self):
        found = self.works(self.bed(3), machines=(2, 1, 3), options={"node-rank": None})
        self.assertEqual(self.ranks(found)["host2"], "0")
        self.assertEqual(sorted(self.ranks(found).values()), ["0", "1", "2"])

    def refused(self, count, each, patterns, codes, **more):
        job = self.given_apart(count, *each, conf=f"{QUICK},join_timeout=8", **more)
        self.told(job, {index: patterns for index in range(1, count + 1)})
        for machine, code in codes.items():
            self.assertEqual(job.agents[job.bed[machine]].wait(15), code, job.log())

    def test_w1_ranks_on_some(self):
        self.refused(2, ({}, {"node-rank": None}), ["--node-rank", "host1|10.77.0.1", "host2|10.77.0.2"], {2: 2})

    def test_w2_ids_differ(self):
        self.refused(2, ({"rdzv-id": "17"}, {"rdzv-id": "42"}), ["'17'", "'42'"], {2: 69})

    def test_w3_one_rank_twice(self):
        self.refused(2, ({"node-rank": 1, "nnodes": 3}, {"node-rank": 1, "nnodes": 3}), ["node rank 1.*10.77.0"], {2: 2})
        self.refused(2, ({"node-rank": 0}, {"node-rank": 0}), ["node rank 0.*host1|10.77.0.1", "10.77.0.2"], {2: 2})

    def test_w4_unequal_numbers(self):
        bed = self.bed(3)
        job = self.job(bed=bed, start=False, worker=("--steps", "5"))
        for machine in bed:
            job.start(machine, **{"nproc-per-node": machine.index})
        job.expect(0)
        found = [w.environment for w in job.witness.of(0)]
        self.assertEqual([(one["HOSTNAME"], one["LOCAL_RANK"], one["LOCAL_WORLD_SIZE"], one["WORLD_SIZE"], one["ROLE_RANK"]) for one in found],
                         [(f"host{i}", str(k), str(i), "6", str(i * (i - 1) // 2 + k)) for i in (1, 2, 3) for k in range(i)])

    def test_w5_options_differ(self):
        other = f"keep_alive_interval=1,keep_alive_max_attempt=3,join_timeout=8"
        for name, values in (("nnodes", (2, 3)), ("max-restarts", (1, 2)), ("rdzv-conf", (f"{QUICK},join_timeout=8", other))):
            with self.subTest(option=name):
                shown = [str(value) for value in values] if name != "rdzv-conf" else ["2 s", "3 s"]
                self.refused(2, ({name: values[0]}, {name: values[1]}), [f"--{name}.*{word}" for word in shown] + ["host1", "host2"], {2: 2})

    def test_w5_arguments_differ(self):
        """It may be meant: a warning, once."""
        bed = self.bed(2)
        job = self.job(bed=bed, start=False)
        for machine in bed:
            job.worker = ("--steps", "5", "--pace", f"0.0{machine.index}")
            job.start(machine)
        job.expect(0)
        self.assertEqual(sum(len(lines) for lines in job.warnings().values()), 1, job.warnings())
        self.assertRegex(str(job.warnings()), "host2.*--pace 0.02.*host1.*--pace 0.01")

    def test_w6_an_operators_variables(self):
        wrong = {"RANK": 7, "WORLD_SIZE": 9, "NODE_RANK": 5, "LOCAL_RANK": 3, "GROUP_RANK": 8, "MASTER_ADDR": "nowhere.example", "MASTER_PORT": 1}
        found = self.works(self.bed(2), env=wrong)
        self.assertEqual([(one["RANK"], one["WORLD_SIZE"], one["LOCAL_RANK"], one["GROUP_RANK"], one["MASTER_ADDR"]) for one in found],
                         [("0", "2", "0", "0", "10.77.0.1"), ("1", "2", "0", "1", "10.77.0.1")])


if __name__ == "__main__":
    parallel.main()
