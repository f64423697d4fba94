// The link of this host as its agent has it: the process `lockstep-link` and what is said to it
// (carrier/messages.h). It is killed where it stands still: stopped, or with an order unanswered.
// When it is gone that is told, once, with its cause; whoever owns this object decides whether it
// is started again. Other hosts' links then make their pairs anew, and nothing is lost.
//
// The caller reaps its children and shows each event here; a link that is killed by the destructor
// is reaped there.
//
// Ownership: loop and timers must outlive it; the process ends with this object, and with the
// launcher. Errors: kUsage if the program cannot be executed, kUnavailable. Threads: the loop's,
// the main one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "carrier/messages.h"
#include "control/address.h"
#include "control/timers.h"
#include "coord/table.h"
#include "launcher/processes/process.h"
#include "link/pair.h"
#include "links/links.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// Where other hosts' links come. The agent holds it for as long as the run lasts, so the port stays
// taken while a link is started again. At `address` or, where there is none, at all of this
// machine. `port` may be taken: then a free one, if `else_free`. Address::local_of() tells which.
Result<UniqueFd> listen_for_links(const std::optional<control::Address>& address, int port,
                                  bool else_free);

class LinkProcess {
 public:
  struct Plan {
    std::string program;  // of lockstep-link; empty: the one beside this program
    int board = -1;       // the memfd
    int listener = -1;
    links::Party self;
    links::Limits limits = {};                    // silence and ping
    std::chrono::milliseconds stop_grace{1'000};  // stopped for longer: killed
    std::chrono::milliseconds answer{10'000};     // an order unanswered for longer: killed
    int stderr_fd = 2;
  };
  // From the loop, or from event().
  struct Events {
    std::function<void(const carrier::Closed&)> closed;
    std::function<void(const carrier::Working&)> working;
    std::function<void(const carrier::Line&)> line;  // for the log
    // It has ended, and is reaped; for the log. It may be started again in here.
    std::function<void(const std::string& why)> gone;
  };
  LinkProcess(Loop& loop, control::Timers& timers, Events events);
  ~LinkProcess();
  LinkProcess(const LinkProcess&) = delete;
  LinkProcess& operator=(const LinkProcess&) = delete;

  // Precondition: it does not run. The board need have no plan yet: until then the link obeys, and
  // has no pairs.
  Status start(const Plan& plan);
  bool runs() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }  // -1: it does not run

  // The newest is what counts: one that has not been taken by then is not said. Each that is said
  // is answered by events.closed. Where it does not run: for the next start.
  void obey(const link::Orders& orders, const std::vector<links::Other>& others);

  // True if the event was of this process.
  bool event(const ChildEvent& event);
  // events.gone follows, with `why`.
  void kill(const std::string& why);

 private:
  Status open(const Plan& plan, UniqueFd& theirs);
  void send();
  void on_ready();
  bool hear();
  void hear(const carrier::Message& message);
  void await_answer();
  void close();
  void ended(const ChildEvent& event);

  Loop& loop_;
  control::Timers& timers_;
  const Events events_;
  Plan plan_;
  pid_t pid_ = -1;
  UniqueFd socket_;
  bool waits_to_send_ = false;
  std::string in_, out_;
  std::optional<carrier::Obey> newest_;  // of all
  bool is_said_ = true;                  // newest_ is, as far as the socket took it
  int unanswered_ = 0;
  std::string why_;  // it was killed here
  control::Timers::Timer stopped_, answers_;
};

}  // namespace lockstep::launcher
