// What keepers say is written, read again and the same; what cannot be is refused.
#include "coord/keeper_wire.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>
#include <utility>

#include "coord/board.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;

constexpr Stay kStay{1, 2};

WorkerView worker(std::uint32_t number) {
  WorkerView one;
  one.uid = uid_of(kStay, number);
  one.slot = Slot(number);
  one.seat = static_cast<int>(number) - 1;
  one.stage = Stage::kReady;
  one.failure = Error{ErrorKind::kDisk, "no room"};
  one.next = Txn(7);
  one.state_hash = ~std::uint64_t{0};
  one.time = {1, 2, 3};
  one.first_txn = Txn(5);
  one.seen.uid = one.uid;
  one.seen.phase = Phase::kExchange;
  one.seen.applied = 6;
  one.seen.committed_ns = 99;
  one.seen.signal = 15;
  return one;
}

HostView view() {
  return {.stay = kStay,
          .now = 100,
          .reported = 3,
          .obeyed = 2,
          .last_step = 12,
          .signal = 2,
          .goes_on = true,
          .stopped = true,
          .waits = {Txn(4), 8},
          .workers = {worker(1), worker(3)}};
}

RunFacts facts() {
  RunFacts facts;
  facts.group = Group::kRunning;
  facts.virtual_workers = 8;
  for (std::uint16_t h = 0; h < 3; ++h)
    facts.hosts.push_back({.stay = {h, 1},
                           .standing = Standing::kHere,
                           .asked = 2,
                           .wanted = 2,
                           .target = 1,
                           .heard = 9,
                           .goes_on = true,
                           .waits = {Txn(3), 8}});
  facts.replacements_left = 7;
  facts.stop_reason = "SIGTERM";
  return facts;
}

Table table() {
  return {.txn = Txn(0),
          .generation = Generation(4),
          .flags = kTimeIsUp,
          .members = {{uid_of({0, 1}, 1), Slot(0)}, {uid_of(kStay, 1), Slot(1)}},
          .stop_after_step = 0,
          .hosts = {{{0, 1}, 1}, {kStay, 2}}};
}

std::vector<Report> reports() {
  const report::Outlook outlook{false, true, 3, false, true};
  const Error error{ErrorKind::kUsage, "why"};
  return {report::Described{{worker(1).uid, 8, true, error}, Rank(1)},
          report::Ready{worker(1).uid},
          report::Seen{},
          report::Lost{worker(1), Rank(2), {Cause::kHung, "hung", false, true}, {{1, 7}}, outlook},
          report::LetGo{worker(3), Rank(0), outlook},
          report::Signalled{},
          report::LostAtStart{"exit 2", true},
          report::LoopEnded{"rank 1"},
          report::Failed{worker(1).uid, Rank(1), error, true, false},
          report::Finished{worker(1).uid},
          report::MustEnd{65, "no data", true},
          report::NoMoreWorkers{"five", true},
          report::EndedLate{7},
          report::OutOfTime{},
          report::Told{event::Signal{15, "'lockstep stop' on node3"}}};
}

std::vector<Order> orders() {
  return {order::Admit{worker(1).uid, true},
          order::Refuse{worker(1).uid, {ErrorKind::kBadData, "other data"}},
          order::RecordStop{{12, 3.5, 2.25}},
          order::Begin{},
          order::FirstTable{table(), 77},
          order::Propose{table(), "the members wanted have changed"},
          order::Shrink{},
          order::LetGo{},
          order::Serve{true},
          order::Keep{worker(3).uid},
          order::StopInOrder{},
          order::Stop{15},
          order::Kill{"at once"},
          order::Finish{}};
}

// Something in each field.
RunState state(const std::vector<Order>& given = orders()) {
  RunState state{.facts = facts(), .now = 1'000};
  for (std::uint64_t h = 0; h < 3; ++h)
    state.hosts.push_back({.begun = h, .ranks = {uid_of(kStay, 1)}, .finished = true});
  state.ordered = 20;
  for (std::uint64_t number = 1; number <= given.size(); ++number)
    state.orders.push_back({number, given[number - 1], {0, 2}});
  state.program = 5;
  state.server = 1;
  state.proposal = table();
  state.generation = 4;
  state.began_at = 10;
  state.scaled_from = 3;
  state.applied = 6;
  state.furthest = 7;
  state.clock = {.time = {1, 2, 3}, .runs = true, .up = true};
  state.crashes = {{{Txn(4), 1}, 1}, {{Txn(4), 2}, 2}};
  state.hopeless = true;
  IncidentBook::Entry entry;
  entry.report.number = 2;
  entry.report.victims = {{worker(1).uid, Rank(1), "SIGKILL", "its last words", true}};
  entry.report.phases.noticed = 900;
  state.incidents = {2, {entry}};
  state.replacements = {1, 5};
  state.restarts = {1, 1, 4, {{4, "exit 7"}}};
  state.own_doing_at = 4;
  return state;
}

enum class Of { kHost, kRun, kState };
std::string again(const std::string& bytes, Of of) {
  const auto twice = [](const auto& read) {
    return read.ok() ? encode(*read) : "refused: " + read.error().message;
  };
  if (of == Of::kHost) return twice(decode_host_word(bytes));
  return of == Of::kRun ? twice(decode_run_word(bytes)) : twice(decode_run_state(bytes));
}

std::vector<std::pair<std::string, Of>> all_words() {
  std::vector<std::pair<std::string, Of>> words;
  for (const Report& report : reports())
    words.emplace_back(encode(HostWord{view(), report, {0, 9}}), Of::kHost);
  words.emplace_back(encode(RunWord{{{1, true, {Txn(3), 8}}}}), Of::kRun);
  words.emplace_back(encode(state()), Of::kState);
  return words;
}

TEST(KeeperWire, EachWordIsReadAgain) {
  EXPECT_EQ(reports().size(), std::variant_size_v<Report>);
  EXPECT_EQ(orders().size(), std::variant_size_v<Order>);
  for (const auto& [bytes, of] : all_words()) EXPECT_EQ(again(bytes, of), bytes);
  const auto read = decode_host_word(encode(HostWord{view(), reports()[3]}));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->view.workers[1].seen.committed_ns, 99U);
  EXPECT_EQ(read->view.waits, (Waits{Txn(4), 8}));
  const auto& lost = std::get<report::Lost>(read->report);
  EXPECT_EQ(lost.death.text, "hung");
  EXPECT_EQ(*lost.shares, (std::vector<std::uint32_t>{1, 7}));
  const auto run = decode_run_state(encode(state()));
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->facts.hosts[2].heard, 9U);
  EXPECT_EQ(std::get<order::FirstTable>(run->orders[4].order).table.members, table().members);
  EXPECT_EQ(run->orders[4].to, (std::vector<HostIndex>{0, 2}));
  EXPECT_EQ(run->incidents.open[0].report, state().incidents.open[0].report);
  EXPECT_EQ(run->crashes, state().crashes);
  EXPECT_EQ(run->restarts.errors, state().restarts.errors);
}

TEST(KeeperWire, APartOrMoreThanAllIsRefused) {
  for (const auto& [bytes, of] : all_words()) {
    for (std::size_t size = 0; size < bytes.size(); ++size)
      ASSERT_THAT(again(bytes.substr(0, size), of), HasSubstr("refused")) << size;
    EXPECT_THAT(again(bytes + "x", of), HasSubstr("bytes follow"));
  }
}

TEST(KeeperWire, OtherBytesAreRefusedOrSayTheSameAgain) {
  std::mt19937 random(1);
  int read = 0;
  for (int round = 0; round < 20; ++round)
    for (const auto& [bytes, of] : all_words()) {
      std::string other = bytes;
      for (int i = 0; i <= round % 3; ++i)
        other[random() % other.size()] = static_cast<char>(random());
      const std::string same = again(other, of);
      if (same.starts_with("refused: ")) continue;
      ++read;
      EXPECT_EQ(same, other);
    }
  EXPECT_GT(read, 20);  // most of it are numbers
}

template <class Change>
std::string refusal_of_view(Change change) {
  HostView wrong = view();
  change(wrong);
  return again(encode(HostWord{wrong}), Of::kHost);
}

template <class Change>
std::string refusal_of_state(Change change) {
  RunState wrong = state();
  change(wrong);
  return again(encode(wrong), Of::kState);
}

TEST(KeeperWire, WorkersThatAHostCannotHaveAreRefused) {
  const auto cannot = HasSubstr("workers that it cannot have");
  EXPECT_THAT(refusal_of_view([](HostView& v) { std::swap(v.workers[0], v.workers[1]); }), cannot);
  EXPECT_THAT(refusal_of_view([](HostView& v) { v.workers[1] = v.workers[0]; }), cannot);
  EXPECT_THAT(refusal_of_view([](HostView& v) { v.stay.count = 3; }), cannot);
  EXPECT_THAT(refusal_of_view([](HostView& v) { v.workers[0].uid = death_of(kStay); }), cannot);
  EXPECT_THAT(refusal_of_view([](HostView& v) {
                for (std::uint32_t i = 4; v.workers.size() <= kMaxSlots; ++i) {
                  v.workers.push_back(worker(1));
                  v.workers.back().uid = uid_of(kStay, i);
                }
              }),
              cannot);
}

TEST(KeeperWire, NumbersOutOfTheirRangeAreRefused) {
  const auto range = HasSubstr("are possible");
  EXPECT_THAT(refusal_of_view([](HostView& v) { v.workers[0].slot = Slot(kMaxSlots); }), range);
  EXPECT_THAT(refusal_of_view([](HostView& v) { v.workers[0].seat = -1; }), range);
  EXPECT_THAT(refusal_of_view([](HostView& v) { v.workers[0].next = Txn(~0ULL); }), range);
  EXPECT_THAT(refusal_of_view([](HostView& v) { v.signal = 65; }), range);
  EXPECT_THAT(refusal_of_view([](HostView& v) { v.now = ~0ULL; }), range);
  const report::Described none{{worker(1).uid, 0, true, {}}, Rank(0)};
  EXPECT_THAT(again(encode(HostWord{view(), none}), Of::kHost), range);
  const double no_number = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(again(encode(state({order::RecordStop{{1, no_number, 1}}})), Of::kState),
              HasSubstr("no number of seconds"));
  EXPECT_THAT(refusal_of_state([](RunState& s) { s.facts.replacements_left = -1; }), range);
}

TEST(KeeperWire, StatesAndTablesThatCannotBeAreRefused) {
  EXPECT_THAT(again(encode(RunState{}), Of::kState), HasSubstr("of 0 hosts"));
  EXPECT_THAT(refusal_of_state([](RunState& s) { s.hosts.pop_back(); }), HasSubstr("of 3 hosts"));
  EXPECT_THAT(refusal_of_state([](RunState& s) { s.facts.hosts[1].stay.host = 2; }),
              HasSubstr("another's place"));
  EXPECT_THAT(refusal_of_state([](RunState& s) { s.server = 3; }), HasSubstr("serves newcomers"));
  EXPECT_THAT(refusal_of_state([](RunState& s) { s.orders[0].to[1] = 3; }), HasSubstr("to nobody"));
  EXPECT_THAT(refusal_of_state([](RunState& s) { s.orders.back().number = 21; }),
              HasSubstr("order 21 is not in its place"));
  EXPECT_THAT(refusal_of_state([](RunState& s) { s.orders[1].number = 1; }),
              HasSubstr("order 1 is not in its place"));
  EXPECT_THAT(refusal_of_state([](RunState& s) { s.orders[0].to[1] = 0; }), HasSubstr("to nobody"));
  Table empty = table();
  empty.members.clear();
  EXPECT_THAT(again(encode(state({order::FirstTable{empty}})), Of::kState),
              HasSubstr("has 0 members"));
  Table other = table();
  std::swap(other.hosts[0], other.hosts[1]);
  EXPECT_THAT(again(encode(state({order::Propose{other, ""}})), Of::kState),
              HasSubstr("names other hosts"));
}

// Whatever a program has said before it died.
TEST(KeeperWire, EveryWordFitsIntoAFrame) {
  const std::string long_text(std::size_t{4} << 20, 'x');
  HostView most = view();
  most.workers.clear();
  for (std::uint32_t i = 1; i <= kMaxSlots; ++i) {
    most.workers.push_back(worker(i));
    most.workers.back().slot = Slot(0);
    most.workers.back().failure->message = long_text;
  }
  const HostWord word{
      most, report::Lost{most.workers[0], Rank(0), {Cause::kOwnDoing, long_text}, {}, {}}};
  EXPECT_LE(encode(word).size(), kMostWordBytes);
  const auto read = decode_host_word(encode(word));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->view.workers[9].failure->message.size(), kMostFailure);
  EXPECT_TRUE(std::get<report::Lost>(read->report).death.text.ends_with("x …"));
  RunState many = state();
  many.facts.stop_reason = long_text;
  Table full = table();
  full.members.clear();
  full.hosts.clear();
  for (std::uint16_t h = 0; h < kMaxHosts; ++h) {
    full.members.push_back({uid_of({h, 1}, 1), Slot(0)});
    full.hosts.push_back({{h, 1}, 1});
    if (h >= 3)
      many.facts.hosts.push_back(many.facts.hosts[0]), many.hosts.push_back(many.hosts[0]);
    many.facts.hosts[h].stay.host = h;
  }
  many.orders = {{1, order::Propose{full, long_text}, {}}};
  for (std::uint16_t h = 0; h < kMaxHosts; ++h) many.orders[0].to.push_back(h);
  many.proposal = full;
  const Victim victim{{}, {}, std::string(1000, 'x'), std::string(1000, 'y')};
  many.incidents.open.resize(3);
  for (IncidentBook::Entry& entry : many.incidents.open)
    entry.report.victims.assign(kMaxMembers, victim);
  EXPECT_LE(encode(many).size(), kMostWordBytes);
  const auto all = decode_run_state(encode(many));
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->incidents.open.back().report.victims.size(), kMaxMembers);
}

TEST(KeeperWire, OfMoreThanAHostCanHaveNothingIsRead) {
  HostView view;
  view.stay = {2, 1};
  const auto is_read = [&](std::size_t shares, std::size_t unreached) {
    HostWord word{
        view, report::Lost{
                  {}, Rank(0), {Cause::kOwnDoing, "so"}, std::vector<std::uint32_t>(shares), {}}};
    word.unreached.resize(unreached);
    return decode_host_word(encode(word)).ok();
  };
  EXPECT_TRUE(is_read(kMaxVirtualWorkers, kMaxHosts));
  EXPECT_FALSE(is_read(kMaxVirtualWorkers + 1, 0));
  EXPECT_FALSE(is_read(0, kMaxHosts + 1));
}

}  // namespace
}  // namespace lockstep::coord
