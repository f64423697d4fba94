"""Machines on a switch."""
import functools
import json
import os
import shutil
import subprocess
import sys

from hosts.machine import FIREWALL, Machine
from hosts.namespaces import COVERED, Missing, Namespaces

# What is cut, as pairs of ports of the switch, with counts of what was dropped.
NETWORK = ("table bridge network {", "set cut { type ifname . ifname; counter; }", "chain rules { }",
           "chain forward { type filter hook forward priority 0", "iifname . oifname @cut drop", "jump rules", "}", "}")
NO_IPV6 = "for x in all lo eth0; do echo 1 >/proc/sys/net/ipv6/conf/$x/disable_ipv6; done"


class Bed:
    """`count` machines, host1 to hostN; bed[1] is the first. As many beds at once as one likes.

    folder  what is /srv in all of them: in memory, gone with the bed
    family  addresses: "4" 10.77.0.I without IPv6, "6" fd77::I alone, "both"
    names   /etc/hosts of each: "right" all machines; "own" its own name alone, as 127.0.1.1, as Debian has it; "none"
    """

    def __init__(self, count, family="4", names="right"):
        self.family, self.machines, self.switch = family, {}, None
        try:
            self.switch = Namespaces()
            self.folder = self.switch.folder
            self.switch.ip("link add name bridge0 type bridge", "link set bridge0 up")
            self.switch.nft(*NETWORK)
            self.machines = {index: Machine(self, index) for index in range(1, count + 1)}
            self.name(names)
            for machine in self:
                machine.boot()
        except BaseException:
            self.close()
            raise

    def close(self):
        for machine in self:
            machine.off()
        if self.switch:
            self.switch.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getitem__(self, index):
        return self.machines[index]

    def __iter__(self):
        return iter(self.machines.values())

    def name(self, how):
        """Writes the machines' /etc/hosts, as `names` says or, if it is none of those words, this text; at any time."""
        right = "".join(f"{address} {m.name}\n" for m in self for address in dict.fromkeys([m.address, *([m.v6] if self.family == "both" else [])]))
        local = "127.0.0.1 localhost\n" if self.family == "4" else "127.0.0.1 localhost\n::1 localhost\n"
        for machine in self:
            said = {"right": right, "own": f"127.0.1.1 {machine.name}\n", "none": ""}.get(how, how)
            (machine.etc / "hosts").write_text(local + said)

    def program(self, name, text):
        """A script that all machines have as /srv/NAME."""
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def plug(self, machine):
        i, link = machine.index, f"02:77:00:00:00:{machine.index:02x}"
        self.switch.ip(f"link add name p{i} type veth peer name eth0 address {link} netns {machine.space.first}",
                       f"link set p{i} master bridge0 up")
        machine.space.ip("link set eth0 addrgenmode none up",
                         *([f"addr add {machine.v4}/24 dev eth0"] if self.family != "6" else []),
                         *([f"addr add {machine.v6}/64 dev eth0 nodad", f"addr add fe80::{i:x}/64 dev eth0 nodad"] if self.family != "4" else []))
        if self.family == "4":
            machine.space.tell(["sh", "-c", NO_IPV6])
        machine.space.nft(*FIREWALL)

    def unplug(self, machine):
        self.switch.ip(f"link set p{machine.index} down", f"link del p{machine.index}")

    # What the network does to them; `a` and `b` are numbers of machines
    def cut_one_way(self, a, b):
        """Nothing goes from one of `a` to one of `b`: no reset, no answer to who asks for an address either."""
        pairs = ", ".join(f'"p{i}" . "p{j}"' for i in a for j in b if i != j)
        self.switch.nft(f"add element bridge network cut {{ {pairs} }}")

    def cut(self, a, b):
        self.cut_one_way(a, b)
        self.cut_one_way(b, a)

    def isolate(self, index):
        self.cut([index], [j for j in self.machines if j != index])

    def rules(self, *rules):
        """What it does beside cuts, by rules of nftables in place of the last ones: 'meta length > 1000 drop',
        'iifname p1 numgen random mod 100 < 5 drop'."""
        self.switch.nft("flush chain bridge network rules", *(f"add rule bridge network rules {rule}" for rule in rules))

    def heal(self):
        """Ends cuts and rules."""
        self.switch.nft("flush set bridge network cut", "flush chain bridge network rules")

    def dropped(self):
        """How many packets were lost to the cuts since they were made."""
        said = json.loads(self.switch.tell(["nft", "-j", "list", "set", "bridge", "network", "cut"]))["nftables"]
        return sum(element["elem"]["counter"]["packets"] for item in said if "set" in item for element in item["set"].get("elem", []))


def covered(*paths):
    """The first of `paths` that machines would not see, or None."""
    hidden = tuple(f"{folder}/" for folder in COVERED)
    return next((path for path in paths if os.path.realpath(path).startswith(hidden)), None)


def enter():
    """Starts this script again as root of a user namespace, where it is not root; goes on where that cannot be had."""
    again = ["unshare", "--map-root-user"]
    if os.geteuid() != 0 and shutil.which("unshare") and subprocess.run([*again, "true"], capture_output=True).returncode == 0:
        os.execvp("unshare", [*again, sys.executable, *sys.argv])


@functools.cache
def missing():
    """What this system lacks for machines, in words; "" where it has all."""
    for program, package in (("unshare", "util-linux"), ("nsenter", "util-linux"), ("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")):
        if shutil.which(program) is None:
            return f"there is no {program} (package {package}) on this system"
    try:
        with Bed(2) as bed:
            bed.cut([1], [2])
            bed.rules("numgen random mod 100 < 5 drop")
            bed[1].rate("1gbit")
            bed[1].firewall("tcp dport 9 reject with tcp reset", "meta length > 1000 drop")
            bed[1].run("true")
    except (Missing, OSError, subprocess.SubprocessError) as error:
        return f"no machines of namespaces are allowed on this system: {error}"
    return ""
