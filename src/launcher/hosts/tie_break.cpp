#include "launcher/hosts/tie_break.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/seconds.h"
#include "base/unique_fd.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kStart = 10s, kEnd = 1s, kAgain = 1s, kFirstTold = 3s;

Error of_option(const Error& error) {
  return {error.kind, "--tie-break lockfile: " + error.message};
}

}  // namespace

struct TieBreak::Beside {
  explicit Beside(LockDirectory there) : directory(std::move(there)) {}

  LockDirectory directory;
  UniqueFd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> todo;
  std::deque<Then> done;
  bool busy = false, over = false;

  void add(Job job) {
    const std::lock_guard lock(mutex);
    todo.push_back(std::move(job));
    changed.notify_all();
  }
  // False: not by then.
  bool finish(Deadline by) {
    std::unique_lock lock(mutex);
    return changed.wait_until(lock, by.point(), [this] { return todo.empty() && !busy; });
  }
};

void TieBreak::work(Beside& beside) {
  std::unique_lock lock(beside.mutex);
  while (true) {
    beside.changed.wait(lock, [&] { return beside.over || !beside.todo.empty(); });
    if (beside.todo.empty()) return;
    const Job job = std::move(beside.todo.front());
    beside.todo.pop_front();
    beside.busy = true;
    lock.unlock();
    Then then = job(beside.directory);
    lock.lock();
    beside.busy = false;
    beside.done.push_back(std::move(then));
    beside.changed.notify_all();
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(beside.bell.get(), &one, sizeof one);
  }
}

TieBreak::~TieBreak() {
  if (!beside_) return;
  leave({});
  around_.loop.remove(beside_->bell.get());
  const std::lock_guard lock(beside_->mutex);
  beside_->over = true;
  beside_->todo.clear();
  beside_->changed.notify_all();
}

Status TieBreak::open(LockDirectory directory) {
  path_ = directory.path();
  auto beside = std::make_shared<Beside>(std::move(directory));
  LOCKSTEP_TRY(around_.loop.add(beside->bell.get(), [this] { hand_back(); }));
  try {
    std::thread([beside] { work(*beside); }).detach();
    beside_ = beside;
  } catch (const std::system_error& error) {
    around_.loop.remove(beside->bell.get());
    return Error{ErrorKind::kUnavailable, std::string("no thread can be started: ") + error.what()};
  }
  const auto entered = std::make_shared<Status>();
  beside->add([entered](LockDirectory& at) {
    *entered = at.enter();
    return [] {};
  });
  if (!beside->finish(Deadline::in(kStart)))
    return of_option({ErrorKind::kUnavailable, "'" + path_ + "' has not answered for " +
                                                   seconds(ns(kStart)) + ": is its server there?"});
  if (!entered->ok()) return of_option(entered->error());
  return {};
}

void TieBreak::compare(std::uint64_t other, const std::string& name) {
  beside_->add([this, other, name](LockDirectory& at) -> Then {
    const auto sees = at.sees(other);
    if (!sees.ok()) return [] {};  // a claim will tell
    return [this, name, is_one = *sees] {
      if (!is_one)
        around_.unfit(of_option(misuse("'" + path_ + "' is not the directory that " + name +
                                       " has: give one that all nodes share")));
    };
  });
}

void TieBreak::want(std::optional<std::uint64_t> set, const std::string& lost) {
  if (wanted_ == set) return tell();
  wanted_ = set;
  again_.cancel();
  if (!set) return;
  lost_ = lost;
  trouble_.clear();
  tell_in_ = kFirstTold;
  tell_at_ = Deadline::in(tell_in_);
  log_info("this node has lost " + lost_ + ": it asks for the lock file in '" + path_ +
           "' (--tie-break), with which it goes on alone");
  ask();
}

// What is on its way, also for another set, is waited for.
void TieBreak::ask() {
  if (asks_ || !wanted_) return;
  asks_ = true;
  beside_->add([this, set = *wanted_](LockDirectory& at) -> Then {
    return [this, set, answer = at.claim(set)] {
      asks_ = false;
      take(set, answer);
    };
  });
}

void TieBreak::take(std::uint64_t set, const Result<bool>& answer) {
  if (answer.ok()) {
    log_info(*answer ? "this node has the lock file: it can go on without " + lost_
                     : lost_ + " has the lock file, and goes on without this node if it lives");
    if (wanted_ == set) wanted_.reset();
    around_.answered(set, *answer);
    return ask();
  }
  if (trouble_.empty()) tell_at_ = Deadline::in({});
  trouble_ = answer.error().message;
  tell();
  again_ = around_.timers.in(kAgain, [this] { ask(); });
}

void TieBreak::tell() {
  if (!wanted_ || !tell_at_.passed()) return;
  tell_in_ *= 2;
  tell_at_ = Deadline::in(tell_in_);
  log_warning("this node waits for the lock file, and takes no step meanwhile: " +
              (trouble_.empty() ? "'" + path_ + "' does not answer" : trouble_) +
              "; it goes on once it has the file, or hears " + lost_);
}

void TieBreak::hand_back() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(beside_->bell.get(), &count, sizeof count);
  std::deque<Then> done;
  {
    const std::lock_guard lock(beside_->mutex);
    std::swap(done, beside_->done);
  }
  for (const Then& then : done) then();
}

void TieBreak::leave(std::optional<std::uint64_t> unneeded) {
  wanted_.reset();
  again_.cancel();
  if (std::exchange(left_, true)) return;
  beside_->add([unneeded](LockDirectory& at) {
    if (unneeded) at.remove(*unneeded);
    at.leave();
    return [] {};
  });
  if (!beside_->finish(Deadline::in(kEnd)))
    log_warning("'" + path_ + "' does not answer: files of this launcher may stay there");
}

}  // namespace lockstep::launcher
