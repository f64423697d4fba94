#include "link/agent_talk.h"

#include "base/errors.h"

namespace lockstep::link {
namespace {

constexpr char kKeeper = 0, kRound = 1, kRecords = 2;

std::string frame_of(char what, const std::string& bytes) { return std::string(1, what) + bytes; }

Error cannot(const std::string& what) { return bad_data("an agent says " + what); }

bool is_from(HostIndex host, const RoundMessage& message) {
  if (const auto* answer = std::get_if<Answer>(&message)) return answer->host == host;
  if (const auto* promise = std::get_if<Promise>(&message)) return promise->host == host;
  const auto* appended = std::get_if<Appended>(&message);
  return appended != nullptr && appended->host == host;
}

bool is_to(HostIndex host, const RoundMessage& message) {
  if (std::holds_alternative<Round>(message)) return true;
  const auto* fills = std::get_if<Fills>(&message);
  return fills != nullptr && fills->host == host;
}

// g++ 12 takes a temporary of it for uninitialized.
template <class Heard, class What>
Heard heard(What what) {
  Heard heard;
  heard.template emplace<What>(std::move(what));
  return heard;
}

}  // namespace

void LeaderTalk::open(const coord::RunWord& word) {
  is_open_ = true;
  look(word);
  for (const std::string& said : {round_, fills_})
    if (!said.empty()) send_(said);
}

void LeaderTalk::look(const coord::RunWord& word) const {
  if (is_open_) send_(frame_of(kKeeper, encode(word)));
}

// A new round takes the place of all before it, fills that of its earlier ones.
Status LeaderTalk::tell(const RoundMessage& message) {
  LOCKSTEP_ASSIGN(const std::string bytes, encode(message));
  const bool is_fills = std::holds_alternative<Fills>(message);
  if (!is_fills) fills_.clear();
  std::string& kept = is_fills ? fills_ : round_;
  kept = frame_of(kRound, bytes);
  if (is_open_) send_(kept);
  return {};
}

void LeaderTalk::say(const RecordMessage& message) const {
  if (is_open_) send_(frame_of(kRecords, encode(message)));
}

// Others' records are anybody's to send, questions one's own.
Result<LeaderTalk::Heard> LeaderTalk::hear(std::string_view frame) const {
  if (frame.empty()) return cannot("nothing");
  const std::string_view bytes = frame.substr(1);
  if (frame[0] == kRound) {
    LOCKSTEP_ASSIGN(RoundMessage message, decode_round(bytes));
    if (!is_from(host_, message)) return cannot("what no host answers in a round");
    return heard<Heard>(std::move(message));
  }
  if (frame[0] == kRecords) {
    LOCKSTEP_ASSIGN(RecordMessage message, decode_records(bytes));
    const auto* want = std::get_if<WantRecords>(&message);
    if (want != nullptr && want->who.host != host_) return cannot("what another host has to ask");
    return heard<Heard>(std::move(message));
  }
  if (frame[0] != kKeeper) return cannot("what is of no kind");
  LOCKSTEP_ASSIGN(coord::HostWord word, coord::decode_host_word(bytes));
  if (word.view.stay.host != host_) return cannot("that it is another host");
  return heard<Heard>(std::move(word));
}

void HostTalk::open(const coord::HostView& view) {
  is_open_ = true;
  for (const coord::HostWord& word : unheard_) say(word);
  look(view);
  for (const std::string& said : {promise_, answer_, appended_})
    if (!said.empty()) send_(said);
}

void HostTalk::say(coord::HostWord word) {
  word.unreached = unreached_;
  if (is_open_) send_(frame_of(kKeeper, encode(word)));
}

void HostTalk::report(const coord::HostView& view, const coord::Report& report) {
  const coord::HostWord word{view, report};
  if (!std::holds_alternative<coord::report::Seen>(report)) unheard_.push_back(word);
  say(word);
}

Status HostTalk::tell(const RoundMessage& message) {
  LOCKSTEP_ASSIGN(const std::string bytes, encode(message));
  std::string& kept = std::holds_alternative<Promise>(message)  ? promise_
                      : std::holds_alternative<Answer>(message) ? answer_
                                                                : appended_;
  kept = frame_of(kRound, bytes);
  if (is_open_) send_(kept);
  return {};
}

void HostTalk::say(const RecordMessage& message) const {
  if (is_open_) send_(frame_of(kRecords, encode(message)));
}

Result<HostTalk::Heard> HostTalk::hear(std::string_view frame) const {
  if (frame.empty()) return cannot("nothing");
  const std::string_view bytes = frame.substr(1);
  if (frame[0] == kRound) {
    LOCKSTEP_ASSIGN(RoundMessage message, decode_round(bytes));
    if (!is_to(self_, message)) return cannot("what no leader tells this host in a round");
    return heard<Heard>(std::move(message));
  }
  if (frame[0] == kRecords) {
    LOCKSTEP_ASSIGN(RecordMessage message, decode_records(bytes));
    return heard<Heard>(std::move(message));
  }
  if (frame[0] != kKeeper) return cannot("what is of no kind");
  LOCKSTEP_ASSIGN(coord::RunWord word, coord::decode_run_word(bytes));
  return heard<Heard>(std::move(word));
}

void HostTalk::forget(std::uint64_t heard) {
  while (!unheard_.empty() && unheard_.front().view.reported <= heard) unheard_.pop_front();
}

}  // namespace lockstep::link
