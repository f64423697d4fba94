// Any bytes as what an agent that has the key says in a run on three hosts (link/agent_talk.h): one
// host to the leader, whose other two are sound, or the leader to a host. What is let in can be
// worked with: what the leader then writes, deals and tells others can read, and what a host then
// says the leader can.
//
// The input: whose side it is (bit 0), then frames, each with its length in front; to a host also
// the run's state that is in force, which is of the facts (quorum/wire.h), behind a byte kState.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "carrier/messages.h"
#include "control/connection.h"
#include "coord/membership.h"
#include "link/agent_talk.h"
#include "link/host_rounds.h"
#include "link/round_keeper.h"
#include "require.h"

using namespace lockstep;
using namespace lockstep::coord;

namespace {

constexpr std::uint64_t kBegin = 1'000'000'000'000, kTurn = 20'000'000;
constexpr int kMostFrames = 24;
constexpr char kState = 3;  // no kind of a frame
constexpr std::uint16_t kSound[] = {0, 1}, kBroken = 2, kSelf = 1;

const link::SamePlan& plan() {
  static const link::SamePlan one{{.chunks = {3, 1}, .records = 4, .buffers = 1, .cells = 2}};
  return one;
}

Config config() {
  Config all;
  all.max_restarts = 2;
  all.zygote = false;
  return all;
}

std::string_view take_frame(std::string_view& bytes) {
  if (bytes.size() < 2) return std::exchange(bytes, {});
  const std::size_t size =
      static_cast<unsigned char>(bytes[0]) + 256u * static_cast<unsigned char>(bytes[1]);
  bytes.remove_prefix(2);
  const std::string_view frame = bytes.substr(0, size);
  bytes.remove_prefix(frame.size());
  return frame;
}

// As launcher::HostsRun has it, where it leads.
class Leader {
 public:
  Leader() {
    for (const std::uint16_t h : kSound) {
      HostView& view = views_[h];
      view.stay = {h, 1};
      WorkerView worker;
      worker.uid = uid_of(view.stay, 1);
      worker.stage = Stage::kReady;
      view.workers = {worker};
      view.reported = 1;
      say(h, report::Ready{worker.uid});
    }
  }

  void hear(std::string_view frame) {
    now_ += kTurn;
    auto heard = talk_.hear(frame);
    if (heard.ok()) std::visit([this](auto& what) { this->on(what); }, *heard);
    go_on();
    for (const std::uint16_t h : kSound) say(h, report::Seen{});
    go_on();
  }

 private:
  // What it cannot know is filled in, so that some words count.
  void on(HostWord& word) {
    const HostFacts& facts = lead_.facts().hosts[kBroken];
    const bool is_view = std::holds_alternative<report::Seen>(word.report);
    if (word.view.now == 0) word.view.now = now_;
    if (word.view.reported == 0) word.view.reported = facts.heard + (is_view ? 0 : 1);
    lead_.hear(kBroken, word, now_);
  }
  void on(link::RoundMessage& message) {
    if (!keeper_) return;
    if (auto* answer = std::get_if<link::Answer>(&message)) {
      if (answer->stamp == Stamp{}) answer->stamp = keeper_->round().stamp;
      if (keeper_->hear(*answer)) deal();
    } else if (auto* appended = std::get_if<link::Appended>(&message)) {
      if (appended->stamp == Stamp{}) appended->stamp = keeper_->round().stamp;
      keeper_->hear(*appended);
    }
  }
  static void on(const link::RecordMessage& message) {
    require(link::decode_records(link::encode(message)).ok());
  }

  void say(std::uint16_t host, const Report& report) {
    views_[host].now = now_;
    const HostWord word{views_[host], report};
    lead_.hear(host, word, now_);
  }

  void go_on() {
    for (int i = 0; i < 3; ++i) {
      lead_.pass(now_ += 1'000'000);
      const auto state = lead_.write();
      if (!state) break;
      const std::string bytes = encode(*state);
      require(bytes.size() < control::kMostFrameBytes / 2 && decode_run_state(bytes).ok());
      obey(*state);
      const RunLead::Follows follows = lead_.in_force();
      for (const auto& [stay, of_set] : follows.take_out) take_out(stay, of_set);
      for (const Stay stay : follows.bring) rounds().join(stay), answer();
    }
  }

  void obey(const RunState& state) {
    for (const GivenOrder& given : state.orders)
      for (const HostIndex host : given.to) {
        HostView& view = views_[host];
        if (host == kBroken || given.number <= view.obeyed) continue;
        view.obeyed = given.number;
        const auto* first = std::get_if<order::FirstTable>(&given.order);
        if (first != nullptr) table_ = first->table;
        if (first != nullptr && !view.workers.empty()) view.workers[0].stage = Stage::kMember;
        if (!std::holds_alternative<order::Begin>(given.order)) continue;
        ++view.stay.count;
        view.workers.clear();
      }
  }

  link::RoundKeeper& rounds() {
    if (keeper_) return *keeper_;
    std::vector<Stay> stays;
    for (const HostFacts& host : lead_.facts().hosts) stays.push_back(host.stay);
    return keeper_.emplace(plan(), 1, stays);
  }

  void take_out(Stay stay, bool of_set) {
    of_set ? rounds().lose_host(stay) : rounds().lose_workers(stay);
    answer();
  }

  // The sound ones, at once; the broken one's may have come.
  void answer() {
    const Stamp stamp = keeper_->round().stamp;
    require(link::encode(link::RoundMessage(keeper_->round())).ok());
    for (const link::HostIndex h : kSound) {
      link::Answer answer{
          .stamp = stamp, .host = h, .have = {}, .other_tables = {}, .appended = {}};
      if (table_) answer.have.lowest = table_->txn.value(), answer.other_tables = {*table_};
      keeper_->hear(answer);
    }
    deal();
  }
  void deal() {
    if (!keeper_->is_answered()) return;
    for (const link::Fills& fills : keeper_->fills())
      require(link::encode(link::RoundMessage(fills)).ok());
    for (const link::HostIndex h : kSound) keeper_->hear(link::Appended{keeper_->round().stamp, h});
  }

  const Config config_ = config();
  std::uint64_t now_ = kBegin;
  RunLead lead_{config_, first_state({1, 1, 1}, kBegin), kBegin};
  link::LeaderTalk talk_{kBroken, [](const std::string&) {}};
  std::map<std::uint16_t, HostView> views_;
  std::optional<Table> table_;
  std::optional<link::RoundKeeper> keeper_;
};

// As launcher::HostsRun has it, where another one leads.
class Follower {
 public:
  void hear(std::string_view frame) {
    now_ += kTurn;
    if (frame.starts_with(kState)) {
      follow(frame.substr(1));
    } else if (auto heard = talk_.hear(frame); heard.ok()) {
      std::visit([this](auto& what) { this->on(what); }, *heard);
    }
    do_all(coordinator_.handle(event::Tick{}, now_));
    round();
  }

 private:
  void follow(std::string_view bytes) {
    const auto state = decode_run_state(bytes);
    if (!state.ok() || state->hosts.size() != 3) return;
    talk_.forget(state->facts.hosts[kSelf].heard);
    do_all(coordinator_.follow(*state, now_));
  }
  void on(const RunWord& word) { coordinator_.note(word.pulses); }
  void on(link::RoundMessage& message) {
    if (auto* round = std::get_if<link::Round>(&message)) {
      if (round->stamp == Stamp{}) round->stamp = {1, ++rounds_heard_};
      rounds_.hear(*round);
    } else if (auto* fills = std::get_if<link::Fills>(&message)) {
      if (fills->stamp == Stamp{}) fills->stamp = rounds_.orders().round;
      rounds_.hear(*fills);
    }
    std::string orders = carrier::encode(carrier::Obey{rounds_.orders(), {}});
    const auto again = carrier::take_message(orders);
    require(again.ok() && *again && orders.empty());
  }
  static void on(const link::RecordMessage&) {}

  void round() {
    const link::BareMarks marks{{}};
    if (const auto answer = rounds_.answer(marks, plan(), rounds_.orders().round))
      require(link::encode(link::RoundMessage(*answer)).ok());
    if (const auto append = rounds_.append(marks)) do_all(coordinator_.append(append->hosts, now_));
  }

  // Workers that come at once.
  void do_all(const Actions& actions) {
    for (const Action& action : actions) {
      if (std::holds_alternative<action::AppendDead>(action.what)) require(++deaths_ < 1 << 16);
      const auto* spawn = std::get_if<action::Spawn>(&action.what);
      if (spawn == nullptr || ++spawned_ > 8) continue;
      const WorkerUid uid = spawn->uid;
      (void)coordinator_.handle(event::Forked{uid, {}}, now_);
      (void)coordinator_.handle(event::Hello{uid}, now_);
      (void)coordinator_.handle(event::Described{uid, 4, true, {}, 7}, now_);
    }
  }

  static void said(const HostView& view, const Report& report) {
    const HostWord word{view, report};
    require(decode_host_word(encode(word)).ok());
  }

  std::uint64_t now_ = kBegin, rounds_heard_ = 0;
  int spawned_ = 0, deaths_ = 0;
  Coordinator coordinator_{config(), {kSelf, {1, 1, 1}, said}};
  link::HostTalk talk_{kSelf, [](const std::string&) {}};
  link::HostRounds rounds_{{kSelf, 1}, {0, 1, 2}};
};

template <class Side>
void play(std::string_view bytes) {
  Side side;
  for (int i = 0; i < kMostFrames && !bytes.empty(); ++i) side.hear(take_frame(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  (data[0] & 1) == 0 ? play<Leader>(bytes) : play<Follower>(bytes);
  return 0;
}
