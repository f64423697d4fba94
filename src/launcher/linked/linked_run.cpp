#include "launcher/linked/linked_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "base/env.h"
#include "base/log.h"
#include "base/text.h"
#include "coord/faults.h"
#include "rundir/names.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace event = coord::event;

// Workers that need more die of SIGSEGV, which names no cause.
void warn_of_small_stack() {
  constexpr rlim_t kLeast = rlim_t{1} << 20;  // a ConvNet needs about 100 KiB, others more
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeast) return;
  log_warning("the stack is limited to " + std::to_string(stack.rlim_cur >> 10) +
              " KiB (ulimit -s), which is little for libtorch: a worker that needs more dies of "
              "SIGSEGV; give it " +
              std::to_string(kLeast >> 10) + " at least, 8192 is usual");
}

}  // namespace

LinkedRun::LinkedRun(Around around)
    : around_(std::move(around)),
      options_(around_.options),
      loop_(around_.loop),
      console_(around_.console),
      workers_(around_.workers),
      background_(around_.background),
      records_(posix_env(), loop_, background_, when_recorded()),
      progress_(options_.progress, progress_sink()),
      incidents_([this](const std::string& table) {
        console_.write(Console::kErr, for_terminal(table));
      }) {}

Status LinkedRun::open() {
  warn_of_small_stack();
  return make_board();
}

Status LinkedRun::make_board() {
  LOCKSTEP_ASSIGN(SharedBoard made, SharedBoard::make());
  board_ = std::make_shared<SharedBoard>(std::move(made));
  const int nodes = options_.nodes.nnodes;
  if (nodes > 1) board_->view().header().hosts.store(static_cast<std::uint64_t>(nodes));
  return {};
}

std::chrono::nanoseconds LinkedRun::pause() const {
  std::chrono::nanoseconds left = std::chrono::nanoseconds::max();
  if (records_.is_open()) left = records_.pause();
  if (lock_deadline_) left = std::min<std::chrono::nanoseconds>(left, 20ms);
  return left;
}

void LinkedRun::look() {
  if (run_dir_) run_dir_->look();
  if (lock_deadline_) try_run_lock();
  look_at_vitals();
  if (records_.is_open()) records_.pump();
}

void LinkedRun::tell_steps() {
  if (!records_.is_open()) return;
  coord::event::Progress seen = observe();
  tell_progress(seen);
  feed(std::move(seen));
}

void LinkedRun::ring_if_due() {
  if (std::exchange(ring_, false)) ring_workers();
}

coord::event::Progress LinkedRun::observe(const Worker* dead) const {
  if (!board_) return {};
  return coord::observe(board_->view(), workers_.members(dead));
}

// How long nobody that is looked at has got any further.
std::chrono::nanoseconds LinkedRun::all_still_for(std::uint64_t now) const {
  std::uint64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (const auto& [uid, worker] : workers_)
    shortest = std::min(
        shortest, worker.pid < 0 ? zygote_vitals_.looked_for(now) : worker.vitals.looked_for(now));
  return std::chrono::nanoseconds(shortest);
}

// Of those that get no further on the board, which are none while all is well.
void LinkedRun::look_at_vitals() {
  if (!board_) return;
  const std::uint64_t now = monotonic_ns();
  if (std::chrono::nanoseconds(now - looked_at_ns_) <
      pause_between_looks(all_still_for(now), options_.hang_timeout))
    return;
  looked_at_ns_ = now;
  event::Vitals seen;
  for (auto& [uid, worker] : workers_) {
    if (worker.pid < 0) continue;
    const coord::WorkerSlot& slot = board_->view().slot(worker.slot);
    const std::uint64_t progress = slot.progress.load(std::memory_order_relaxed);
    const std::uint64_t phase = slot.phase.load(std::memory_order_relaxed);
    const bool moved = std::exchange(worker.seen_progress, progress) != progress;
    if (std::exchange(worker.seen_phase, phase) != phase || moved)
      worker.vitals.skip();
    else
      worker.vitals.look(worker.pid, around_.output_waits(worker), now);
    seen.workers.push_back(worker.vitals.so_far());
    seen.workers.back().uid = uid;
  }
  if (!workers_.unforked().empty() && around_.zygote() > 0)
    zygote_vitals_.look(around_.zygote(), false, now);
  else
    zygote_vitals_.skip();
  seen.zygote = zygote_vitals_.so_far();
  feed(std::move(seen));
}

coord::Progress::Sink LinkedRun::progress_sink() {
  return {[this] { return console_.columns(); },
          [this](const std::string& text) { console_.bar(text); },
          [](const std::string& text) { log_info(text); }};
}

void LinkedRun::tell_progress(const coord::event::Progress& seen) {
  const std::uint64_t now = monotonic_ns();
  if (!progress_.due(now)) return;
  const coord::Recorder::Recorded& recorded = records_.recorded();
  if (recorded.steps == 0) return;  // none of this start
  coord::RunView view = coord::view_of(recorded, board_->view().header(), now);
  view.total_steps = descriptions_.first()->total_steps;
  view.limit_ns = time_limit_ns_;
  view.workers = seen.tables.empty() ? 0 : seen.tables.back().members.size();
  view.incidents = incidents_.count();
  progress_.see(view, now);
}

void LinkedRun::renew_board() {
  records_.close();
  wrote_table_ = false;
  finales_.clear();
  ++boards_;
  // Faults fire, and lines that one says for all are said, once in the life of the launcher.
  std::array<std::uint64_t, coord::kMaxFaults> fired{};
  std::array<std::uint64_t, coord::kMaxClaims> claims{};
  const auto keep = [](const auto& words, auto& kept) {
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = words[i].load();
  };
  const auto restore = [](const auto& kept, auto& words) {
    for (std::size_t i = 0; i < kept.size(); ++i) words[i].store(kept[i]);
  };
  keep(board_->view().header().fault_fired, fired);
  keep(board_->view().header().claims, claims);
  const coord::BoardPlan plan = board_->view().plan();
  const std::uint64_t started = board_->view().header().started_ns.load();
  if (const Status made = make_board(); !made.ok()) return feed(event::RecordsFailed{made.error()});
  board_->set_plan(plan);
  board_->view().header().started_ns.store(started);
  restore(fired, board_->view().header().fault_fired);
  restore(claims, board_->view().header().claims);
}

LinkedRun::Ended LinkedRun::end(int exit_code, Deadline disk) {
  Ended ended;
  const bool had_failed = records_.error().has_value();
  if (!had_failed)
    records_.finish({}, [this](const Status& synced) {
      if (!synced.ok() && !records_.error()) records_.fail(synced.error());
    });
  ended.disk_answers = records_.wait(disk);
  if (!ended.disk_answers)
    ended.records = Error{ErrorKind::kDisk, "the disk does not take the last records"};
  else if (!had_failed && records_.error())  // told to a run that has ended already
    ended.records = *records_.error();
  // After an error, which may have the same cause, it adds to what is told.
  const bool told = exit_code != 0 && exit_code < kSignalled;
  if (!ended.records.ok())
    log(told ? LogLevel::kWarning : LogLevel::kError, ended.records.error().message);
  if (ended.disk_answers) tell_where_it_goes_on(exit_code);
  tell_unfired_faults();
  incidents_.print(true);
  return ended;
}

// Of a disk that stands still nothing is asked any more: the next start removes what is left.
void LinkedRun::leave_directory(bool disk_answers) {
  if (run_dir_ && !disk_answers) run_dir_->leave_as_it_is();
  run_dir_.reset();
}

// By what the directory has. A stop in order has said that the same command goes on from where it
// was: that is taken back where it is not so.
void LinkedRun::tell_where_it_goes_on(int code) const {
  const bool stopped = code >= kSignalled && records_.is_open();
  const bool killed = code == exit_code(ErrorKind::kResumable);
  if ((!stopped && !killed) || !descriptions_.is_elastic() || run_dir_ == nullptr) return;
  const std::uint64_t saved = run_dir_->newest_checkpoint();
  if (stopped && saved >= records_.next().value()) return;
  const std::string text =
      saved > 0 ? "the same command goes on from checkpoint " + rundir::step_name(saved)
                : "there is no checkpoint yet: the same command starts from the beginning";
  if (killed) return log_info(text);
  log_warning("the workers ended before their last checkpoint was there: " + text);
}

// Rules that never fired tested nothing: a rank that never came, a transaction beyond the last.
void LinkedRun::tell_unfired_faults() const {
  if (!board_ || !records_.is_open()) return;
  const auto faults = coord::parse_faults(options_.inject);  // was checked at the start
  for (std::size_t i = 0; faults.ok() && i < faults->size(); ++i)
    if (board_->view().header().fault_fired[i].load() == 0 && is_ours((*faults)[i]))
      log_warning("--inject: '" + (*faults)[i].text + "' never fired " +
                  (around_.node() ? "on this node" : "in this run"));
}

// Of several nodes, which may all have been given the rule: whether this one's workers are those
// that it is for. Nobody's rank is node 0's.
bool LinkedRun::is_ours(const coord::Fault& fault) const {
  const auto node = around_.node();
  if (!fault.is_for(node ? node->node : 0)) return false;
  if (!node || fault.host || !fault.rank || *fault.rank == coord::kNewcomer) return true;
  const auto tables = observe().tables;
  const auto rank = static_cast<std::size_t>(fault.rank->value());
  if (tables.empty() || rank >= tables.back().members.size()) return node->node == 0;
  return coord::stay_of(tables.back().members[rank].uid).host == node->node;
}

// A wrong command before the first step shall not decide what the others have to run. Nor shall
// one that was refused beside it, and is on its way out.
void LinkedRun::forget_descriptions() {
  if (records_.is_open() || descriptions_.first() == nullptr) return;
  const bool any =
      std::ranges::any_of(workers_, [](const auto& entry) { return entry.second.described; });
  if (any) return;
  descriptions_.forget();
  lock_deadline_.reset();
  run_dir_.reset();
}

}  // namespace lockstep::launcher
