#include "launcher/linked/records.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace lockstep::launcher {

using namespace std::chrono_literals;

namespace {

constexpr auto kMostPause = 20ms;
constexpr auto kSlow = 5s;

}  // namespace

struct Records::Files {
  std::shared_ptr<const SharedBoard> board;  // mapped as long as the recorder reads it
  std::shared_ptr<coord::Recorder> recorder;
  coord::Recorder::Here here;  // by earlier groups of this launcher's
  std::string lines;           // not told yet

  Txn upto() const { return recorder != nullptr ? recorder->next() : here.to; }
  Status pump() { return recorder != nullptr ? recorder->pump() : Status(); }
};

Records::Records(Env& env, Loop& loop, Background& syncs, Told told)
    : env_(env),
      told_(std::move(told)),
      syncs_(syncs),
      files_(std::make_shared<Files>()),
      files_thread_(loop),
      scan_(loop) {}

// What was written is told, also of a group that is gone.
void Records::write(std::function<Status(Files&)> job, Done done) {
  const auto written = std::make_shared<Written>();
  files_thread_.run(
      [files = files_, written, job = std::move(job)] {
        Status status = job(*files);
        if (files->recorder != nullptr)
          *written = {files->recorder->next(), files->recorder->recorded(), {}};
        written->lines = std::exchange(files->lines, {});
        return status;
      },
      [this, written, group = group_, done = std::move(done)](const Status& status) {
        if (!written->lines.empty()) told_.lines(std::exchange(written->lines, {}));
        if (group == group_ && recorder_ != nullptr) now_ = *written;
        done(status);
      });
}

void Records::open(const std::string& run_dir, const std::shared_ptr<const SharedBoard>& board,
                   Txn next) {
  is_open_ = true;
  run_dir_ = run_dir;
  plan_ = board->view().plan();
  now_ = {next, {}, {}};
  board->view().record_from(next);
  write(
      [env = &env_, run_dir, board, view = board->view(), next](Files& files) -> Status {
        if (files.here.to == Txn(0)) files.here.from = next;
        const auto keep_lines = [&files](std::string_view lines) { files.lines += lines; };
        LOCKSTEP_ASSIGN(files.recorder,
                        coord::Recorder::open(*env, run_dir, view, next, keep_lines, files.here));
        files.board = board;
        return {};
      },
      [this, group = group_, next](const Status& opened) {
        if (!opened.ok()) return fail(opened.error());
        if (group != group_) return;
        recorder_ = files_->recorder;  // the thread lets go of it after close() alone
        look_for_missing(next);
      });
}

// On a thread of its own, as it reads them whole.
void Records::look_for_missing(Txn next) {
  scan_.run(
      [env = &env_, run_dir = run_dir_, plan = plan_, next]() -> Status {
        coord::Recorder::warn_of_missing(*env, run_dir, plan, next);
        return {};
      },
      [](const Status&) {});
}

bool Records::wait(Deadline deadline) {
  const bool written = files_thread_.finish(deadline);
  if (!scan_.finish(Deadline::in(1s)))
    log_debug("'" + run_dir_ + "': whether records are missing was not known in time");
  return written;
}

void Records::close() {
  write(
      [](Files& files) {
        Status pumped = files.pump();
        files.here.to = std::max(files.here.to, files.upto());
        files.recorder.reset();
        files.board.reset();
        return pumped;
      },
      [this](const Status& pumped) {
        if (!pumped.ok()) fail(pumped.error());
      });
  ++group_;
  is_open_ = pumping_ = again_ = syncing_ = false;
  recorder_.reset();
  now_ = {};
  wanted_.clear();
}

std::chrono::nanoseconds Records::pause() const {
  return pumping_ || error_ ? kMostPause : std::chrono::nanoseconds(pump_at_.left());
}

void Records::tell_if_slow() {
  const bool is_slow = files_thread_.busy_for() > kSlow;
  if (is_slow && !told_slow_)
    log_warning("the disk of '" + run_dir_ +
                "' has taken nothing for 5 s: the run's records wait, "
                "and the workers do once there is no room for more");
  told_slow_ = is_slow;
}

void Records::pump() {
  tell_if_slow();
  if (is_open_ && !pumping_ && !error_ && pump_at_.passed()) begin_pump();
}

void Records::begin_pump() {
  pumping_ = true;
  again_ = false;
  write([](Files& files) { return files.pump(); },
        [this, group = group_, before = now_.next.value()](const Status& pumped) {
          if (group != group_) {
            if (!pumped.ok()) fail(pumped.error());
            return;
          }
          // Short steps fill the ring of records faster.
          const std::uint64_t count = now_.next.value() - before;
          if (count > plan_.ring / 8)
            pause_ = std::max(pause_ / 2, 1ms);
          else if (count < plan_.ring / 32)
            pause_ = std::min(pause_ * 2, kMostPause);
          end_pump(pumped);
        });
}

void Records::end_pump(const Status& status) {
  pumping_ = false;
  pump_at_ = Deadline::in(pause_);
  if (error_) return;
  if (!status.ok()) return fail(status.error());
  if (again_) begin_pump();
  begin_sync();
}

void Records::sync(WorkerUid uid, Txn txn) {
  wanted_.push_back({uid, txn});
  if (error_) return answer_all(*error_);
  again_ = pumping_;
  if (is_open_ && !pumping_) begin_pump();
}

void Records::begin_sync() {
  if (syncing_ || recorder_ == nullptr) return;
  for (Wanted& wanted : wanted_) syncing_ |= wanted.begun = wanted.txn <= next();
  if (!syncing_) return;
  syncs_.run([recorder = recorder_] { return recorder->sync(); },
             [this, group = group_](const Status& status) {
               if (group == group_) end_sync(status);
             });
}

void Records::end_sync(const Status& status) {
  syncing_ = false;
  if (error_) return;
  if (!status.ok() && recorder_->broken()) return fail(status.error());
  const auto error = status.ok() ? std::nullopt : std::optional(status.error());
  std::vector<Wanted> open;
  for (const Wanted& wanted : std::exchange(wanted_, {}))
    if (wanted.begun)
      told_.synced(wanted.uid, wanted.txn, error);
    else
      open.push_back(wanted);
  wanted_.insert(wanted_.end(), open.begin(), open.end());
  begin_sync();
}

void Records::finish(Background::Job last, Done done) {
  if (error_) return done(*error_);
  write(
      [last = std::move(last)](Files& files) -> Status {
        LOCKSTEP_TRY(files.pump());
        if (files.recorder != nullptr) LOCKSTEP_TRY(files.recorder->sync());
        return last ? last() : Status();
      },
      std::move(done));
}

void Records::beside(Job job, Done done) {
  files_thread_.run([files = files_, job = std::move(job)] { return job(files->upto()); },
                    std::move(done));
}

void Records::fail(const Error& error) {
  if (error_) return;
  error_ = error;
  told_.failed(error);
  answer_all(error);
}

void Records::answer_all(const Error& error) {
  for (const Wanted& wanted : std::exchange(wanted_, {}))
    told_.synced(wanted.uid, wanted.txn, error);
}

}  // namespace lockstep::launcher
