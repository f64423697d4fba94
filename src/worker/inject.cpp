#include "worker/inject.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "base/deadline.h"
#include "base/text.h"

namespace lockstep::worker {
namespace {

using coord::Fault;
using coord::FaultAction;
using coord::Phase;

[[noreturn]] void hang() {
  for (;;) pause(std::chrono::seconds(1));
}

void act(const Fault& fault) {
  switch (fault.action) {
    case FaultAction::kKill:
      ::kill(::getpid(), SIGKILL);
      hang();  // until the signal is delivered
    case FaultAction::kStop:
      ::kill(::getpid(), SIGSTOP);
      return;
    case FaultAction::kExit:
      ::_exit(fault.exit_code);
    case FaultAction::kAbort:
      std::abort();
    case FaultAction::kSegv:
      ::signal(SIGSEGV, SIG_DFL);
      ::raise(SIGSEGV);
      hang();
    case FaultAction::kHang:
      hang();
    case FaultAction::kThrow:
      throw std::runtime_error("injected fault");
  }
}

}  // namespace

Injector::Injector(std::vector<Fault> faults, coord::Board board, Slot slot, bool first_start,
                   int host)
    : faults_(std::move(faults)),
      board_(board),
      slot_(slot),
      first_start_(first_start),
      host_(host) {}

Result<Injector> Injector::from_environment(coord::Board board, Slot slot, bool first_start) {
  const char* spec = std::getenv(coord::kInjectVariable);
  if (spec == nullptr || *spec == '\0') return Injector();
  LOCKSTEP_ASSIGN(auto faults, coord::parse_faults(spec));
  const char* node = std::getenv("GROUP_RANK");
  const auto host = number_of<int>(node == nullptr ? "" : node);
  return Injector(std::move(faults), board, slot, first_start, host.value_or(0));
}

void Injector::check(Phase phase, Txn txn, Rank rank, std::optional<std::uint32_t> share) {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (!fault.is_for(host_) || (fault.rank && *fault.rank != rank) ||
        (fault.txn && *fault.txn != txn) || (fault.phase && *fault.phase != phase) ||
        (fault.share && fault.share != share) || (fault.first_generation_only && !first_start_))
      continue;
    // Counted in shared memory: ranks move after a death, and the rule must not fire again in
    // whoever inherits one.
    coord::Word& fired = board_.header().fault_fired[i];
    if (fired.load(std::memory_order_relaxed) >= fault.repeat || fired.fetch_add(1) >= fault.repeat)
      continue;
    coord::WorkerSlot& mine = board_.slot(slot_);
    mine.fault_index.store(i + 1, std::memory_order_relaxed);
    mine.fault_fired_ns.store(monotonic_ns(), std::memory_order_release);
    act(fault);
  }
}

}  // namespace lockstep::worker
