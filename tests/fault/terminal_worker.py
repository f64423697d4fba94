"""A single worker at a terminal: it reads what is typed, and ^C, ^Z and ^\\ mean what they mean without the launcher.

Usage: terminal_worker.py; LOCKSTEP_PROGRAM names the launcher.
"""
import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LOCKSTEP = os.environ["LOCKSTEP_PROGRAM"]


class Terminal:
    """A session with a terminal of its own, in which a shell runs the launcher as a job."""

    def __init__(self, folder, script, *options, shell=False):
        with open(folder + "/t.py", "w") as file:
            file.write(script)
        command = [LOCKSTEP, "run", *options, "t.py"]
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            if shell:
                os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
            os.execv(LOCKSTEP, command)
        self.text = ""
        if shell:
            self.type("PS1='$ '; stty -echo\n" + " ".join(command) + "\n")

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            part = os.read(self.fd, 4096)
        except OSError:  # nobody has it open any more
            return False
        self.text += part.decode(errors="replace")
        return bool(part)

    def wait_for(self, text, seconds=30):
        """What came before the text."""
        end = time.time() + seconds
        while text not in self.text:
            if time.time() > end or not self.read(0.1):
                raise AssertionError(f"no {text!r} in {self.text!r}")
        before, self.text = self.text.split(text, 1)
        return before

    def shows(self, command, text, seconds=0.2):
        """Whether it is said within so long, if it is asked for again and again."""
        self.type(command)
        end = time.monotonic() + seconds
        while text not in self.text and time.monotonic() < end:
            if not self.read(0.05):
                break
        return text in self.text

    def end(self, seconds=30):
        """The exit code."""
        end = time.time() + seconds
        while time.time() < end:
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                while self.read(0):
                    if not select.select([self.fd], [], [], 0)[0]:
                        break
                os.close(self.fd)
                self.pid = None
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"no end: {self.text!r}")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self.fd)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(") ", 1)[1][0]


def is_pending(pid, number):
    with open(f"/proc/{pid}/status") as file:
        masks = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def wait_until(what, seconds=30):
    end = time.time() + seconds
    while not what():
        if time.time() > end:
            raise AssertionError("the worker is not as it should be")
        time.sleep(0.01)


class AtATerminal(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.terminal = None

    def tearDown(self):
        if self.terminal:
            self.terminal.close()
        subprocess.run(["rm", "-rf", self.folder], check=True)

    def start(self, script, *options, **more):
        self.terminal = Terminal(self.folder, script, *options, **more)
        return self.terminal

    def test_input(self):
        t = self.start("print('got', input('? '), open('/dev/tty').isatty())\n")
        t.wait_for("? ")
        t.type("hello\n")
        t.wait_for("got hello True")
        self.assertEqual(t.end(), 0)

    def test_two_workers_have_no_terminal(self):
        t = self.start("import sys; print('end' if sys.stdin.read() == '' else 'text')\n", "--nproc-per-node", "2")
        t.wait_for("end")
        t.wait_for("end")
        self.assertEqual(t.end(), 0)

    def test_interrupt_is_a_keyboard_interrupt_once(self):
        t = self.start("""import time
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("saved", flush=True)
    time.sleep(0.5)   # a second one would show here
    print("whole", flush=True)
""")
        t.wait_for("up")
        t.type("\x03")
        t.wait_for("whole")
        self.assertEqual(t.end(), 130)

    def test_who_does_not_catch_it_dies_of_it(self):
        t = self.start("import time; print('up', flush=True); time.sleep(60)\n", "--max-restarts", "3")
        t.wait_for("up")
        t.type("\x03")
        self.assertEqual(t.end(), 130)
        self.assertNotIn("FAILED", t.text)

    def test_the_debugger_goes_on_after_it(self):
        t = self.start("x = 41\nbreakpoint()\nprint('sum', x + 1)\n")
        t.wait_for("(Pdb)")
        time.sleep(0.5)  # until readline listens: what is typed before may get lost, launcher or not
        t.type("\x03")
        t.wait_for("(Pdb)")
        t.type("p x\n")
        t.wait_for("41")
        t.type("c\n")
        t.wait_for("sum 42")
        t.end()

    def test_who_insists_is_heard(self):
        t = self.start("import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)\n")
        t.wait_for("up")
        end = time.monotonic() + 30
        with contextlib.suppress(OSError):  # it may be one too many
            while not t.shows("\x03", "once more", 0.5) and time.monotonic() < end:  # two that come at once are one signal
                pass
            t.type("\x03")
        t.wait_for("once more")
        self.assertEqual(t.end(10), 130)

    def test_quit_ends_it(self):
        t = self.start("import time; print('up', flush=True); time.sleep(60)\n")
        t.wait_for("up")
        t.type("\x1c")
        self.assertEqual(t.end(10), 131)

    def test_suspended_and_continued_by_a_shell(self):
        t = self.start("import os\nprint('pid', os.getpid(), end='.', flush=True)\n"
                       "print('got', input('? '))\n", shell=True)
        t.wait_for("pid ")
        worker = int(t.wait_for("."))
        t.wait_for("? ")
        t.type("\x1a")
        t.wait_for("Stopped")
        wait_until(lambda: state_of(worker) == "T")  # "Stopped" is the launcher: the worker may still read
        t.type("echo $((40 + 2))\n")  # the shell reads, and not the worker
        t.wait_for("42")
        t.type("bg; echo $((50 + 1))\n")  # in the background it may not read: it stops again
        t.wait_for("51")
        wait_until(lambda: state_of(worker) == "T")
        wait_until(lambda: t.shows("jobs\n", "Stopped"))  # the shell knows it: what it takes for running fg does not continue
        t.type("fg\n")
        wait_until(lambda: state_of(worker) == "S")
        t.type("hello\n")
        t.wait_for("got hello")
        t.type("exit $?\n")
        self.assertEqual(t.end(), 0)

    def test_continued_after_its_worker(self):
        """As bg does where the worker is faster: the launcher's new stop is taken back by the signal that continues it."""
        t = self.start("import os\nprint('pid', os.getpid(), os.getppid(), end='.', flush=True)\n"
                       "print('got', input('? '))\n", shell=True)
        t.wait_for("pid ")
        worker, launcher = map(int, t.wait_for(".").split())
        t.wait_for("? ")
        t.type("\x1a")
        t.wait_for("Stopped")
        wait_until(lambda: state_of(worker) == "T")
        os.kill(worker, signal.SIGCONT)  # it reads, and is in the background
        wait_until(lambda: is_pending(launcher, signal.SIGTTIN))
        self.assertEqual(state_of(worker), "T")
        os.kill(launcher, signal.SIGCONT)
        wait_until(lambda: state_of(launcher) == "T")
        wait_until(lambda: t.shows("jobs\n", "Stopped"))
        t.type("fg\n")
        wait_until(lambda: state_of(worker) == "S")
        t.type("hello\n")
        t.wait_for("got hello")
        t.type("exit $?\n")
        self.assertEqual(t.end(), 0)


if __name__ == "__main__":
    if not sys.platform.startswith("linux"):
        sys.exit(77)
    unittest.main()
