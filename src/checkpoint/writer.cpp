#include "checkpoint/writer.h"

#include <algorithm>
#include <cassert>
#include <system_error>
#include <utility>

#include "base/signals_blocked.h"
#include "rundir/names.h"

namespace lockstep::checkpoint {

Writer::Writer(Env& env, WriterOptions options) : env_(env), options_(std::move(options)) {}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Writer::idle_by(std::unique_lock<std::mutex>& lock, Deadline deadline) {
  return changed_.wait_until(lock, deadline.point(), [&] { return !in_flight_; });
}

Result<bool> Writer::snapshot(std::span<const Part> parts, const std::string& state_json,
                              const RunCursor& cursor, std::uint64_t generation, WhenBusy when_busy,
                              Deadline deadline) {
  LOCKSTEP_ASSIGN(const bool taken, copy(parts, when_busy, deadline));
  if (taken) LOCKSTEP_TRY(write(state_json, cursor, generation));
  return taken;
}

Result<bool> Writer::copy(std::span<const Part> parts, WhenBusy when_busy, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (in_flight_ && when_busy == WhenBusy::kSkip) return false;
  if (!idle_by(lock, deadline))
    return Error{ErrorKind::kTimedOut, "checkpoint " + rundir::step_name(manifest_.cursor.txn) +
                                           " is still being written"};
  LOCKSTEP_TRY(image_.fill(parts, ""));
  return true;
}

Status Writer::write(std::string state_json, const RunCursor& cursor, std::uint64_t generation) {
  std::unique_lock lock(mutex_);
  assert(!in_flight_ && !image_.files().empty());
  LOCKSTEP_TRY(start_thread());
  image_.set_state(std::move(state_json));
  manifest_ = {};
  manifest_.generation = generation;
  manifest_.virtual_workers = options_.virtual_workers;
  manifest_.cursor = cursor;
  manifest_.run_identity = options_.run_identity;
  manifest_.set_modules(options_.modules);
  in_flight_ = true;
  lock.unlock();
  changed_.notify_all();
  return {};
}

Status Writer::start_thread() {
  if (thread_.joinable()) return {};
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
    return {};
  } catch (const std::system_error& error) {
    return Error{
        ErrorKind::kUnavailable,
        std::string("no thread for writing checkpoints (a limit on processes?): ") + error.what()};
  }
}

Status Writer::wait(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (idle_by(lock, deadline)) return last_;
  return Error{ErrorKind::kTimedOut,
               "checkpoint " + rundir::step_name(manifest_.cursor.txn) + " is still being written"};
}

bool Writer::busy() const {
  const std::lock_guard lock(mutex_);
  return in_flight_;
}

void Writer::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return in_flight_ || stop_; });
    if (!in_flight_) return;
    lock.unlock();
    Result<Published> result = save();
    if (!result.ok()) result = Error{result.error().kind, named(result.error().message)};
    if (options_.done) options_.done(manifest_.cursor, result);
    lock.lock();
    last_ = result.ok() ? Status() : Status(result.error());
    in_flight_ = false;
    changed_.notify_all();
  }
}

// As the run directory is called, whatever it was reached by.
std::string Writer::named(std::string text) const {
  const std::string& through = options_.through;
  if (through.empty()) return text;
  for (auto at = text.find(through); at != std::string::npos;
       at = text.find(through, at + options_.run_dir.size()))
    text.replace(at, through.size(), options_.run_dir);
  return text;
}

Result<Published> Writer::save() {
  const std::string& folder = options_.through.empty() ? options_.run_dir : options_.through;
  Published published;
  published.cursor = manifest_.cursor;
  if (options_.place) LOCKSTEP_TRY(options_.place());
  const auto hash_weights = [&] { return published.weights_sha256 = image_.weights_sha256(); };
  LOCKSTEP_ASSIGN(published.path,
                  publish(env_, folder, manifest_, image_.files(), hash_weights, options_.gate));
  published.path = named(std::move(published.path));
  for (const FileBytes& file : image_.files()) published.bytes += file.bytes.size();
  const auto tidy = [&]() -> Status {
    LOCKSTEP_TRY(set_pointer(env_, folder, "last", manifest_.cursor.txn));
    if (options_.goes_back) LOCKSTEP_TRY(withdraw_after(env_, folder, manifest_.cursor.txn));
    return retain(env_, folder, manifest_.cursor.txn, std::max(1U, options_.keep_last));
  };
  if (const Status tidied = tidy(); !tidied.ok()) published.warning = named(tidied.error().message);
  return published;
}

}  // namespace lockstep::checkpoint
