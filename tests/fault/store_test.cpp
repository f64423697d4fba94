// The store that the launcher serves to plain programs: who gets it, at which port, for how long,
// and what others can do to it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <thread>

#include "base/processes.h"
#include "base/unique_fd.h"
#include "fault/plain_support.h"
#include "gmock/gmock.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

UniqueFd connection(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fd.reset();
  return fd;
}

// "address:port", both in hexadecimal, of all that the process listens on.
std::set<std::string> listeners_of(pid_t pid) {
  std::set<std::string> links, found;
  std::error_code error;
  const std::string process = "/proc/" + std::to_string(pid);
  for (const auto& fd : std::filesystem::directory_iterator(process + "/fd", error))
    links.insert(std::filesystem::read_symlink(fd.path(), error).string());
  for (const std::string table : {"/net/tcp", "/net/tcp6", "/net/udp", "/net/udp6"}) {
    std::istringstream lines(read_text(process + table));
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream fields(line);
      std::string number, address, other, state, inode;
      fields >> number >> address >> other >> state;
      for (int i = 0; i < 6; ++i) fields >> inode;
      const bool ours = links.contains("socket:[" + inode + "]");
      if (ours && (state == "0A" || table.starts_with("/net/udp"))) found.insert(address);
    }
  }
  return found;
}

// As /proc/net/tcp has it on this machine.
std::string at_loopback(int port) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%08X:%04X", htonl(INADDR_LOOPBACK),
                static_cast<unsigned>(port));
  return text.data();
}

std::size_t kib_of(pid_t pid, const std::string& field) {
  std::istringstream lines(read_text("/proc/" + std::to_string(pid) + "/status"));
  std::string line;
  while (std::getline(lines, line))
    if (line.starts_with(field + ":")) return std::stoul(line.substr(field.size() + 1));
  return 0;
}

// A client in a few lines of Python, which every machine that runs these tests has.
const std::string kClient = R"(import os, socket, struct, sys
attempt, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
port = int(os.environ["MASTER_PORT"])
def text(word): return struct.pack("q", len(word)) + word
class Store:
    def __init__(self):
        self.s = socket.create_connection((os.environ["MASTER_ADDR"], port), 10)
        self.s.sendall(b"\0" + struct.pack("I", 0x3C85F7CE))
    def set(self, key, value):
        self.s.sendall(b"\1" + text(key) + text(value))
        self.keys()
    def keys(self):
        self.s.sendall(b"\7")
        return struct.unpack("q", self.s.recv(8, socket.MSG_WAITALL))[0]
    def wait(self, key):
        self.s.sendall(b"\6" + struct.pack("q", 1) + text(key))
        assert self.s.recv(1) == b"\0"
def say(*words): sys.stdout.write(" ".join(map(str, words)) + "\n"); sys.stdout.flush()
)";

class StoreOfPlain : public Plain {
 protected:
  std::string client(const std::string& text) const { return script("client.py", kClient + text); }
  // Lines of a run with several attempts; each sees no key of the one before.
  std::vector<std::string> ports_of_attempts(const Words& options,
                                             const Child::Variables& variables = {}) const {
    const std::string program = client(R"(
store = Store()
if rank == 0: say("port", port, store.keys())
store.wait(b"go") if rank != 0 else store.set(b"go", b"")
store.set(b"stale of %d" % rank, b"x")
sys.exit(3 if attempt < 2 and rank == 0 else 0)
)");
    Words words{"--nproc-per-node", "3", "--max-restarts", "2"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome outcome = launch(words, {program}, variables);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    std::vector<std::string> ports;
    for (std::string word, port, keys; lines >> word >> port >> keys;) {
      ports.push_back(port);
      EXPECT_LE(std::stoi(keys), 2) << outcome.out;  // of ranks 1 and 2, should they be early
    }
    EXPECT_EQ(ports.size(), 3u) << outcome.out;
    return ports;
  }
};

TEST_F(StoreOfPlain, IsAllThatAOneHostRunListensOn) {
  Child launcher({LOCKSTEP_PROGRAM, "run", "--nproc-per-node", "2", "/bin/sh", "-c",
                  "echo $TORCHELASTIC_USE_AGENT_STORE $MASTER_PORT; exec sleep 65.25"});
  ASSERT_TRUE(launcher.wait_for_output("True "));
  ASSERT_TRUE(launcher.wait_for_output("\n"));
  const int port = std::stoi(launcher.out().substr(5));
  EXPECT_EQ(listeners_of(launcher.pid()), std::set{at_loopback(port)});
  EXPECT_THAT(port_holder(port), HasSubstr("process " + std::to_string(launcher.pid())));
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait().code, 143);
  EXPECT_FALSE(connection(port));
}

#ifndef __SANITIZE_THREAD__  // which leaves no room for the board's address space
TEST_F(StoreOfPlain, IsNotServedToProgramsThatLinkLockstep) {
  Child launcher(command({"--nproc-per-node", "2"}, {"--txns", "1000000"}));
  ASSERT_TRUE(launcher.wait_for_output("step "));
  EXPECT_EQ(listeners_of(launcher.pid()), std::set<std::string>());
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait().code, 143);
  const Outcome refused = run(command({"--store-port", "29531"}, {"--txns", "1"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--store-port is for the store of plain programs"));
}
#endif

TEST_F(StoreOfPlain, IsNewAndEmptyAtAFreshPortInEachAttempt) {
  const auto ports = ports_of_attempts({});
  EXPECT_EQ(std::set(ports.begin(), ports.end()).size(), 3u);
}

TEST_F(StoreOfPlain, IsNewAndEmptyAtAGivenPortToo) {
  const std::string port = std::to_string(free_port());
  const std::vector<std::string> same(3, port);
  EXPECT_EQ(ports_of_attempts({"--master-port", port}), same);
  EXPECT_EQ(ports_of_attempts({"--store-port", port}), same);
  EXPECT_EQ(ports_of_attempts({}, {{"PET_STORE_PORT", port}}), same);
  EXPECT_EQ(ports_of_attempts({"--rdzv-endpoint", "127.0.0.1:" + port}), same);
}

// What lives on from one to the next, as the only one may that cleans up, reads and writes no more.
TEST_F(StoreOfPlain, ConnectionsOfAnAttemptEndWithIt) {
  const std::string port = std::to_string(free_port());
  const std::string program = client(R"(
store = Store()
if attempt == 0:
    ready, named = os.pipe()
    if os.fork() == 0:
        os.setsid()
        open("/proc/self/comm", "w").write("torch_shm_manager")
        os.write(named, b"x")
        try: ended = store.s.recv(1) == b""
        except OSError: ended = True
        open(sys.argv[1], "w").write("ended" if ended else "goes on")
        os._exit(0)
    os.close(named)
    os.read(ready, 1)  # by its name it is spared
    sys.exit(3)
import time
for _ in range(1000):
    if os.path.exists(sys.argv[1]) and open(sys.argv[1]).read(): break
    time.sleep(0.01)
)");
  const Outcome outcome =
      launch({"--max-restarts", "1", "--master-port", port}, {program, folder_ / "seen"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_text(folder_ / "seen"), "ended");
}

TEST_F(StoreOfPlain, IsWhereMasterAddrIs) {
  const std::string program = client(R"(
store = Store()
socket.create_connection(("127.0.0.1", port), 10)
say(os.environ["MASTER_ADDR"], store.keys())
)");
  for (const std::string host : {"127.0.0.1", "localhost", "127.0.0.9", "0.0.0.0"})
    EXPECT_EQ(launch({"--master-addr", host}, {program}).out, host + " 0\n") << host;
  const Outcome other =
      launch({"--master-addr", "192.0.2.1"},
             {"/bin/sh", "-c", "echo $MASTER_ADDR $TORCHELASTIC_USE_AGENT_STORE"});
  EXPECT_EQ(other.out, "192.0.2.1 False\n");
  EXPECT_THAT(other.err, HasSubstr("MASTER_ADDR 192.0.2.1 is no address of this machine"));
}

TEST_F(StoreOfPlain, WhoWantsToServeItMay) {
  const Child::Variables own{{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}};
  const std::string program = client(R"(
serve = socket.socket()
serve.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
serve.bind(("0.0.0.0", port))
serve.listen()
say(os.environ["TORCHELASTIC_USE_AGENT_STORE"], port)
)");
  const std::string port = std::to_string(free_port());
  EXPECT_EQ(launch({"--master-port", port}, {program}, own).out, "False " + port + "\n");
  EXPECT_EQ(launch({"--store-port", port}, {program}, own).out, "False " + port + "\n");
  EXPECT_THAT(launch({}, {program}, own).out, HasSubstr("False "));
  EXPECT_EQ(launch({}, {program}, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0"}}).code, 1);
}

TEST_F(StoreOfPlain, WhoHasTheGivenPortIsSaid) {
  Child other({LOCKSTEP_PROGRAM, "run", "/bin/sh", "-c", "echo $MASTER_PORT; exec sleep 66.25"});
  ASSERT_TRUE(other.wait_for_output("\n"));
  const std::string port = std::to_string(std::stoi(other.out()));
  for (const Child::Variables& variables :
       {Child::Variables{}, {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}}}) {
    const Outcome refused = launch({"--master-port", port}, {"/bin/true"}, variables);
    EXPECT_EQ(refused.code, 69);
    EXPECT_THAT(refused.err, HasSubstr(port));
    EXPECT_THAT(refused.err, HasSubstr("Address already in use (process " +
                                       std::to_string(other.pid()) + ": " + LOCKSTEP_PROGRAM));
  }
  const Outcome differ = launch({"--store-port", "1", "--master-port", port}, {"/bin/true"});
  EXPECT_EQ(differ.code, 2);
  EXPECT_THAT(differ.err, HasSubstr("--store-port 1 and MASTER_PORT " + port));
  EXPECT_EQ(launch({"--store-port", "65536"}, {"/bin/true"}).code, 2);
  other.send(SIGKILL);
}

// Ours may be more, for connections.
TEST_F(StoreOfPlain, WorkersHaveTheLimitOfDescriptorsThatWeWereGiven) {
  const Outcome outcome =
      run({"/bin/sh", "-c", "ulimit -Sn 200; exec \"$0\" run /bin/sh -c 'ulimit -Sn'",
           LOCKSTEP_PROGRAM});
  EXPECT_EQ(outcome.out, "200\n") << outcome.err;
}

TEST_F(StoreOfPlain, PythonsClientHasTheOutcomesOfPyTorchsServer) {
  const std::string python = torch_python();
  if (python.empty()) GTEST_SKIP() << "skipped: no python3 with torch";
  const Outcome outcome =
      launch({"--nproc-per-node", "3"}, {STORE_CLIENT}, {{"PYTHON_EXEC", python}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("outcomes alike\n"));
  EXPECT_THAT(outcome.out, HasSubstr("well\nwell\nwell\n"));
}

// Whatever comes to the port, again and again: half-open connections, garbage, giant lengths,
// values that never end, answers that nobody takes.
void attack(int port, int seed, const std::atomic<bool>& goes_on) {
  const std::string hello("\0\xCE\xF7\x85\x3C", 5),
      giant = "\x01" + std::string(8, '\x7f'),
      endless =
          std::string("\x01\x01\0\0\0\0\0\0\0k\0\0\x7f\0\0\0\0\0", 18) + std::string(1 << 20, 'v'),
      list = "\x11";
  std::string lists = hello;
  for (int i = 0; i < 20'000; ++i) lists += list;
  const std::vector<std::string> words{"",
                                       "GET / HTTP/1.1\r\n\r\n",
                                       "\x16\x03\x01\x02",
                                       hello,
                                       hello + giant,
                                       hello + endless,
                                       hello + "\x7f",
                                       lists};
  std::deque<UniqueFd> open;
  for (std::size_t i = static_cast<std::size_t>(seed); goes_on; ++i) {
    UniqueFd fd = connection(port);
    const std::string& word = words[i % words.size()];
    if (fd) (void)::send(fd.get(), word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    open.push_back(std::move(fd));
    if (open.size() > 150) open.pop_front();
  }
}

TEST_F(StoreOfPlain, OutlivesRankZeroAndAFlood) {
  const std::string python = torch_python();
  if (python.empty()) GTEST_SKIP() << "skipped: no python3 with torch";
  Child launcher({LOCKSTEP_PROGRAM, "run", "--nproc-per-node", "3", STORE_TRAIN, folder_ / "stop"},
                 {{"PYTHON_EXEC", python}});
  ASSERT_TRUE(launcher.wait_for_output("trains at "));
  ASSERT_TRUE(launcher.wait_for_output("\n"));
  const int port = std::stoi(launcher.out().substr(10));
  std::atomic<bool> goes_on = true;
  std::vector<std::thread> attackers;
  for (int i = 0; i < 2; ++i) attackers.emplace_back([&, i] { attack(port, i * 3, goes_on); });
  std::this_thread::sleep_for(3s);
  [[maybe_unused]] const std::size_t most = kib_of(launcher.pid(), "VmHWM");
  std::ofstream(folder_ / "stop") << "now";
  const bool trained = launcher.wait_for_output("steps ", 30s);
  goes_on = false;
  for (std::thread& attacker : attackers) attacker.join();
  EXPECT_TRUE(trained);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep what is freed
  EXPECT_LT(most, std::size_t{400} << 10);
#endif
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("went on\nwent on\n"));
}

}  // namespace
}  // namespace lockstep::test
