#include "launcher/background.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <utility>

namespace lockstep::launcher {

Background::Background(Loop& loop)
    : loop_(loop), finished_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (finished_ && !loop_.add(finished_.get(), [this] { hand_back(); }).ok()) finished_.reset();
}

Background::~Background() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  if (finished_) loop_.remove(finished_.get());
}

void Background::run(Job job, Done done) {
  if (!thread_.joinable() && !start()) return done(job());
  const std::lock_guard lock(mutex_);
  todo_.push(std::make_unique<Task>(Task{std::move(job), std::move(done), {}}));
  wanted_.notify_one();
}

bool Background::start() {
  if (!finished_) return false;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  } catch (const std::system_error&) {  // no more threads are allowed
    return false;
  }
  return true;
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
