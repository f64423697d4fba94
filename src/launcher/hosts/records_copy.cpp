#include "launcher/hosts/records_copy.h"

#include <chrono>
#include <utility>

#include "base/env.h"
#include "base/log.h"

namespace lockstep::launcher {

using namespace std::chrono_literals;

void RecordsCopy::begin(coord::Stay self) {
  end();
  files_ = std::make_shared<std::optional<MissedRecords>>();
  change(
      [self, run_dir = around_.run_dir()](Files& files, Txn upto) -> Result<bool> {
        LOCKSTEP_ASSIGN(files, MissedRecords::open(posix_env(), run_dir, self, upto));
        return true;
      },
      [this] {
        ask();
        look();
      });
}

// `then`, unless this copy is over by then, once `how` has done that beside the loop, and made a
// difference by it.
void RecordsCopy::change(std::function<Result<bool>(Files&, Txn upto)> how,
                         std::function<void()> then) {
  struct After {
    Copied copied;
    bool is_other = false;
  };
  const auto after = std::make_shared<After>();
  around_.records().beside(
      [after, files = files_, how = std::move(how)](Txn upto) -> Status {
        LOCKSTEP_ASSIGN(after->is_other, how(*files, upto));
        after->copied = {(*files)->next(), (*files)->upto()};
        return {};
      },
      [this, after, files = files_, then = std::move(then)](const Status& status) {
        if (files != files_) return;
        taking_ = false;
        if (!status.ok()) {
          end();
          return around_.records().fail(status.error());
        }
        copied_ = after->copied;
        if (after->is_other) then();
      });
}

void RecordsCopy::end() {
  // Closed beside the loop: over NFS the bytes are written then.
  if (files_)
    around_.records().beside(
        [files = std::exchange(files_, {})](Txn) {
          files->reset();
          return Status();
        },
        [](const Status&) {});
  copied_.reset();
  taking_ = false;
  copied_by_.reset();
  look_.cancel();
}

// The board's workers get no further than it has room for lines: they do not wait for long.
void RecordsCopy::look() {
  constexpr auto kPause = 5ms;
  constexpr auto kMostCopying = 10s;
  if (const std::uint64_t from = around_.board().header().recorded_from.load(); from > 0) {
    const Txn next(from - 1);
    if (!copied_by_) copied_by_ = Deadline::in(kMostCopying);
    if (copied_->upto >= next || copied_by_->passed()) {
      end();
      return around_.begin(next);
    }
  }
  if (ask_again_.passed()) ask();
  look_ = around_.timers.in(kPause, [this] { look(); });
}

void RecordsCopy::ask() {
  constexpr auto kAgain = 1s;  // where no answer has come
  ask_again_ = Deadline::in(kAgain);
  around_.say(copied_->next);
}

void RecordsCopy::hear(const link::RecordMessage& message) {
  if (const auto* want = std::get_if<link::WantRecords>(&message))
    answer(*want);
  else
    take(std::get<link::RecordsPiece>(message));
}

// While the disk stands still no more than a few wait for it: whoever has no answer asks again.
void RecordsCopy::answer(const link::WantRecords& want) {
  constexpr int kMostAnswers = 8;
  if (around_.run_dir().empty() || answers_ >= kMostAnswers) return;
  ++answers_;
  const auto piece = std::make_shared<link::RecordsPiece>();
  around_.records().beside(
      [piece, want, run_dir = around_.run_dir()](Txn upto) -> Status {
        LOCKSTEP_ASSIGN(*piece, read_records(posix_env(), run_dir, upto, want));
        return {};
      },
      [this, piece](const Status& read) {
        --answers_;
        if (!read.ok()) return log_warning(read.error().message);  // another one is asked
        around_.say(*piece);
      });
}

void RecordsCopy::take(link::RecordsPiece piece) {
  if (!copied_ || taking_) return;
  taking_ = true;
  const bool has_end = piece.upto != Txn(0), near = piece.of.near;
  change([piece = std::move(piece)](Files& files, Txn) { return files->take(piece); },
         [this, has_end, near] { go_on(has_end && near == copied_->next.near); });
}

// At the end of what others have, more comes while they go on.
void RecordsCopy::go_on(bool is_at_end) {
  constexpr auto kMoreComes = 20ms;
  if (is_at_end)
    ask_again_ = Deadline::in(kMoreComes);
  else
    ask();
}

}  // namespace lockstep::launcher
