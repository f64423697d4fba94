// One step on one to four hosts: shares are computed, travel, and are computed again, while workers
// and hosts die and others notice it late. Nobody is left waiting, and nothing that has to be
// compared is passed over.
#include "transaction/repeats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "transaction/again_claim.h"

namespace lockstep::transaction {
namespace {

constexpr Txn kRepeated(8);

// Rules as they once were, and one that was never there: that nobody waits for other hosts'
// newcomers.
enum class Planted { kNothing, kByOwner, kBeforeTheRecord, kNobodyWaits };

struct Share {
  ShareMarks marks;
  coord::Word claim{0};
};

struct Board {
  coord::Stay stay;
  bool alive = true;
  std::vector<WorkerUid> deaths = {};
  std::size_t lost = 0;  // hosts that it has appended
  std::vector<std::unique_ptr<Share>> shares = {};
};

struct Worker {
  std::size_t host = 0;
  bool alive = true, unproved = false, gone = false;
  std::size_t noticed = 0;  // deaths
  std::optional<coord::Ownership> ownership = {};
  std::optional<std::uint32_t> repeating = {};
};

class Step {
 public:
  Step(std::uint64_t seed, Planted planted) : planted_(planted), random_(seed) {
    make_table();
    for (Worker& worker : workers_) notice(worker);
  }

  // Empty: all is as it should be.
  std::string play() {
    int turns = 0;
    for (bool on = true; on && wrong_.empty();) {
      if (++turns > 10'000) return "somebody does the same again and again";
      if (deaths_left_ > 0 && chance(30)) die();
      const std::uint32_t first = up_to(2);
      on = false;
      for (std::uint32_t i = 0; i < 3 && !on; ++i)
        on = (first + i) % 3 == 0 ? act() : (first + i) % 3 == 1 ? travel() : notice_something();
    }
    for (const Worker& worker : workers_)
      if (wrong_.empty() && worker.alive && !worker.gone) wrong_ = "somebody waits for ever";
    return wrong_;
  }

  struct Seen {
    int died_after_some_had_gone = 0, judged_elsewhere = 0;
  };
  const Seen& seen() const { return seen_; }

 private:
  std::uint32_t up_to(std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random_);
  }
  bool chance(std::uint32_t one_in) { return up_to(one_in - 1) == 0; }

  void make_table() {
    const std::uint32_t hosts = 1 + up_to(3);
    table_.txn = kRepeated;
    for (std::uint32_t h = 0; h < hosts; ++h) {
      boards_.push_back({hosts == 1 ? coord::Stay{} : coord::Stay{coord::HostIndex(h), 1}});
      const std::uint32_t members = 1 + up_to(2);
      for (std::uint32_t m = 0; m < members; ++m) {
        table_.members.push_back({uid_of(boards_[h].stay, m + 1), Slot(m)});
        workers_.push_back({.host = h, .unproved = !workers_.empty() && chance(3)});
      }
      if (hosts > 1) table_.hosts.push_back({boards_[h].stay, members});
    }
    const auto members = static_cast<std::uint32_t>(workers_.size());
    items_ = members + up_to(members);
    const std::uint32_t which = up_to(3);
    for (std::uint32_t item = 0; item < items_; ++item)
      twice_.here.push_back(which == 0 || (which == 1 && chance(3)));
    if (chance(3))
      for (std::uint32_t item = 0; item < items_; ++item) twice_.over_hosts.push_back(chance(3));
    for (Board& board : boards_)
      for (std::uint32_t item = 0; item < items_; ++item)
        board.shares.push_back(std::make_unique<Share>());
    deaths_left_ = up_to(members - 1);
    judged_.assign(items_, false);
  }

  Board& board_of(const Worker& worker) { return boards_[worker.host]; }
  std::uint32_t index(const Worker& worker) const {
    return static_cast<std::uint32_t>(&worker - workers_.data());
  }

  bool needs_judge(std::uint32_t item, const ShareMarks& share) const {
    return !table_.hosts.empty() && (share.unproved || twice_.is_over_hosts(item));
  }

  void notice(Worker& worker) {
    const Board& board = board_of(worker);
    worker.noticed = board.deaths.size();
    worker.ownership.emplace(table_, items_, board.stay, board.deaths);
  }

  Repeats rules(Worker& worker) {
    Board& board = board_of(worker);
    return {table_, *worker.ownership, index(worker), twice_, [&, this](std::uint32_t item) {
              ShareMarks share = board.shares[item]->marks;
              if (planted_ == Planted::kBeforeTheRecord && !share.recorded)
                share = {.recorded = true, .rank = worker.ownership->owner(item)};
              return share;
            }};
  }

  bool all_done(Worker& worker) {
    if (planted_ != Planted::kByOwner && planted_ != Planted::kNobodyWaits)
      return rules(worker).all_done();
    for (std::uint32_t item = 0; item < items_; ++item) {
      const ShareMarks& share = board_of(worker).shares[item]->marks;
      const std::uint32_t whose = planted_ == Planted::kByOwner
                                      ? worker.ownership->owner(item)
                                      : static_cast<std::uint32_t>(share.rank);
      if ((twice_.here[item] || share.unproved) && worker.ownership->is_here(whose) &&
          !(needs_judge(item, share) ? share.judged : share.repeated))
        return false;
    }
    return true;
  }

  bool all_recorded(const Board& board) const {
    return std::ranges::all_of(board.shares, [](const auto& s) { return s->marks.recorded; });
  }

  // One thing that somebody does.
  bool act() {
    const std::size_t first = up_to(static_cast<std::uint32_t>(workers_.size() - 1));
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[(first + i) % workers_.size()];
      if (worker.alive && !worker.gone && work(worker)) return true;
    }
    return false;
  }

  bool work(Worker& worker) {
    Board& board = board_of(worker);
    if (worker.repeating) return end_repeat(worker);
    for (const std::uint32_t item : worker.ownership->items_of(index(worker))) {
      ShareMarks& share = board.shares[item]->marks;
      if (share.recorded) continue;
      share.recorded = true;
      share.rank = index(worker);
      share.unproved = worker.unproved;
      return true;
    }
    const bool all = all_recorded(board);
    if (all || !worker.unproved)
      for (std::uint32_t item = 0; item < items_; ++item)
        if (rules(worker).is_mine(item, all)) {
          worker.repeating = item;
          return true;
        }
    if (!all || !all_done(worker)) return false;
    go(worker);
    return true;
  }

  bool end_repeat(Worker& worker) {
    const std::uint32_t item = *std::exchange(worker.repeating, {});
    Share& share = *board_of(worker).shares[item];
    const auto is_alive = [&](std::uint32_t m) { return worker.ownership->alive(m); };
    if (!AgainClaim(share.claim).take(kRepeated, index(worker), is_alive)) return true;
    if (rules(worker).done(item)) return true;
    share.marks.repeated = true;
    judged_[item] = true;  // also before its record is there
    const bool judges = needs_judge(item, share.marks);
    if (!share.marks.unproved && !judges) return true;
    const auto proved_and_dead = [](const Worker& w) { return !w.unproved && !w.alive; };
    if (worker.unproved && std::ranges::none_of(workers_, proved_and_dead))
      wrong_ = "a newcomer has judged a newcomer, and all older workers live";
    if (!judges) return true;
    share.marks.judged = true;
    seen_.judged_elsewhere += workers_[share.marks.rank].host != worker.host;
    return true;
  }

  void go(Worker& worker) {
    worker.gone = true;
    for (std::uint32_t item = 0; item < items_; ++item) {
      const ShareMarks& share = board_of(worker).shares[item]->marks;
      if (share.unproved || needs_judge(item, share)
              ? !judged_[item]
              : twice_.here[item] && workers_[share.rank].host == worker.host && !share.repeated)
        wrong_ = "a share was not computed again";
    }
  }

  // Something that one board has and another lacks; fills, too.
  bool travel() {
    std::vector<std::pair<const Share*, Share*>> ways;
    for (const Board& from : boards_)
      for (const Board& to : boards_) {
        if (&from == &to || !from.alive || !to.alive) continue;
        for (std::uint32_t item = 0; item < items_; ++item) {
          const ShareMarks &there = from.shares[item]->marks, &here = to.shares[item]->marks;
          if ((there.recorded && !here.recorded) || (there.judged && here.recorded && !here.judged))
            ways.emplace_back(from.shares[item].get(), to.shares[item].get());
        }
      }
    if (ways.empty()) return false;
    const auto [from, to] = ways[up_to(static_cast<std::uint32_t>(ways.size() - 1))];
    if (to->marks.recorded) {
      to->marks.judged = true;
      return true;
    }
    // With all that there is of it by then, but for marks that are items of their own.
    to->claim.store(from->claim.load());
    to->marks = from->marks;
    to->marks.judged = false;
    return true;
  }

  // A worker or its host whole; somebody stays.
  void die() {
    const std::uint32_t which = up_to(static_cast<std::uint32_t>(workers_.size() - 1));
    const std::size_t host = workers_[which].host;
    const bool whole_host = chance(2);
    const auto goes = [&](const Worker& worker) {
      return whole_host ? worker.host == host : &worker == &workers_[which];
    };
    const auto survives = [&](const Worker& worker) { return worker.alive && !goes(worker); };
    if (!workers_[which].alive || std::ranges::none_of(workers_, survives)) return;
    --deaths_left_;
    seen_.died_after_some_had_gone += std::ranges::any_of(workers_, &Worker::gone);
    for (Worker& worker : workers_)
      if (goes(worker)) worker.alive = false;
    boards_[host].deaths.push_back(table_.members[which].uid);
    boards_[host].alive = std::ranges::any_of(
        workers_, [&](const Worker& worker) { return worker.alive && worker.host == host; });
    if (!boards_[host].alive) lost_.push_back(host);
  }

  bool notice_something() {
    for (Worker& worker : workers_)
      if (worker.alive && !worker.gone && !worker.repeating && chance(2) &&
          worker.noticed < board_of(worker).deaths.size()) {
        notice(worker);
        return true;
      }
    for (Board& board : boards_)
      if (board.alive && append_lost(board)) return true;
    return std::ranges::any_of(workers_, [&](Worker& worker) {
      const bool late = worker.alive && !worker.gone && !worker.repeating &&
                        worker.noticed < board_of(worker).deaths.size();
      if (late) notice(worker);
      return late;
    });
  }

  // All boards in one order; once this one has all that others have of the host.
  bool append_lost(Board& board) {
    if (board.lost == lost_.size()) return false;
    const std::size_t lost = lost_[board.lost];
    for (const Board& other : boards_)
      for (std::uint32_t item = 0; other.alive && item < items_; ++item) {
        const ShareMarks& there = other.shares[item]->marks;
        if (there.recorded && workers_[there.rank].host == lost &&
            !board.shares[item]->marks.recorded)
          return false;
      }
    board.deaths.push_back(coord::death_of(boards_[lost].stay));
    ++board.lost;
    return true;
  }

  Planted planted_;
  std::mt19937_64 random_;
  coord::Table table_;
  std::vector<Board> boards_;
  std::vector<Worker> workers_;
  SharesTwice twice_;
  std::uint32_t items_ = 0, deaths_left_ = 0;
  std::vector<std::size_t> lost_;  // hosts
  std::vector<bool> judged_;
  std::string wrong_;
  Seen seen_;
};

constexpr std::uint64_t kSteps = 20'000;

TEST(Repeats, NobodyWaitsForWhatOthersHaveGoneOnWithout) {
  Step::Seen seen;
  for (std::uint64_t seed = 0; seed < kSteps; ++seed) {
    Step step(seed, Planted::kNothing);
    ASSERT_EQ(step.play(), "") << "seed " << seed;
    seen.died_after_some_had_gone += step.seen().died_after_some_had_gone;
    seen.judged_elsewhere += step.seen().judged_elsewhere;
  }
  EXPECT_GT(seen.died_after_some_had_gone, 1000);
  EXPECT_GT(seen.judged_elsewhere, 1000);
}

TEST(Repeats, MistakesAreFound) {
  for (const Planted planted :
       {Planted::kByOwner, Planted::kBeforeTheRecord, Planted::kNobodyWaits}) {
    std::uint64_t seed = 0;
    while (seed < kSteps && Step(seed, planted).play().empty()) ++seed;
    EXPECT_LT(seed, kSteps) << static_cast<int>(planted);
  }
}

}  // namespace
}  // namespace lockstep::transaction
