// A run on several hosts with real links: each host has a board in a memfd, a process of
// lockstep-link over loopback TCP, and workers, which are threads of the test. The test is all
// agents at once, and the leader.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "carrier/board_memory.h"
#include "conformance/host_workers.h"
#include "control/timers.h"
#include "launcher/hosts/link_process.h"
#include "launcher/linked/shared_board.h"
#include "link/host_rounds.h"
#include "link/round_keeper.h"

namespace lockstep::launcher {

using conformance::Fault;
using conformance::Shape;

class Machines {
 public:
  Machines(const Shape& shape, std::vector<Fault> faults = {});
  ~Machines();
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  struct Host {
    Host(std::uint32_t number, link::Stay stay, const std::vector<link::HostIndex>& set);
    const std::uint32_t index;
    SharedBoard board;
    UniqueFd listener;
    std::unique_ptr<LinkProcess> link;
    std::unique_ptr<conformance::HostWorkers> workers;
    std::unique_ptr<carrier::BoardMemory> memory;  // as the agent sees the board
    link::HostRounds rounds;
    std::vector<link::HostIndex> working = {};
    std::vector<std::string> lines = {}, ends = {};  // of its links
    bool is_lost = false;
    std::chrono::milliseconds stop_grace{1'000};  // of its link
    int port() const;
    // The newest table that its board has.
    std::uint64_t newest() const { return memory->newest_table(); }
  };
  Host& host(std::uint32_t index) { return *hosts_[index]; }

  // Links first, as they are before any worker; then the workers, with the run's first table; then
  // they begin.
  void start_links();
  void make_workers();
  void start_workers();
  // Once they are made: they begin none from that transaction on before this is called again.
  void stop_before(std::uint64_t txn);
  // All agents go on until it is true; false: it has not become so in 20 s.
  bool serve(const std::function<bool()>& done);
  bool reach(std::uint32_t host, std::uint64_t txn) {
    return serve([=, this] { return this->host(host).newest() >= txn; });
  }
  // Once its workers have died, as a fault says: its link is killed with all that it has not sent,
  // and the other hosts take it out.
  void lose(std::uint32_t host);
  // To the end: the workers that live have checked each sum, and their boards are equal.
  void finish();
  // What the link of that host is told of the others from now on.
  void order(std::uint32_t host);
  // This host has a cookie for the pair that the other one has not.
  std::optional<std::uint32_t> mistaken = {};
  std::optional<std::uint32_t> comes = {};  // this host is not in the first table
  std::uint64_t fills() const { return fills_; }

 private:
  void start_link(Host& host);
  void on_closed(Host& host, const carrier::Closed& closed);
  void on_gone(Host& host, const std::string& why);
  void append(Host& host);

  const Shape shape_;
  const std::vector<Fault> faults_;
  Loop loop_;
  std::unique_ptr<control::Timers> timers_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::unique_ptr<link::RoundKeeper> leader_;
  std::uint64_t fills_ = 0;
};

}  // namespace lockstep::launcher
