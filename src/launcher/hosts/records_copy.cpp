#include "launcher/hosts/records_copy.h"

#include <chrono>
#include <utility>

#include "base/env.h"
#include "base/log.h"

namespace lockstep::launcher {

using namespace std::chrono_literals;

void RecordsCopy::begin(coord::Stay self) {
  auto missed = MissedRecords::open(posix_env(), around_.run_dir(), self, around_.records().upto());
  if (!missed.ok()) return around_.records().fail(missed.error());
  missed_.emplace(*std::move(missed));
  copied_by_.reset();
  ask();
  look();
}

// The board's workers get no further than it has room for lines: they do not wait for long.
void RecordsCopy::look() {
  constexpr auto kPause = 5ms;
  constexpr auto kMostCopying = 10s;
  if (!missed_) return;
  if (const std::uint64_t from = around_.board().header().recorded_from.load(); from > 0) {
    const Txn next(from - 1);
    if (!copied_by_) copied_by_ = Deadline::in(kMostCopying);
    if (missed_->upto() >= next || copied_by_->passed()) {
      missed_.reset();
      return around_.begin(next);
    }
  }
  if (ask_again_.passed()) ask();
  look_ = around_.timers.in(kPause, [this] { look(); });
}

void RecordsCopy::ask() {
  constexpr auto kAgain = 1s;  // where no answer has come
  ask_again_ = Deadline::in(kAgain);
  around_.say(missed_->next());
}

void RecordsCopy::hear(const link::RecordMessage& message) {
  if (const auto* want = std::get_if<link::WantRecords>(&message))
    answer(*want);
  else
    take(std::get<link::RecordsPiece>(message));
}

void RecordsCopy::answer(const link::WantRecords& want) const {
  if (around_.run_dir().empty()) return;
  auto piece = read_records(posix_env(), around_.run_dir(), around_.records().upto(), want);
  if (!piece.ok()) return log_warning(piece.error().message);  // another one is asked
  around_.say(*std::move(piece));
}

// At the end of what others have, more comes while they go on.
void RecordsCopy::take(const link::RecordsPiece& piece) {
  constexpr auto kMoreComes = 20ms;
  if (!missed_) return;
  const auto is_news = missed_->take(piece);
  if (!is_news.ok()) {
    missed_.reset();
    return around_.records().fail(is_news.error());
  }
  if (!*is_news) return;
  if (piece.upto == Txn(0) || piece.of.near != missed_->next().near)
    ask();
  else
    ask_again_ = Deadline::in(kMoreComes);
}

}  // namespace lockstep::launcher
