// What the leader of a run on several hosts and the others say to each other beside who leads and
// the run's state (quorum/wire.h), over connections that break and are made again: words of the
// keepers (coord/keeper_wire.h) and of rounds. Whoever holds the connection calls open() and
// close(), also where another agent leads, or the same one anew; nothing has to be remembered of an
// old one.
//
//   to a host   what changes all the time; the newest round's messages
//   to the run  views; reports, each until what is in force shows it heard; the newest answers of
//               rounds
//   both        records, and questions for some: once, so whoever asks asks again
//
//   u8 0 a keeper's word, 1 a round's message, 2 of records | its bytes
//
// Threads: one at a time. Errors: kBadData for what the other cannot have said, after which the
// connection is no good; kUsage for a round's message that is too long.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "coord/keeper_wire.h"
#include "link/messages.h"
#include "link/record_words.h"
#include "lockstep/status.h"

namespace lockstep::link {

using SendFrame = std::function<void(std::string frame)>;

// The leader's side, of one host.
class LeaderTalk {
 public:
  LeaderTalk(HostIndex host, SendFrame send) : host_(host), send_(std::move(send)) {}

  void open(const coord::RunWord& word);
  void close() { is_open_ = false; }

  void look(const coord::RunWord& word) const;  // at each heartbeat, and where it has changed
  Status tell(const RoundMessage& message);     // Round, or Fills of the newest
  void say(const RecordMessage& message) const;

  using Heard =
      std::variant<coord::HostWord, RoundMessage, RecordMessage>;  // none of Round and Fills
  Result<Heard> hear(std::string_view frame) const;

 private:
  const HostIndex host_;
  const SendFrame send_;
  bool is_open_ = false;
  std::string round_, fills_;  // the newest, as they are said; "": none
};

// A host's side.
class HostTalk {
 public:
  HostTalk(HostIndex self, SendFrame send) : self_(self), send_(std::move(send)) {}

  void open(const coord::HostView& view);
  void close() { is_open_ = false; }

  void report(const coord::HostView& view, const coord::Report& report);  // as coord::ToRun
  void look(const coord::HostView& view) { report(view, coord::report::Seen{}); }
  Status tell(const RoundMessage& message);  // an Answer, Appended, or a Promise
  void say(const RecordMessage& message) const;

  using Heard = std::variant<coord::RunWord, RoundMessage, RecordMessage>;  // a Round, or Fills
  Result<Heard> hear(std::string_view frame) const;
  // The run has heard so many reports, and that is in force.
  void forget(std::uint64_t heard);
  // Whom its link does not reach, from the next word on.
  void reaches_not(std::vector<HostIndex> hosts) { unreached_ = std::move(hosts); }

 private:
  void say(coord::HostWord word);

  const HostIndex self_;
  const SendFrame send_;
  bool is_open_ = false;
  std::vector<HostIndex> unreached_;
  std::deque<coord::HostWord> unheard_;
  std::string promise_, answer_, appended_;  // the newest, as they are said; "": none
};

}  // namespace lockstep::link
