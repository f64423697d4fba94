// The agent's part of a run directory: its lock, the leftovers of an earlier launcher, the control
// socket, incidents.
//
// Names with `.tmp-lockstep-` in front are reserved: whatever bears one belongs to a live launcher
// or is removed by the next. Errors: kDisk, kUnavailable. Threads: one.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/door.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "coord/incident.h"
#include "coord/messages.h"
#include "lockstep/status.h"
#include "rundir/lock.h"
#include "rundir/standstills.h"
#include "rundir/time_stop.h"

namespace lockstep::launcher {

inline constexpr const char* kControlSocket = ".tmp-lockstep-control";

class RunDirectory {
 public:
  // Answers a client of the control socket, at once or later by the function that it is handed
  // (once). What it throws is the answer.
  using Answer = std::function<void(const coord::message::Reply&)>;
  using OnRequest = std::function<void(const coord::Message&, Answer)>;

  // `lock`: of the directory, held. Removes leftovers and opens the control socket. `loop` must
  // outlive the object. A client that is silent for longer than `patience` makes room for others;
  // who finds none is told that the launcher is busy (kUnavailable). `node`: of a run on several;
  // kUsage, and nothing is changed there, where another one of them has the directory, too.
  static constexpr std::chrono::seconds kPatience{10};
  static constexpr std::size_t kMostClients = 16;
  static Result<std::unique_ptr<RunDirectory>> open(
      std::string path, UniqueFd lock, Loop& loop, OnRequest on_request,
      std::chrono::seconds patience = kPatience, const std::optional<rundir::NodeOfRun>& node = {});
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  // After a time without a descriptor for another client; now and then.
  void look() {
    if (door_) door_->look();
  }

  const std::string& path() const { return path_; }
  int lock() const { return lock_->get(); }
  // The transaction at whose start it was taken, as the directory has it: a worker's word may be
  // lost with it. 0: there is none.
  std::uint64_t newest_checkpoint() const;
  // At its end nothing of the directory is touched: its disk stands still.
  void leave_as_it_is() { is_own_ = false; }
  // Writes incidents/NNNN.json, from any thread and after the object's end; a second one of the
  // same number replaces the first. Numbers go on from earlier launchers.
  std::function<Status()> incident_writer(const coord::Incident& incident) const;
  // Writes stop.json, in the same way.
  std::function<Status()> stop_writer(const rundir::TimeStop& stop) const;
  // Writes standstills.json, in the same way.
  std::function<Status()> standstill_writer(std::vector<rundir::Standstill> standstills) const;
  Result<std::vector<rundir::Standstill>> standstills() const;  // as earlier launchers left them

 private:
  RunDirectory(std::string path, UniqueFd lock, Loop& loop, OnRequest on_request,
               std::chrono::seconds patience)
      : path_(std::move(path)),
        lock_(std::make_shared<UniqueFd>(std::move(lock))),
        loop_(loop),
        on_request_(std::move(on_request)),
        patience_(patience) {}
  Status listen();
  void greet(UniqueFd connection);
  void serve(const std::shared_ptr<UniqueFd>& client);
  void drop(int fd);
  void drop_silent();

  std::string path_;
  std::shared_ptr<UniqueFd> lock_;
  Loop& loop_;
  OnRequest on_request_;
  std::chrono::seconds patience_;
  bool is_own_ = false;  // so that what is left there is to be removed
  UniqueFd listener_;
  std::optional<Door> door_;  // open
  struct Client {
    std::shared_ptr<UniqueFd> socket;
    Deadline until;  // when it is to have spoken
  };
  std::map<int, Client> clients_;
  std::uint64_t earlier_incidents_ = 0;
};

// Whether a launcher listens there, answering or not.
bool has_launcher(const std::string& run_dir);

// The other end: asks the launcher of a run. Errors: kUnavailable if none is there or it does not
// answer in 10 s.
Result<coord::message::Reply> ask_launcher(const std::string& run_dir,
                                           const coord::Message& question);

}  // namespace lockstep::launcher
