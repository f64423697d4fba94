// Three hosts with a worker each, their boards kept equal by three carriers in one thread, over
// real sockets and over fake ones; streams that break, links that end, a host that is taken out by
// a round.
#include "carrier/carrier.h"

#include <gmock/gmock.h>

#include <memory>

#include "conformance/links_net.h"
#include "link/host_rounds.h"
#include "link/round_keeper.h"
#include "test_board.h"

namespace lockstep::carrier::test {
namespace {

using namespace std::chrono_literals;

using link::HostIndex;

constexpr HostIndex kHosts = 3;

coord::Table first_table(HostIndex hosts) {
  coord::Table table{.txn = Txn(0), .generation = {}, .members = {}};
  for (HostIndex host = 0; host < hosts; ++host) {
    table.members.push_back({coord::uid_of({host, 1}, 1), Slot(0)});
    table.hosts.push_back({{host, 1}, 1});
  }
  return table;
}

class CarrierTest : public testing::TestWithParam<bool> {
 protected:
  struct Host {
    std::unique_ptr<TestBoard> board;
    std::unique_ptr<TestWorker> worker;
    std::unique_ptr<link::HostRounds> rounds;
    std::unique_ptr<Carrier> carrier;
    bool alive = true, comes = false;  // its worker has no state yet
  };

  // `hosts`: of the first table; those behind them come later.
  void begin(std::uint64_t transactions, std::size_t buffer_bytes, unsigned seed,
             HostIndex hosts = kHosts) {
    random_.seed(seed);
    plan_ = std::make_unique<TestPlan>(transactions, buffer_bytes);
    if (GetParam())
      net_ = std::make_unique<links::test::TcpNet>(loop_, *timers_);
    else
      net_ = std::make_unique<links::test::FakeNet>(loop_, *timers_);
    for (HostIndex h = 0; h < kHosts; ++h) {
      Host& host = hosts_.emplace_back();
      host.board = std::make_unique<TestBoard>(*plan_, Stay{h, 1});
      host.worker = std::make_unique<TestWorker>(*plan_, *host.board, seen_);
      host.rounds = std::make_unique<link::HostRounds>(Stay{h, 1}, std::vector<HostIndex>{0, 1, 2});
      if (h >= hosts) host.board->come(), host.comes = true;
      start(h);
    }
    for (HostIndex h = 0; h < kHosts; ++h) obey(h);
    hosts_[0].board->put(first_table(hosts));
    hosts_[0].carrier->rung();
  }
  void start(HostIndex h) {
    Host& host = hosts_[h];
    host.carrier = std::make_unique<Carrier>(
        *plan_, *host.board, Stay{h, 1}, [this](const Line& line) { told_.push_back(line.text); });
    links::Limits limits;
    limits.ping = 50ms;
    host.carrier->use(net_->make(links::test::party(h), limits, host.carrier->events()));
  }
  void obey(HostIndex h) {
    std::vector<links::Other> others;
    for (HostIndex other = 0; other < kHosts; ++other)
      if (other != h)
        others.push_back(
            {links::test::party(other), net_->address(h, other), links::test::cookie_of(h, other)});
    hosts_[h].carrier->obey(hosts_[h].rounds->orders(), others);
  }
  void break_one() {
    const auto one = static_cast<HostIndex>(random_() % kHosts);
    const auto other = static_cast<HostIndex>((one + 1 + random_() % 2) % kHosts);
    if (auto* relay = net_->relay(one, other)) relay->close_after(1 + random_() % 30'000);
  }
  void restart(HostIndex h) {
    hosts_[h].carrier.reset();
    start(h);
    obey(h);
  }
  void kill(HostIndex h) {
    hosts_[h].alive = false;
    hosts_[h].carrier.reset();
  }
  void turn() {
    bool any = false;
    for (Host& host : hosts_) {
      if (!host.alive) continue;
      for (int i = 0; i < 3 && !host.comes; ++i)
        if (random_() % 2 == 0 && host.worker->txn() < held_at_ && host.worker->act(random_)) {
          any = true;
          host.carrier->rung();
        }
      host.carrier->attend();
    }
    loop_.run_once(Deadline::in(any ? 0ms : 1ms));
  }
  // Host 1 copies its state as it begins that transaction, and the others wait at its end. False:
  // the copy has not come to host 2.
  bool copy_at(
      std::uint64_t txn, const std::function<void()>& also = [] {}) {
    Host &donor = hosts_[1], &comer = hosts_[2];
    held_at_ = txn;
    if (!until([&] { return donor.worker->txn() == txn; }, also)) return false;
    donor.board->proposed = comer.board->self;
    donor.board->copy(txn);
    donor.carrier->rung();
    held_at_ = txn + 1;
    return until([&] { return comer.board->first() == txn; }, also);
  }
  // The comer takes part from the state that it has; nobody gets further ahead of it than a board
  // has room for, as of one that they wait for.
  bool takes_part() {
    Host& comer = hosts_[2];
    comer.worker->begin_at(comer.board->first());
    comer.comes = false;
    hosts_[0].worker->joins = coord::Member{coord::uid_of(comer.board->self, 1), Slot(0)};
    return until([this] { return is_through(); },
                 [&] { held_at_ = comer.worker->txn() + (comer.board->is_listed() ? 3 : 1); });
  }
  bool is_through() {
    return std::ranges::all_of(hosts_, [](const Host& host) {
      return !host.alive || host.comes || host.worker->is_through();
    });
  }
  // False: it takes too long.
  bool until(
      const std::function<bool()>& condition, const std::function<void()>& also = [] {}) {
    const Deadline end = Deadline::in(60s);
    while (!condition() && !end.passed() && !HasFailure()) {
      turn();
      also();
    }
    return condition();
  }
  std::string where() const {
    std::string text;
    for (const Host& host : hosts_) text += " " + std::to_string(host.worker->txn());
    return text + (told_.empty() ? "" : "; last told: " + told_.back());
  }

  // What an agent says goes over a wire.
  template <class Message>
  Message told(const Message& message) {
    const auto bytes = link::encode(link::RoundMessage(message));
    EXPECT_TRUE(bytes.ok());
    auto read = link::decode_round(*bytes);
    EXPECT_TRUE(read.ok());
    return std::get<Message>(*read);
  }
  // The leader's part and the agents', by hand: host `x` is taken out of the set.
  void take_out(HostIndex x) {
    link::RoundKeeper leader(*plan_, 1, {{0, 1}, {1, 1}, {2, 1}});
    leader.lose_host({x, 1});
    const auto each = [&](const std::function<void(HostIndex, Host&)>& what) {
      for (HostIndex h = 0; h < kHosts; ++h)
        if (hosts_[h].alive) what(h, hosts_[h]);
    };
    each([&](HostIndex h, Host& host) {
      for (int i = 0; i < 5; ++i) turn();
      ASSERT_TRUE(host.rounds->hear(told(leader.round())));
      obey(h);
      const auto answer = host.rounds->answer(*host.board, *plan_, host.rounds->orders().round);
      ASSERT_TRUE(answer.has_value());
      ASSERT_TRUE(leader.hear(told(*answer)));
    });
    ASSERT_TRUE(leader.is_answered());
    for (const link::Fills& fills : leader.fills()) {
      for (int i = 0; i < 5; ++i) turn();
      fills_ += fills.get.size();
      ASSERT_TRUE(hosts_[fills.host].rounds->hear(told(fills)));
      obey(fills.host);
    }
    const auto append = [&] {
      each([&](HostIndex, Host& host) {
        const auto now = host.rounds->append(*host.board);
        if (!now) return;
        for (const Stay stay : now->hosts) host.board->append(coord::death_of(stay));
        host.carrier->rung();
        leader.hear(told(now->told));
      });
    };
    ASSERT_TRUE(until([&] { return leader.round().out.empty(); }, append)) << where();
  }

  Loop loop_ = *Loop::open();
  std::unique_ptr<control::Timers> timers_ = *control::Timers::open(loop_);
  std::unique_ptr<TestPlan> plan_;
  Seen seen_;
  Random random_;
  std::unique_ptr<links::test::Net> net_;
  std::vector<Host> hosts_;
  std::vector<std::string> told_;
  std::size_t fills_ = 0;
  std::uint64_t held_at_ = link::kNever;  // nobody begins this transaction
};

TEST_P(CarrierTest, BoardsAreEqualThroughHundredsOfTransactions) {
  begin(300, 3000, 1);
  ASSERT_TRUE(until([this] { return is_through(); })) << where();
  for (HostIndex h = 0; h < kHosts; ++h) EXPECT_EQ(hosts_[h].carrier->working().size(), 2U);
}

TEST_P(CarrierTest, StreamsBreakAndNothingIsLost) {
  begin(120, 3000, 2);
  int turns = 0;
  ASSERT_TRUE(until([this] { return is_through(); },
                    [&] {
                      if (++turns % 250 == 0) break_one();
                    }))
      << where();
  EXPECT_THAT(told_, testing::Not(testing::IsEmpty()));
}

TEST_P(CarrierTest, ALinkThatEndsIsStartedAgain) {
  begin(60, 3000, 3);
  int turns = 0;
  ASSERT_TRUE(until([this] { return is_through(); },
                    [&] {
                      if (++turns % 150 == 0) restart(static_cast<HostIndex>(random_() % kHosts));
                    }))
      << where();
}

TEST_P(CarrierTest, ItemsLargerThanAFrameGoInSlices) {
  begin(12, 2'500'000, 4);
  int turns = 0;
  ASSERT_TRUE(until([this] { return is_through(); },
                    [&] {
                      if (++turns % 400 == 0) break_one();
                    }))
      << where();
}

TEST_P(CarrierTest, AHostIsTakenOutAnywhereInAStep) {
  std::size_t fills = 0;
  for (unsigned seed = 0; seed < 12 || (fills == 0 && seed < 100); ++seed) {
    SCOPED_TRACE(seed);
    hosts_.clear();
    seen_.clear();
    begin(16, 3000, 100 + seed);
    const auto x = static_cast<HostIndex>(seed % kHosts);
    const auto have_begun = [this] {  // else nobody knows who takes part
      return std::ranges::all_of(hosts_, [](const Host& host) { return host.board->table(0); });
    };
    ASSERT_TRUE(until(have_begun)) << where();
    const std::uint64_t txn = random_() % 10;
    ASSERT_TRUE(until([&] { return hosts_[x].worker->txn() >= txn; })) << where();
    for (auto turns = random_() % 20; turns > 0; --turns) turn();
    if (seed % 2 == 0) break_one();
    kill(x);
    for (auto turns = random_() % 20; turns > 0; --turns) turn();
    take_out(x);
    ASSERT_TRUE(until([this] { return is_through(); },
                      [&] {
                        if (random_() % 100 == 0) break_one();
                      }))
        << where();
    fills += std::exchange(fills_, 0);
  }
  EXPECT_GT(fills, 0U);
}

// Between frames and inside them: of the step that is on its way another host has the bytes up to
// that one, and the third has what it has.
TEST_P(CarrierTest, AHostDiesBehindAnyByteOfAStep) {
  std::size_t bytes = 1, fills = 0;
  for (bool in_step = true; in_step; bytes += 1499) {
    SCOPED_TRACE(bytes);
    hosts_.clear();
    seen_.clear();
    begin(8, 200, 300 + static_cast<unsigned>(bytes));
    const auto x = static_cast<HostIndex>(bytes % kHosts);
    const auto other = static_cast<HostIndex>((x + 1 + bytes % 2) % kHosts);
    ASSERT_TRUE(until([&] { return hosts_[x].worker->txn() >= 2; })) << where();
    const links::Relay* const relay = net_->relay(x, other);
    ASSERT_NE(relay, nullptr);
    net_->relay(x, other)->close_after(bytes);
    const auto is_cut = [&] { return net_->relay(x, other) != relay || relay->is_over(); };
    ASSERT_TRUE(until([&] { return is_cut() || is_through(); })) << where();
    in_step = is_cut() && hosts_[x].worker->txn() < 6;
    kill(x);
    take_out(x);
    ASSERT_TRUE(until([this] { return is_through(); })) << where();
    fills += std::exchange(fills_, 0);
  }
  RecordProperty("bytes", static_cast<int>(bytes));
  EXPECT_GT(bytes, 1000U);
  EXPECT_GT(fills, 0U);
}

TEST_P(CarrierTest, AHostComesWithACopyOfAnothersState) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    hosts_.clear();
    seen_.clear();
    begin(40, 3000, 200 + seed, 2);
    const auto disturb = [&] {
      if (seed % 3 == 1 && random_() % 300 == 0) break_one();
      if (seed % 3 == 2 && random_() % 600 == 0) restart(static_cast<HostIndex>(random_() % 3));
    };
    ASSERT_TRUE(copy_at(3 + seed, disturb)) << where();
    ASSERT_TRUE(takes_part()) << where();
    EXPECT_TRUE(hosts_[2].board->is_listed());
  }
}

// What its slices are sent from is the donor's one region.
TEST_P(CarrierTest, ACopyThatIsWrittenOverIsNeverTakenForWhole) {
  begin(200, 3000, 7, 2);
  Host &donor = hosts_[1], &comer = hosts_[2];
  donor.board->proposed = comer.board->self;
  plan_->image_bytes = 600'000;
  std::uint64_t copied = 0, come = 0;
  int copies = 0, landings = 0;
  ASSERT_TRUE(until([&] { return donor.worker->txn() == 150; },
                    [&] {
                      const std::uint64_t mark = comer.board->mark(link::image_of(0, 0));
                      if (mark != 0 && std::exchange(come, mark) != mark) ++landings;
                      if (random_() % 40 != 0 || donor.worker->txn() == copied) return;
                      copied = donor.worker->txn();
                      ++copies;
                      donor.board->copy(copied);
                      donor.carrier->rung();
                    }))
      << where();
  EXPECT_GT(landings, 3);
  const bool is_slow = !GetParam();
  EXPECT_TRUE(!is_slow || copies > landings + 3) << "none was written over on its way";
  ASSERT_TRUE(copy_at(160)) << where();
  ASSERT_TRUE(takes_part()) << where();
}

// One that comes and follows gets its items while another copy is on its way.
TEST_P(CarrierTest, ACopyHoldsNoItemsUp) {
  begin(60, 3000, 8, 2);
  plan_->image_bytes = 12'000'000;
  Host &donor = hosts_[1], &comer = hosts_[2];
  ASSERT_TRUE(copy_at(3)) << where();
  const auto follow = [&] { held_at_ = std::max(held_at_, comer.board->first_not_whole() + 2); };
  ASSERT_TRUE(until([&] { return donor.worker->txn() >= 8; }, follow)) << where();
  const std::uint64_t copied = donor.worker->txn(), before = comer.board->first_not_whole();
  donor.board->copy(copied);
  donor.carrier->rung();
  ASSERT_TRUE(until([&] { return comer.board->first() == copied || is_through(); }, follow));
  EXPECT_GE(comer.board->first_not_whole(), before + 3) << "they have waited for the copy";
}

INSTANTIATE_TEST_SUITE_P(Links, CarrierTest, testing::Bool(),
                         [](const auto& engine) { return engine.param ? "Tcp" : "Fake"; });

}  // namespace
}  // namespace lockstep::carrier::test
