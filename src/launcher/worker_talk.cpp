// What workers and `lockstep scale|status` say to the agent.
#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json.h"
#include "base/log.h"
#include "coord/channel.h"
#include "launcher/linked/linked_run.h"
#include "launcher/reports/failure_report.h"
#include "rundir/lock.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace event = coord::event;
namespace message = coord::message;

constexpr auto kLockTime = 5s;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

void LinkedRun::read_worker(WorkerUid uid) {
  while (Worker* worker = workers_.find(uid)) {
    if (!worker->control) return;
    auto received = coord::receive(worker->control.get(), Deadline::in(0s));
    if (received.ok()) {
      on_message(*worker, std::move(received->message));
      continue;
    }
    if (received.error().kind == ErrorKind::kTimedOut) return;
    if (received.error().kind == ErrorKind::kBadData)
      log_error("worker " + std::to_string(uid.value()) + ": " + received.error().message);
    loop_.remove(worker->control.get());  // closed: its exit follows
    worker->control.reset();
    return feed(event::Closed{uid});
  }
}

void LinkedRun::on_message(Worker& worker, coord::Message text) {
  const WorkerUid uid = worker.uid;
  std::visit(
      Overloaded{
          [&](message::Hello& hello) {
            if (hello.version == coord::kProtocolVersion) return feed(event::Hello{uid});
            feed(event::Failed{uid, coord::wrong_version(hello.version, coord::kProtocolVersion)});
          },
          [&](message::Describe& description) { on_describe(worker, std::move(description)); },
          [&](message::Ready& ready) {
            time_limit_ns_ = std::max(time_limit_ns_, ready.time.limit);  // a newcomer: 0
            feed(event::Ready{uid, ready.next, ready.state_hash, ready.time, ready.complete});
          },
          [&](message::SyncRecords& sync) { records_.sync(uid, sync.txn); },
          [&](message::CheckpointPublished& done) {
            checkpointed_ = true;
            log_debug("checkpoint of transaction " + std::to_string(done.txn.value()) +
                      " published");
          },
          [&](message::CheckpointFailed& failed) {
            log_debug("checkpoint of transaction " + std::to_string(failed.txn.value()) +
                      " was not saved: " + failed.error);  // the worker says so
          },
          [&](message::Fail& fail) { on_fail(worker, fail); },
          [&](message::Done&) {
            worker.last_report = coord::ExitStatus{0, 0};
          },
          [&](message::Leave& leave) {
            feed(event::Left{uid, leave.applied});
          },
          [&](message::Finish& finish) {
            finales_[uid] = std::move(finish);
            feed(event::Finished{uid});
          },
          [&](auto&) {
            log_warning("worker " + std::to_string(uid.value()) +
                        " sent a message that is none of a worker's");
          },
      },
      text);
}

void LinkedRun::on_fail(Worker& worker, const message::Fail& fail) {
  worker.last_report = coord::ExitStatus{exit_code(fail.kind), 0};
  if (!worker.error_file.empty()) {
    std::string text = error_file_text(std::string(to_string(fail.kind)) + ": " + fail.message,
                                       posix_env().wall_time_s());
    write_beside([file = worker.error_file, text = std::move(text)] {
      return write_atomically(posix_env(), file, text);
    });
  }
  feed(observe());  // where it was
  feed(event::Failed{worker.uid, {fail.kind, fail.message}});
}

void LinkedRun::on_describe(Worker& worker, message::Describe description) {
  worker.described = true;
  const std::uint32_t virtual_workers = description.virtual_workers;
  const bool elastic = description.elastic, first = descriptions_.first() == nullptr;
  Status added = descriptions_.add(worker.uid, std::move(description), options_);
  if (added.ok() && !elastic && options_.nodes.nnodes > 1)
    added = misuse(
        "a loop over a process group (DistributedDataParallel, Horovod) runs on one "
        "node in this version; give --nnodes 1, or use Trainer or Step");
  if (!added.ok())
    return feed(event::Described{worker.uid, virtual_workers, elastic, added.error()});
  if (first) board_->set_plan(descriptions_.first()->board);
  if (run_dir_ != nullptr) return settle_descriptions(std::nullopt);
  if (!lock_deadline_) lock_deadline_ = Deadline::in(kLockTime);  // anew, when it was refused
  try_run_lock();
}

// Who has it may be another node of this run.
Result<UniqueFd> LinkedRun::lock_directory(const std::string& path) const {
  auto lock = rundir::lock_run_directory(path, Deadline::in(0s));
  const bool is_held = !lock.ok() && lock.error().kind == ErrorKind::kUnavailable;
  if (const auto node = around_.node(); node && is_held)
    LOCKSTEP_TRY(rundir::check_claim(path, *node));
  return lock;
}

void LinkedRun::try_run_lock() {
  const std::string path = descriptions_.first()->run_dir;
  auto lock = lock_directory(path);
  if (!lock.ok() && lock.error().kind == ErrorKind::kUnavailable && !lock_deadline_->passed())
    return;
  lock_deadline_.reset();
  if (!lock.ok()) return settle_descriptions(lock.error());
  auto opened = RunDirectory::open(
      path, std::move(*lock), loop_,
      [this](const coord::Message& question, RunDirectory::Answer answer) {
        on_request(question, std::move(answer));
      },
      RunDirectory::kPatience, around_.node());
  if (!opened.ok()) return settle_descriptions(opened.error());
  run_dir_ = std::move(*opened);
  auto standstills = run_dir_->standstills();
  if (standstills.ok())
    feed(event::Remembered{*std::move(standstills)});
  else
    log_warning(standstills.error().message);
  incidents_.write_by([this](const coord::Incident& incident) {
    write_beside(run_dir_->incident_writer(incident));
  });
  settle_descriptions(std::nullopt);
}

void LinkedRun::settle_descriptions(const std::optional<Error>& refusal) {
  for (const event::Described& described : descriptions_.settle(refusal)) {
    Worker* const worker = workers_.find(described.uid);
    if (worker != nullptr && described.refusal) worker->described = false;
    feed(described);
  }
}

void LinkedRun::on_request(const coord::Message& question, RunDirectory::Answer answer) {
  if (std::holds_alternative<message::StatusQuery>(question)) return answer({true, status_json()});
  const auto* scale = std::get_if<message::Scale>(&question);
  if (scale == nullptr) return answer({false, "this launcher does not know the question"});
  const std::uint64_t number = ++requests_;
  answers_[number] = std::move(answer);
  around_.feed_later(
      event::Scale{number, scale->workers});  // for the next tick: not the asker's errors
}

std::string LinkedRun::status_json() const {
  using OrderedJson = nlohmann::ordered_json;
  coord::event::Progress progress = observe();
  const coord::Table table = progress.tables.empty() ? coord::Table{} : progress.tables.back();
  std::map<std::pair<bool, std::size_t>, OrderedJson> members;  // those with a rank first
  for (const coord::WorkerProgress& seen : progress.workers) {
    const Worker& worker = workers_.at(seen.uid);
    const auto place = std::ranges::find(table.members, seen.uid, &coord::Member::uid);
    const bool outside = place == table.members.end();  // not a member (yet)
    const auto rank = static_cast<std::size_t>(place - table.members.begin());
    members[{outside, outside ? seen.uid.value() : rank}] = {
        {"uid", coord::number_in_host(seen.uid)},
        {"pid", worker.pid},
        {"rank", outside ? OrderedJson() : OrderedJson(rank)},
        {"local_rank", worker.local_rank.value()},
        {"txn", seen.current_txn.value()},
        {"applied", seen.applied}};
  }
  OrderedJson in_order = OrderedJson::array();
  for (auto& [place, member] : members) in_order.push_back(std::move(member));
  const coord::RunStatus status = around_.status();
  OrderedJson json{{"schema", 1},
                   {"run_id", options_.run_id},
                   {"launcher_pid", ::getpid()},
                   {"state", status.state},
                   {"world_size", table.members.size()},  // of which the members' ranks are
                   {"target_world_size", status.target_world_size},
                   {"virtual_workers", status.virtual_workers},
                   {"committed", status.committed},
                   {"replacements_left", status.replacements_left},
                   {"max_replacements", status.max_replacements},
                   {"restarts", status.restarts},
                   {"max_restarts", status.max_restarts},
                   {"generation", table.generation.value()},
                   {"recorded", records_.next().value()},
                   {"members", in_order}};
  if (status.nodes > 1) json.update({{"node", status.node}, {"nodes", status.nodes}});
  return json_text(json);
}

}  // namespace lockstep::launcher
