// One pair of links: how fast bodies go from memory into memory, one way and both ways at once, and
// what that costs.
//
//   links_bench BYTES                            two processes, over the loopback
//   links_bench BYTES listen ADDRESS PORT        one end,
//   links_bench BYTES dial ADDRESS PORT          and the other
//
// JSON, one line for each direction of each case. BYTES: of each direction, at least 64 MiB. Bodies
// are checked, in each case, before it is measured; memory is 64 MiB at each end, so that caches
// help little. `cpu_s_per_gb` is the process's, user and system, over all bytes it has sent and
// received.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "control/sockets.h"
#include "links/links.h"

namespace lockstep {
namespace {

using namespace links;
using namespace std::chrono_literals;

constexpr std::size_t kMemory = std::size_t{64} << 20;
constexpr std::size_t kSizes[] = {4096, 128 * 1024, kMostBodyBytes};
constexpr int kCases = 2 * static_cast<int>(std::size(kSizes));  // of each size one way, both ways

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "links_bench: %s\n", why.c_str());
  std::exit(1);
}

Party party(HostIndex host) { return {1, {host, 1}, host + 1U}; }

class End : public Events {
 public:
  End(HostIndex self, std::uint64_t bytes)
      : self_(self), bytes_(bytes), from_(kMemory), to_(kMemory) {
    for (std::size_t i = 0; i < kMemory; ++i) from_[i] = pattern(i, self);
  }

  void run(const control::Address& address) {
    auto listener =
        control::listen_at(self_ == 0 ? address : *control::Address::numeric("0.0.0.0", 0));
    if (!listener.ok()) die(listener.error().message);
    auto links = make_tcp_links(loop_, *timers_, *std::move(listener), party(self_), {}, *this);
    if (!links.ok()) die(links.error().message);
    links_ = *std::move(links);
    links_->open({party(other()), address, {}});
    while (case_ < kCases) loop_.run_once(Deadline::in(100ms));
    const Deadline end = Deadline::in(10s);  // what is on its way
    while (links_->is_up(other()) && links_->unsent(other()) > 0 && !end.passed())
      loop_.run_once(Deadline::in(10ms));
    if (self_ == 0)  // whoever dials reads the last of it, and closes
      while (links_->is_up(other()) && !end.passed()) loop_.run_once(Deadline::in(10ms));
  }

 private:
  static std::byte pattern(std::size_t i, HostIndex host) {
    return static_cast<std::byte>(i * 2654435761U >> 13 ^ host);
  }
  HostIndex other() const { return 1 - self_; }
  std::size_t size() const { return kSizes[case_ / 2]; }
  bool both_ways() const { return case_ % 2 == 1; }
  bool sends() const { return both_ways() || self_ == 1; }
  bool receives() const { return both_ways() || self_ == 0; }
  std::uint64_t frames() const { return bytes_ / size(); }

  void up(HostIndex) override { begin(); }
  void begin() {
    sent_ = received_ = 0;
    end_sent_ = end_received_ = false;
    began_ = Deadline::Clock::now();
    cpu_ = cpu_seconds();
    send();
  }
  // The header: where it lies, in the sender's memory and in the receiver's.
  void send() {
    if (case_ >= kCases) return;
    while (sends() && sent_ < frames() && links_->unsent(other()) < kEnoughUnsent) {
      const std::size_t at = sent_ * size() % kMemory;
      links_->send(other(), {reinterpret_cast<const char*>(&at), sizeof at},
                   std::span(from_).subspan(at, size()));
      ++sent_;
    }
    if (end_sent_ || (sends() && sent_ < frames())) return;
    end_sent_ = true;
    links_->send_copy(other(), "end", "");
    advance();
  }
  Result<std::optional<std::span<std::byte>>> landing(HostIndex, std::string_view header,
                                                      std::size_t bytes) override {
    if (header == "end") return std::optional(std::span<std::byte>());
    std::memcpy(&at_, header.data(), sizeof at_);
    if (received_ == 0) began_ = Deadline::Clock::now();
    return std::optional(std::span(to_).subspan(at_, bytes));
  }
  Status landed(HostIndex, std::string_view header) override {
    if (header == "end") {
      end_received_ = true;
      print();
      advance();
      return {};
    }
    if (received_++ < kMemory / size())  // the memory once
      for (std::size_t i = at_; i < at_ + size(); i += received_ == 1 ? 1 : 997)
        if (to_[i] != pattern(i, other())) die("byte " + std::to_string(i) + " is wrong");
    return {};
  }
  void print() const {
    if (!receives()) return;
    if (received_ != frames()) die("frames are missing");
    const double seconds = std::chrono::duration<double>(Deadline::Clock::now() - began_).count();
    const double bytes = static_cast<double>(received_ * size());
    const double all = bytes + static_cast<double>(sent_ * size());
    std::printf(
        "{\"to\": %d, \"body\": %zu, \"both_ways\": %s, \"gbit_s\": %.3f, "
        "\"frames_s\": %.0f, \"cpu_s_per_gb\": %.3f}\n",
        self_, size(), both_ways() ? "true" : "false", bytes * 8e-9 / seconds,
        static_cast<double>(received_) / seconds, (cpu_seconds() - cpu_) / all * 1e9);
    std::fflush(stdout);
  }
  void advance() {
    if (!end_sent_ || !end_received_) return;
    if (sends() && !receives()) {
      std::printf("{\"from\": %d, \"body\": %zu, \"both_ways\": false, \"cpu_s_per_gb\": %.3f}\n",
                  self_, size(),
                  (cpu_seconds() - cpu_) / static_cast<double>(sent_ * size()) * 1e9);
      std::fflush(stdout);
    }
    if (++case_ < kCases) begin();
  }
  void room(HostIndex) override { send(); }
  void down(HostIndex, const Failure& failure) override {
    if (case_ < kCases) die(failure.text);
  }
  void cannot(HostIndex, const Failure& failure) override {
    if (failure.cause != Cause::kRefused) die(failure.text);
  }
  void turned_away(const std::string& what) override { die(what); }

  const HostIndex self_;
  const std::uint64_t bytes_;
  std::vector<std::byte> from_, to_;
  Loop loop_ = *Loop::open();
  std::unique_ptr<control::Timers> timers_ = *control::Timers::open(loop_);
  std::unique_ptr<Links> links_;
  int case_ = 0;
  std::uint64_t sent_ = 0, received_ = 0;
  std::size_t at_ = 0;
  bool end_sent_ = false, end_received_ = false;
  Deadline::Clock::time_point began_;
  double cpu_ = 0;
};

void on_loopback(std::uint64_t bytes) {
  int port = 0;
  {
    auto probe = control::listen_at(*control::Address::numeric("127.0.0.1", 0));
    if (!probe.ok()) die(probe.error().message);
    port = control::Address::local_of(probe->get())->port();
  }
  const auto address = *control::Address::numeric("127.0.0.1", port);
  const pid_t child = ::fork();
  if (child == 0) {
    End(1, bytes).run(address);
    std::_Exit(0);
  }
  End(0, bytes).run(address);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) die("the other process failed");
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  const std::uint64_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (bytes < kMemory || (argc != 2 && argc != 5))
    die("usage: links_bench BYTES [listen|dial ADDRESS PORT]");
  if (argc == 2) return on_loopback(bytes), 0;
  const auto address = control::Address::numeric(argv[3], std::atoi(argv[4]));
  if (!address) die("no numeric address and port");
  End(std::string(argv[2]) == "listen" ? 0 : 1, bytes).run(*address);
  return 0;
}
