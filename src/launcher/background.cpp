#include "launcher/background.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace lockstep::launcher {

Background::~Background() {
  if (!finished_) return;
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  loop_.remove(finished_.get());
}

void Background::run(Job job, Done done) {
  if (!thread_.joinable() && !start().ok()) return done(job());
  const std::lock_guard lock(mutex_);
  todo_.push(std::make_unique<Task>(Task{std::move(job), std::move(done), {}}));
  wanted_.notify_one();
}

Status Background::start() {
  if (!finished_) {
    UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event)
      return Error{ErrorKind::kUnavailable, std::string("eventfd: ") + std::strerror(errno)};
    LOCKSTEP_TRY(loop_.add(event.get(), [this] { hand_back(); }));
    finished_ = std::move(event);
  }
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  } catch (const std::system_error& error) {
    return Error{ErrorKind::kUnavailable, std::string("a thread: ") + error.what()};
  }
  return {};
}

void Background::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (wanted_.wait(lock, stop, [this] { return !todo_.empty(); })) {
    std::unique_ptr<Task> task = std::move(todo_.front());
    todo_.pop();
    busy_ = true;
    lock.unlock();
    task->status = task->job();
    task->job = nullptr;  // what it holds ends here, not on the loop
    lock.lock();
    busy_ = false;
    done_.push(std::move(task));
    idle_.notify_all();
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(finished_.get(), &one, sizeof one);
  }
}

bool Background::finish(Deadline deadline) {
  {
    std::unique_lock lock(mutex_);
    if (!idle_.wait_until(lock, deadline.point(), [this] { return todo_.empty() && !busy_; }))
      return false;
  }
  hand_back();
  return true;
}

void Background::hand_back() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(finished_.get(), &count, sizeof count);
  std::queue<std::unique_ptr<Task>> tasks;
  {
    const std::lock_guard lock(mutex_);
    std::swap(tasks, done_);
  }
  for (; !tasks.empty(); tasks.pop()) tasks.front()->done(std::move(tasks.front()->status));
}

}  // namespace lockstep::launcher
