#include "worker/session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>
#include <variant>

#include "base/log.h"
#include "base/process_setup.h"
#include "coord/board_memory.h"
#include "coord/channel.h"
#include "coord/descriptors.h"
#include "worker/alone.h"
#include "worker/attach.h"
#include "worker/fork_point.h"
#include "worker/lifeline.h"
#include "worker/note.h"
#include "worker/stop_signals.h"

namespace lockstep::worker {
namespace {

namespace message = coord::message;
using namespace std::chrono_literals;

constexpr auto kSendTime = 10s;

// The session of a worker that the agent started, or that attached to it.
class LaunchedSession final : public Session {
 public:
  LaunchedSession(Identity identity, UniqueFd control, std::byte* memory)
      : identity_(std::move(identity)), control_(std::move(control)), memory_(memory) {}
  // Of one that was started by hand.
  Status watch(UniqueFd lifeline) {
    LOCKSTEP_ASSIGN(lifeline_, Lifeline::open(std::move(lifeline)));
    return {};
  }
  ~LaunchedSession() override {
    done();
    lifeline_.reset();
    release_signals();
    set_line_claims({});
    ::munmap(memory_, coord::kBoardBytes);
  }

  bool launched() const override { return true; }
  const Identity& identity() const override { return identity_; }
  std::byte* memory() const override { return memory_; }

  Result<Admission> introduce(const Description& d) override {
    const message::Describe text{d.run_dir,         d.manifest,   d.parameters,  d.board,
                                 d.virtual_workers, d.total_txns, d.total_steps, d.elastic};
    // At once, or after the run directory's lock (5 s); a stopped launcher is waited for.
    LOCKSTEP_ASSIGN(coord::Received answer, ask(text, Deadline::never()));
    if (const auto* refusal = std::get_if<message::Refuse>(&answer.message))
      return Error{refusal->kind, refusal->message};
    const auto* admit = std::get_if<message::Admit>(&answer.message);
    if (admit == nullptr || answer.descriptors.size() != 1) return unexpected();
    identity_.newcomer = admit->newcomer;
    return Admission{admit->newcomer, admit->checkpointed, admit->begun,
                     std::move(answer.descriptors[0])};
  }

  Status ready(Txn next, std::uint64_t state_hash, const coord::RunTime& time,
               bool complete) override {
    return tell(message::Ready{next, state_hash, time, complete});
  }

  Status sync_records(Txn txn, Deadline deadline) override {
    LOCKSTEP_ASSIGN(const coord::Received answer, ask(message::SyncRecords{txn}, deadline));
    const auto* synced = std::get_if<message::Synced>(&answer.message);
    if (synced == nullptr) return unexpected();
    if (synced->error) return Error{ErrorKind::kDisk, *synced->error};
    return {};
  }

  Status checkpoint_published(Txn txn) override { return tell(message::CheckpointPublished{txn}); }
  Status checkpoint_failed(Txn txn, const Error& error) override {
    return tell(message::CheckpointFailed{txn, error.message});
  }
  Status fail(const Error& error) override {
    if (lifeline_) lifeline_->let_go();
    return tell(message::Fail{error.kind, error.message});
  }
  bool is_told_by_agent() const override { return !lifeline_ || identity_.rank == Rank(0); }
  int release_signals() override {
    return std::exchange(catches_signals_, false) ? release_stop_signals() : 0;
  }
  // Nobody but the parent knows how a process has ended.
  void done() override {
    if (!lifeline_) return;
    lifeline_->let_go();
    (void)tell(message::Done{}).ok();
  }
  Status leave(Txn applied) override { return tell(message::Leave{applied}); }
  Status finish(const Finale& finale) override {
    return tell(message::Finish{finale.console, finale.summary});
  }

  // Its slot is its own from here on. One that was started by hand is nobody else's to end.
  Status hello() {
    coord::WorkerSlot& slot = coord::Board(memory_, {}).slot(identity_.slot);
    slot.claim(identity_.uid);
    catches_signals_ = !lifeline_;
    if (catches_signals_) show_stop_signals(slot.signal);
    return tell(message::Hello{::getpid(), identity_.uid, coord::kProtocolVersion});
  }

 private:
  static Error unexpected() {
    return {ErrorKind::kBadData,
            "the agent's answer is not one to this question; is 'lockstep' of another version?"};
  }

  Status tell(const coord::Message& text) {
    const std::lock_guard lock(send_mutex_);
    return coord::send(control_.get(), text, Deadline::in(kSendTime));
  }

  // One question at a time, so that answers cannot be mixed up. After a timeout an answer may still
  // come: then the session is out of step, and every later question fails.
  Result<coord::Received> ask(const coord::Message& text, Deadline deadline) {
    const std::lock_guard lock(ask_mutex_);
    if (out_of_step_)
      return Error{ErrorKind::kUnavailable,
                   "an earlier question to the agent was not answered in time"};
    LOCKSTEP_TRY(tell(text));
    auto answer = coord::receive(control_.get(), deadline);
    out_of_step_ = !answer.ok();
    return answer;
  }

  Identity identity_;
  std::mutex ask_mutex_, send_mutex_;  // apart: a failure must be told while a question is open
  UniqueFd control_;
  std::unique_ptr<Lifeline> lifeline_;  // of one that was started by hand
  bool catches_signals_ = false;
  bool out_of_step_ = false;
  std::byte* memory_;
};

// A reader of the console that goes away (`| head -1`) ends no training: writes get EPIPE. What the
// program itself wants for the signal stays.
void outlive_readers() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    ::signal(SIGPIPE, SIG_IGN);
}

Identity identity_of(const message::ForkRequest& request) {
  return {request.uid,          request.slot,       request.rank,
          request.local_rank,   request.world_size, request.restart_count,
          request.max_restarts, request.newcomer,   request.run_id};
}

Result<std::unique_ptr<Session>> start(Birth birth) {
  outlive_readers();
  if (!birth.lifeline) catch_stop_signals();
  birth.blocked.reset();
  LOCKSTEP_TRY(coord::check_board(birth.board.get()));
  void* memory = coord::map_board(birth.board.get(), coord::kBoardBytes);
  if (memory == MAP_FAILED)
    return Error{
        ErrorKind::kUnavailable,
        std::string("cannot map the run's shared memory (1 TiB of address space, hardly any of it "
                    "used); is 'ulimit -v' set? mmap: ") +
            std::strerror(errno)};
  auto session = std::make_unique<LaunchedSession>(
      identity_of(birth.request), std::move(birth.control), static_cast<std::byte*>(memory));
  if (birth.lifeline) LOCKSTEP_TRY(session->watch(std::move(birth.lifeline)));
  coord::Header& header = coord::Board(memory, {}).header();
  set_line_claims([&header](std::uint64_t key) { return header.claim_line(key); });
  LOCKSTEP_TRY(session->hello());
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace

Status Session::check_first_run() const {
  if (!described_) return {};
  return Error{ErrorKind::kUsage,
               "a program has one run: Trainer::fit(), Step::open() or init_process_group(), once. "
               "Start a program of its own for the next one"};
}

Result<Admission> Session::describe(const Description& description) {
  LOCKSTEP_TRY(check_first_run());
  Result<Admission> admission = introduce(description);
  described_ = admission.ok();
  return admission;
}

Result<std::unique_ptr<Session>> Session::serve(UniqueFd agent) {
  LOCKSTEP_ASSIGN(Birth birth, serve_forks(std::move(agent)));
  return start(std::move(birth));
}

Result<std::unique_ptr<Session>> Session::open(const std::optional<Rendezvous>& rendezvous) {
  keep_note();
  LOCKSTEP_ASSIGN(UniqueFd zygote, take_descriptor(coord::kZygoteVariable));
  if (zygote) return serve(std::move(zygote));
  LOCKSTEP_ASSIGN(UniqueFd worker, take_descriptor(coord::kWorkerVariable));
  if (worker) {
    LOCKSTEP_ASSIGN(Birth birth, read_birth(std::move(worker)));
    return start(std::move(birth));
  }
  LOCKSTEP_ASSIGN(const auto meeting, meeting_of(rendezvous));
  if (!meeting) return open_alone();
  flush_outputs();  // before the run's lines, which the launcher writes where rank 0 does
  LOCKSTEP_ASSIGN(Birth birth, attach(*meeting));
  return start(std::move(birth));
}

}  // namespace lockstep::worker
