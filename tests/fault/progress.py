#!/usr/bin/env python3
"""How a run tells how it is getting on: a bar on a terminal that tears no line, a line now and then elsewhere; on standard
error alone.

    progress.py [CLASS[.test] ...]    (environment: harness.py)
"""
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import harness
from harness import CONVNET, LOCKSTEP, LONG, LONGER, SHORT, FaultTest, environment, merged, until

BAR = re.compile(r"\[#*\.*\] +\d+ %  step \d+/\d+ .*loss \d+\.\d{4}  \d workers?")


def shown(text):
    """The lines as they stand on the terminal in the end."""
    screen = []
    for line in text.replace("\r\n", "\n").split("\n"):
        cells, at = "", 0
        for part in re.split(r"(\r|\x1b\[K)", line):
            if part == "\r":
                at = 0
            elif part == "\x1b[K":
                cells = cells[:at]
            else:
                cells = cells[:at] + part + cells[at + len(part):]
                at += len(part)
        screen.append(cells)
    return screen


TWO_EPOCHS = LONG + ("--epochs", 2)


class Progress(FaultTest):
    def on_terminal(self, command, both, columns=160):
        """(exit code, standard output, what the terminal got); `both`: standard output is the terminal, too."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        out = open(self.folder / "out", "w+b")
        self.addCleanup(out.close)
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=theirs if both else out,
                                   stderr=theirs, env=environment(TERM="xterm"), cwd=harness.scratch())
        os.close(theirs)
        got = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            got += part
        os.close(ours)
        out.seek(0)
        return process.wait(60), out.read().decode(), got.decode()

    def command(self, name, workers, options, launcher=()):
        recipe = [CONVNET, *merged(harness.BASE, ("--output", self.folder / name), options)]
        return recipe if workers is None else [LOCKSTEP, "run", "--standalone", "--nproc-per-node", workers, *launcher, *recipe]

    def test_on_a_terminal(self):
        for workers in (2, None):
            with self.subTest(workers=workers):
                plain = subprocess.run([str(w) for w in self.command(f"plain{workers}", workers, TWO_EPOCHS)], capture_output=True, text=True,
                                       env=environment(), cwd=harness.scratch())
                self.assertNotIn("[#", plain.stdout + plain.stderr)
                code, out, terminal = self.on_terminal(self.command(f"err{workers}", workers, TWO_EPOCHS), both=False)
                self.assertEqual((code, self.steady(out)), (0, self.steady(plain.stdout)))
                self.assertRegex(terminal, BAR)
                self.assertNotRegex("\n".join(shown(terminal)), BAR, "it goes in the end")
                code, _, terminal = self.on_terminal(self.command(f"both{workers}", workers, TWO_EPOCHS), both=True)
                self.assertEqual(code, 0)
                self.assertRegex(terminal, BAR)
                lines = [line for line in shown(terminal) if line and not line.startswith("lockstep: ")]
                self.assertEqual(self.steady("\n".join(lines)), self.steady(plain.stdout.rstrip("\n")), "no line is torn")

    def test_incidents_are_counted(self):
        command = self.command("killed", 3, LONGER, ("--inject", "kill rank=1 txn=3"))
        code, _, terminal = self.on_terminal(command, both=False)
        self.assertEqual(code, 0)
        self.assertRegex(terminal, r"  3 workers  1 incident")
        self.assertRegex("\n".join(shown(terminal)), r"(?m)^lockstep: warning: rank 1 .* died \(SIGKILL\)")

    def test_nothing_when_it_is_off_or_the_terminal_is_dumb(self):
        for command in (self.command("off", 2, SHORT, ("--progress", "off")),
                        ["env", "TERM=dumb", *self.command("dumb", 2, SHORT)]):
            code, _, terminal = self.on_terminal(command, both=True)
            self.assertEqual(code, 0, terminal)
            self.assertIn("weights sha256", terminal)
            self.assertNotIn("\x1b", terminal)

    def test_lines_elsewhere(self):
        endless = LONG + ("--epochs", 100000)
        for workers, name in ((2, "lines"), (None, "alone")):
            with self.subTest(workers=workers):
                command = self.command(name, workers, endless, ("--progress", 1))
                path = self.folder / f"{name}.err"
                with open(path, "wb") as err:
                    process = subprocess.Popen([str(w) for w in command], stdout=subprocess.DEVNULL, stderr=err, cwd=harness.scratch(),
                                               env=environment(LOCKSTEP_PROGRESS="1"))
                    self.addCleanup(process.kill)  # it has no end of its own
                    said = r"(?m)^lockstep: step \d+/\d+  .*samples/s  ETA \d+:\d\d:\d\d  loss \d+\.\d{4}  \d workers?$"
                    until(lambda: len(re.findall(said, path.read_text())) > 1, "two lines of progress")
                    process.send_signal(signal.SIGTERM)
                    process.wait(60)
                self.assertNotIn("\x1b", path.read_text())

    def test_wrong_wishes(self):
        for command, env, blamed in ((self.command("x", 2, SHORT, ("--progress", "on")), {}, "--progress"),
                                     (self.command("x", None, SHORT), {"LOCKSTEP_PROGRESS": "0"}, "LOCKSTEP_PROGRESS")):
            done = subprocess.run([str(w) for w in command], capture_output=True, text=True, env=environment(**env), cwd=harness.scratch())
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{blamed} takes auto, off, or whole seconds", done.stderr)

    @staticmethod
    def steady(text):
        return re.sub(r"Training complete in: .*", "Training complete in", text.strip())


if __name__ == "__main__":
    harness.main()
