// A second look at what a worker computes that came in later. Its shares were compared as it came
// in (participant_newcomer.cpp), but what it keeps outside of the train state, as a loop's own
// count of epochs, may begin to matter at any step. So from time to time one of its shares is
// computed by a worker, too, that was there before it; and one of a worker that was there before by
// one that came in later, as what the older one keeps by virtual worker (a pool) the other lacks.
// And batches of evaluations, by whose figures schedules and the program go, are computed twice now
// and then: nothing else compares them.
//
// Which ones follows from the table. As with rehearsals each host looks at its own workers. And of
// several hosts one share of each is the next one's to compute, from the first step on: workers of
// one host have its CPU and its build of the program alike, and agree among themselves.
#include <bit>
#include <span>
#include <sstream>

#include "base/hash.h"
#include "transaction/participant.h"
#include "transaction/state_image.h"

namespace lockstep::transaction {
namespace {

// Figures, and no times.
bool same_figures(const comm::EvalCell& a, const comm::EvalCell& b) {
  return std::bit_cast<std::uint64_t>(a.loss_sum) == std::bit_cast<std::uint64_t>(b.loss_sum) &&
         std::bit_cast<std::uint64_t>(a.correct) == std::bit_cast<std::uint64_t>(b.correct) &&
         a.count == b.count && a.left_out == b.left_out;
}

std::string figures(const comm::EvalCell& cell) {
  std::ostringstream text;
  text.precision(17);
  text << "a loss of " << cell.loss_sum << " and " << cell.correct << " right answers in "
       << cell.count << " samples";
  return text.str();
}

}  // namespace

std::vector<std::uint32_t> Participant::members_here() const {
  std::vector<std::uint32_t> here;
  for (std::uint32_t m = 0; m < table_.members.size(); ++m)
    if (exchange_->ownership().is_here(m)) here.push_back(m);
  return here;
}

std::vector<std::uint32_t> Participant::members_of(coord::Stay host) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t m = 0; m < table_.members.size(); ++m)
    if (coord::stay_of(table_.members[m].uid) == host) found.push_back(m);
  return found;
}

// Those that came after the next one, who repeats what they compute; or else before it.
std::vector<std::uint32_t> Participant::members_that_came(Came came) const {
  const std::vector<std::uint32_t> here = members_here();
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < here.size(); ++i) {
    const WorkerUid self = table_.members[here[i]].uid,
                    next = table_.members[here[(i + 1) % here.size()]].uid;
    if (came == Came::kLater ? self > next : self < next) found.push_back(here[i]);
  }
  return found;
}

// A step has begun.
void Participant::look_again() {
  repeated_batch_.reset();
  if (!program_.is_step(next_)) {
    if (program_.evaluates(next_)) ++evaluations_;
    return;
  }
  if (!program_.looks_again(next_)) return;
  // Of two members, whom two others repeat: a step takes no longer for the second one.
  if (moved())
    for (const Came came : {Came::kLater, Came::kEarlier})
      if (const auto item = share_to_repeat(members_that_came(came))) twice_.here[*item] = true;
  if (table_.hosts.empty()) return;
  twice_.over_hosts.assign(twice_.here.size(), false);
  for (const coord::Host& host : table_.hosts)
    if (const auto item = share_to_repeat(members_of(host.stay))) twice_.over_hosts[*item] = true;
}

// One share of one of them: another one each time, and in each update of a step.
std::optional<std::uint32_t> Participant::share_to_repeat(
    const std::vector<std::uint32_t>& members) const {
  if (members.empty()) return std::nullopt;
  const std::uint64_t txn = next_.value(), number = xxh3(std::as_bytes(std::span(&txn, 1)));
  const std::uint32_t member = members[number % members.size()];
  const coord::Ownership& ownership = exchange_->ownership();
  const std::uint32_t shares = ownership.block_size(member);
  if (shares == 0) return std::nullopt;
  return ownership.block_first(member) +
         static_cast<std::uint32_t>(number / members.size() % shares);
}

// Of the evaluation under way, of the member before this one. Where there are fewer batches than
// members some have none.
std::optional<std::uint32_t> Participant::batch_to_repeat() const {
  const coord::Ownership& ownership = exchange_->ownership();
  const auto has_none = [&](std::uint32_t m) { return ownership.block_size(m) == 0; };
  const std::vector<std::uint32_t> here = members_here();
  std::vector<std::uint32_t> of = moved() ? members_that_came(Came::kLater) : here;
  std::erase_if(of, has_none);
  if (of.empty()) of = here;
  std::erase_if(of, has_none);
  if (of.empty()) return std::nullopt;
  // All of them in turn, in evaluations that are powers of two.
  const auto turn = static_cast<std::uint32_t>(std::countr_zero(evaluations_));
  const auto members = static_cast<std::uint32_t>(of.size());
  const std::uint32_t member = of[turn % members];
  const auto at = std::ranges::find(here, member);
  const std::uint32_t next = at + 1 == here.end() ? here.front() : *(at + 1);
  if (next != exchange_->self()) return std::nullopt;
  return ownership.block_first(member) + turn / members % ownership.block_size(member);
}

// In the first, second, fourth and so on since a start, and since somebody has come in.
Status Participant::evaluate_again() {
  if (!program_.promised() || repeated_batch_ || program_.is_step(next_) ||
      !program_.evaluates(next_) || !std::has_single_bit(evaluations_))
    return {};
  repeated_batch_ = batch_to_repeat();
  if (!repeated_batch_) return {};
  enter(coord::Phase::kEvaluate, *repeated_batch_);
  LOCKSTEP_TRY(program_.compute_batch(next_, *repeated_batch_, repeated_));
  if (!start_buffers_.empty()) load_buffers(state_, start_buffers_);
  return {};
}

// All are there.
Status Participant::check_evaluated_again() const {
  if (!repeated_batch_) return {};
  const comm::EvalCell& first = exchange_->eval(*repeated_batch_);
  if (same_figures(first, repeated_)) return {};
  return Error{
      ErrorKind::kUsage,
      "the evaluation behind step " + std::to_string(program_.global_step(next_)) + ": batch " +
          std::to_string(*repeated_batch_) + " was computed twice, and comes to " + figures(first) +
          ", and " + in_own_rank() + " to " + figures(repeated_) +
          ". An evaluation may depend on its batch and on the train state alone. What else it "
          "reads (a network that no state has, as an average: Trainer::add(); the rank; a counter; "
          "a generator of its own) gives other figures in another worker, and other weights where "
          "a schedule, Trainer::best() or stop_when() goes by them"};
}

}  // namespace lockstep::transaction
