// A run on several hosts in one process: a board each, members as threads over the exchange in
// shared memory (conformance/host_workers.h), and a thread for each host that plays the link by the
// project's own rules, over queues in place of sockets.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "carrier/board_memory.h"
#include "conformance/host_workers.h"
#include "link/host_rounds.h"
#include "link/pair.h"
#include "link/round_keeper.h"

namespace lockstep::carrier {

using conformance::Death;
using conformance::Fault;
using conformance::HostWorkers;
using conformance::Shape;

struct Frame {
  std::optional<link::Have> have;  // the first one; else:
  link::Item item;
  std::uint8_t flags = 0;
  std::vector<std::byte> bytes;
  std::optional<coord::Table> table;
};

class Host;

// The board, its members and its link.
class Machines {
 public:
  Machines(const Shape& shape, std::vector<Fault> faults);
  ~Machines();
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  // To the end: each member has checked each sum, and all boards of hosts that live have the same.
  void go();
  std::uint64_t frames() const { return frames_; }
  std::uint64_t folded() const { return folded_; }  // of them nodes above the leaves
  std::uint64_t fills() const { return fills_; }

 private:
  friend class Host;
  void take_out(link::RoundKeeper& leader);  // what it says, and hears
  const Shape shape_;
  std::vector<Fault> faults_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::atomic<std::uint64_t> frames_{0}, folded_{0}, fills_{0};
};

class Host {
 public:
  Host(Machines& run, std::uint32_t index);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  coord::Stay stay() const { return workers_->stay(); }
  HostWorkers& workers() const { return *workers_; }
  const BoardMemory& memory() const { return *memory_; }

  void start();
  void kill_link();
  link::Appended await_append();
  // Runs it in the link's thread.
  void call(const std::function<void()>& what);
  void deliver(std::uint32_t from, Frame frame);

  // In the link's thread, or while there is none:
  link::HostRounds& rounds() { return *rounds_; }
  void obey();

 private:
  struct Way {
    std::unique_ptr<link::Pair> pair;  // to the other
    bool is_open = true;
    std::uint64_t last_words = 0;  // frames of the transaction in which the host dies
  };
  void serve();
  void receive();
  void land(std::uint32_t from, const Frame& frame);
  void send();
  bool is_lost(std::uint32_t to, const link::Item& item);

  Machines& machines_;
  const std::uint32_t index_;
  std::uint64_t bytes_ = 0;
  void* map_ = nullptr;
  std::unique_ptr<HostWorkers> workers_;
  std::unique_ptr<BoardMemory> memory_;
  std::unique_ptr<link::BoardOwners> owners_;
  std::unique_ptr<link::HostRounds> rounds_;
  link::Landings landings_;
  std::optional<link::Appended> appended_;
  std::vector<Way> ways_;
  std::thread link_;
  std::atomic<bool> link_ends_{false};
  std::mutex mutex_;  // of what follows
  std::deque<std::pair<std::uint32_t, Frame>> inbox_;
  std::deque<std::function<void()>> calls_;
};

}  // namespace lockstep::carrier
