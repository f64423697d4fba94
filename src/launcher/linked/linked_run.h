// What a run of a program that links Lockstep has beside its workers' processes: the board, the
// talk with workers, the run directory with its records and incidents, who answers `lockstep scale`
// and `status`. Plain programs have none of it.
//
// Ownership: of the board's memory and the run directory's lock. Threads: the loop's. Errors: of
// the run's own files they are event::RecordsFailed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/loop.h"
#include "coord/actions.h"
#include "coord/events.h"
#include "coord/faults.h"
#include "coord/head.h"
#include "coord/messages.h"
#include "coord/progress.h"
#include "launcher/background.h"
#include "launcher/linked/descriptions.h"
#include "launcher/linked/records.h"
#include "launcher/linked/run_directory.h"
#include "launcher/linked/shared_board.h"
#include "launcher/options/options.h"
#include "launcher/output/console.h"
#include "launcher/reports/incidents.h"
#include "launcher/workers.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// Exit codes from here on name the signal that stopped the run.
inline constexpr int kSignalled = 128;

class LinkedRun {
 public:
  // The agent's; all outlive the object but `background`, whose jobs use it.
  struct Around {
    const LaunchOptions& options;
    Loop& loop;
    Console& console;
    Workers& workers;
    Background& background;
    std::function<void(coord::Event)> feed;
    std::function<void(coord::Event)> feed_later;  // at the next tick
    std::function<coord::RunStatus()> status;
    std::function<pid_t()> zygote;
    std::function<bool(const Worker&)> output_waits;  // it may sit in a write(2)
    // This one, of a run on several hosts; else none.
    std::function<std::optional<rundir::NodeOfRun>()> node;
  };
  explicit LinkedRun(Around around);

  Status open();  // the board: before the first worker
  int board_fd() const { return board_->fd(); }
  coord::Board board() const { return board_->view(); }
  // All workers are gone: a fresh board for those to come. If none can be made that ends the run,
  // and the old one is there until then.
  void renew_board();
  // The first of the board's transactions, and how long the run has run by now.
  void begin_records(Txn next, std::uint64_t ran_ns);
  Records& records() { return records_; }
  // Once a worker has described the run.
  std::string directory() const { return run_dir_ ? run_dir_->path() : ""; }

  // worker_talk.cpp: what workers and clients say.
  void read_worker(WorkerUid uid);
  void forget_descriptions();  // of attached workers that are gone before the first step

  // Each tick, in this order; tell_incidents() once the head has had its tick.
  void look();
  void tell_steps();
  void tell_incidents() { incidents_.print(false); }
  std::chrono::nanoseconds pause() const;  // until the next tick, at most
  // Transactions are being recorded.
  bool trains() const { return records_.is_open(); }
  coord::event::Progress observe(const Worker* dead = nullptr) const;
  void ring_if_due();  // once for each list of actions

  // linked_obey.cpp: the coordinator's actions that concern linked programs alone.
  void act(const coord::action::AppendDead& dead);
  void act(const coord::action::WriteProposal& proposal);
  void act(const coord::action::WriteTable& first);
  void act(const coord::action::NameDonor& donor);
  void act(const coord::action::Admit& admit);
  void act(const coord::action::Refuse& refuse);
  void act(const coord::action::RecordIncident& record);
  void act(const coord::action::RecordStop& record);
  void act(const coord::action::RecordStandstills& record);
  void act(const coord::action::SetFinalRecorded& final);
  void act(const coord::action::Reply& reply);

  // The run's end, in this order.
  void end_bar() { progress_.end(); }
  // The last records, as far as the disk takes them by then, and what is to be said.
  struct Ended {
    Status records;  // not all are there: has been told
    bool disk_answers = true;
  };
  Ended end(int exit_code, Deadline disk);
  bool refused_options() const { return descriptions_.refused_options(); }
  void leave_directory(bool disk_answers);

 private:
  Status make_board();
  std::chrono::nanoseconds all_still_for(std::uint64_t now) const;
  void look_at_vitals();
  coord::Progress::Sink progress_sink();
  void tell_progress(const coord::event::Progress& seen);
  void tell_where_it_goes_on(int exit_code) const;
  void tell_unfired_faults() const;
  bool is_ours(const coord::Fault& fault) const;

  void on_message(Worker& worker, coord::Message text);
  void on_fail(Worker& worker, const coord::message::Fail& fail);
  void on_describe(Worker& worker, coord::message::Describe description);
  Result<UniqueFd> lock_directory(const std::string& path) const;
  void try_run_lock();
  void settle_descriptions(const std::optional<Error>& refusal);
  void on_request(const coord::Message& question, RunDirectory::Answer answer);
  std::string status_json() const;

  Records::Told when_recorded();
  void write_beside(Background::Job write);
  void finale_recorded(const coord::message::Finish& finale, int board);
  void admit(const coord::action::Admit& admit);
  void ring_workers();
  void send_to(WorkerUid uid, const coord::Message& text, std::span<const int> descriptors = {});
  void feed(coord::Event event) { around_.feed(std::move(event)); }

  const Around around_;
  const LaunchOptions& options_;
  Loop& loop_;
  Console& console_;
  Workers& workers_;
  Background& background_;

  std::shared_ptr<SharedBoard> board_;
  int boards_ = 1;                              // that there have been
  int stops_ = 0;                               // on their way to the disk
  std::vector<coord::action::Admit> to_admit_;  // once they are there
  bool ring_ = false;                           // due
  bool wrote_table_ = false;                    // the board's first
  std::unique_ptr<RunDirectory> run_dir_;
  Records records_;
  coord::Progress progress_;
  Incidents incidents_;
  std::uint64_t time_limit_ns_ = 0;  // as the first member has told; 0: none
  bool begun_ = false;               // a group has had its first table since then, too
  bool checkpointed_ = false;  // a worker has published a checkpoint since the launcher's start
  Descriptions descriptions_;
  std::optional<Deadline> lock_deadline_;  // while they wait for the run directory's
  std::map<WorkerUid, coord::message::Finish> finales_;
  std::map<std::uint64_t, RunDirectory::Answer> answers_;
  std::uint64_t requests_ = 0;
  std::uint64_t looked_at_ns_ = 0;  // the vitals
  Vitals zygote_vitals_;
};

}  // namespace lockstep::launcher
