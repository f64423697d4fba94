#include "worker/alone.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/env.h"
#include "base/log.h"
#include "base/process_setup.h"
#include "coord/board_memory.h"
#include "rundir/lock.h"
#include "rundir/time_stop.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;

// Enough for every model that fits a small machine, should the full size not be allowed.
constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 32;

class AloneSession final : public Session {
 public:
  AloneSession(std::byte* memory, std::uint64_t bytes) : memory_(memory), bytes_(bytes) {
    slot().uid.store(identity_.uid.value());
  }
  ~AloneSession() override { ::munmap(memory_, bytes_); }

  bool launched() const override { return false; }
  const Identity& identity() const override { return identity_; }
  std::byte* memory() const override { return memory_; }
  std::uint64_t memory_bytes() const override { return bytes_; }

  Result<Admission> introduce(const Description& description) override {
    run_dir_ = description.run_dir;
    LOCKSTEP_ASSIGN(UniqueFd lock, rundir::lock_run_directory(run_dir_, Deadline::in(5s)));
    rundir::remove_leftovers(run_dir_);
    return Admission{false, false, false, std::move(lock)};
  }

  // What the agent does for launched workers: the first table and the proposal, both with this
  // worker alone.
  Status ready(Txn next, std::uint64_t, const coord::RunTime& time, bool) override {
    time_ = time;
    const coord::Table table{
        next, Generation(1), coord::kNone, {{identity_.uid, identity_.slot}}, time.stop_after_step};
    header().generation.store(1);
    header().ran_ns.store(time.ran);
    header().ran_from_ns.store(monotonic_ns());
    header().stop_recorded.store(time.stop_after_step);
    coord::write_proposal(header().proposal, table);
    coord::write_table(header().table[next.value() % coord::kTables], table);
    return {};
  }

  void look_at_time() override {
    if (time_.limit == 0 || coord::ran_ns(header(), monotonic_ns()) < time_.limit) return;
    coord::Table wish = coord::read_proposal(header().proposal);
    if (wish.flags == coord::kTimeIsUp) return;
    wish.flags = coord::kTimeIsUp;
    coord::write_proposal(header().proposal, wish);
  }

  Status record_stop(std::uint64_t step) override {
    const auto seconds = [](std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; };
    LOCKSTEP_TRY(rundir::write_time_stop(
        posix_env(), run_dir_,
        {step, seconds(time_.limit), seconds(coord::ran_ns(header(), monotonic_ns()))}));
    header().stop_recorded.store(step, std::memory_order_release);
    return {};
  }

  Status finish(const Finale& finale) override {
    print_alone(finale.console);
    if (!run_dir_.empty() && !finale.summary.empty())
      LOCKSTEP_TRY(write_atomically(posix_env(), run_dir_ + "/result.json", finale.summary));
    header().final_recorded.store(1, std::memory_order_release);
    return {};
  }

  // The caller records on its own thread (coord/recorder.h) and reports its own errors.
  Status sync_records(Txn, Deadline) override { return {}; }
  Status checkpoint_published(Txn) override { return {}; }
  Status checkpoint_failed(Txn, const Error&) override { return {}; }
  Status fail(const Error&) override { return {}; }
  bool is_told_by_agent() const override { return false; }
  void done() override {}
  Status leave(Txn) override { return {}; }

 private:
  coord::Header& header() { return coord::Board(memory_, {}).header(); }
  coord::WorkerSlot& slot() { return coord::Board(memory_, {}).slot(identity_.slot); }

  Identity identity_;
  std::string run_dir_;
  coord::RunTime time_;
  std::byte* memory_;
  std::uint64_t bytes_;
};

}  // namespace

void print_alone(std::string_view lines) {
  static std::atomic<bool> told = false;
  if (const Status written = write_output(lines); !written.ok() && !told.exchange(true))
    log_warning(written.error().message + "; the run goes on, lines are missing there");
}

Result<std::unique_ptr<Session>> open_alone() {
  for (std::uint64_t bytes = coord::kBoardBytes; bytes >= kLeastBytes; bytes /= 4) {
    void* memory = coord::map_board(-1, bytes);
    if (memory == MAP_FAILED) continue;
    coord::label_board(coord::Board(memory, {}).header());
    return std::unique_ptr<Session>(
        std::make_unique<AloneSession>(static_cast<std::byte*>(memory), bytes));
  }
  return Error{
      ErrorKind::kUnavailable,
      "cannot reserve 4 GiB of address space for the run's memory (hardly any of it is used); is "
      "'ulimit -v' set? mmap: " +
          std::string(std::strerror(errno))};
}

}  // namespace lockstep::worker
