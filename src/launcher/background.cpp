#include "launcher/background.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <queue>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/unique_fd.h"

namespace lockstep::launcher {

struct Background::Task {
  Job job;
  Done done;
  Status status;
  std::string said;
};

struct Background::Beside {
  UniqueFd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::condition_variable changed;
  std::queue<std::unique_ptr<Task>> todo, done;
  bool busy = false, over = false;
};

Background::Background(Loop& loop) : loop_(loop), beside_(std::make_shared<Beside>()) {
  UniqueFd& bell = beside_->bell;
  if (bell && !loop_.add(bell.get(), [this] { hand_back(); }).ok()) bell.reset();
}

Background::~Background() {
  if (beside_->bell) loop_.remove(beside_->bell.get());
  std::queue<std::unique_ptr<Task>> todo, done;  // what they hold ends here
  const std::lock_guard lock(beside_->mutex);
  beside_->over = true;
  std::swap(todo, beside_->todo);
  std::swap(done, beside_->done);
  beside_->changed.notify_all();
}

void Background::run(Job job, Done done) {
  if (!started_ && !start()) return done(job());
  if (open_++ == 0) begun_ns_ = monotonic_ns();
  const std::lock_guard lock(beside_->mutex);
  beside_->todo.push(std::make_unique<Task>(Task{std::move(job), std::move(done), {}, {}}));
  beside_->changed.notify_all();
}

bool Background::start() {
  if (!beside_->bell) return false;
  try {
    std::thread([beside = beside_] { work(*beside); }).detach();
    started_ = true;
  } catch (const std::system_error&) {  // no more threads are allowed
  }
  return started_;
}

void Background::work(Beside& beside) {
  std::unique_lock lock(beside.mutex);
  while (true) {
    beside.changed.wait(lock, [&] { return beside.over || !beside.todo.empty(); });
    if (beside.over) return;
    std::unique_ptr<Task> task = std::move(beside.todo.front());
    beside.todo.pop();
    beside.busy = true;
    lock.unlock();
    {
      const LogKept kept(task->said);
      task->status = task->job();
      task->job = nullptr;  // what it holds ends here, not on the loop
    }
    lock.lock();
    beside.busy = false;
    if (beside.over) return;
    beside.done.push(std::move(task));
    beside.changed.notify_all();
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(beside.bell.get(), &one, sizeof one);
  }
}

std::chrono::nanoseconds Background::busy_for() const {
  return std::chrono::nanoseconds(open_ > 0 ? monotonic_ns() - begun_ns_ : 0);
}

bool Background::finish(Deadline deadline) {
  {
    std::unique_lock lock(beside_->mutex);
    if (!beside_->changed.wait_until(lock, deadline.point(),
                                     [this] { return beside_->todo.empty() && !beside_->busy; }))
      return false;
  }
  hand_back();
  return true;
}

void Background::hand_back() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(beside_->bell.get(), &count, sizeof count);
  std::queue<std::unique_ptr<Task>> tasks;
  {
    const std::lock_guard lock(beside_->mutex);
    std::swap(tasks, beside_->done);
  }
  open_ -= tasks.size();
  begun_ns_ = monotonic_ns();
  for (; !tasks.empty(); tasks.pop()) {
    log_lines(tasks.front()->said);
    tasks.front()->done(std::move(tasks.front()->status));
  }
}

}  // namespace lockstep::launcher
