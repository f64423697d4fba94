#include "train/gradient_flags.h"

#include <bit>
#include <optional>
#include <span>
#include <unordered_set>

#include "coord/board.h"
#include "train/lines.h"

namespace lockstep::training {
namespace {

using Words = std::span<const coord::Word>;

std::uint64_t word_at(Words words, std::size_t i) {
  return words[i].load(std::memory_order_relaxed);
}

std::optional<std::size_t> first_different(Words a, Words b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (const std::uint64_t differ = word_at(a, i) ^ word_at(b, i); differ != 0)
      return i * 64 + static_cast<std::size_t>(std::countr_zero(differ));
  return std::nullopt;
}

bool is_frozen(Words words, std::size_t parameter) {
  return (word_at(words, parameter / 64) >> parameter % 64 & 1) != 0;
}

Error flags_differ(const std::string& step, const std::string& parameter, const std::string& where,
                   const std::string& elsewhere) {
  return {ErrorKind::kUsage,
          step + ": '" + parameter + "' is frozen (requires_grad false) in " + where +
              ", and gets a gradient in " + elsewhere +
              ": call requires_grad_() between next() and run(), in every worker alike, as a "
              "function of step.global_step(), not of the rank or of how often the loop has gone "
              "round: a replacement comes in at the loop's top, at any step"};
}

std::string worker_with(std::uint32_t v) {
  return "the worker of virtual worker " + std::to_string(v);
}

}  // namespace

GradientFlags::GradientFlags(const TrainState& state) {
  First first{state.leaves(), {}};
  for (TrainState::Named& own : state.own_parameters()) first.parameters.push_back(std::move(own));
  for (const TrainState::Named& named : first.parameters)
    first.wanted.push_back(named.tensor.requires_grad());
  first_ = std::make_shared<const First>(std::move(first));
}

TrainState::Text GradientFlags::text() const {
  const auto save = [first = first_] {
    std::string flags;
    bool changed = false;
    for (std::size_t i = 0; i < first->parameters.size(); ++i) {
      const bool wanted = first->parameters[i].tensor.requires_grad();
      flags += wanted ? '1' : '0';
      changed = changed || wanted != first->wanted[i];
    }
    return changed ? flags : std::string();
  };
  const auto load = [first = first_](const std::string& flags) -> Status {
    const auto& parameters = first->parameters;
    if (!flags.empty() && flags.size() != parameters.size())
      return Error{ErrorKind::kBadData,
                   "the checkpoint says of " + std::to_string(flags.size()) +
                       " parameters whether they are frozen, and the train state has " +
                       std::to_string(parameters.size())};
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const bool wanted = flags.empty() ? first->wanted[i] : flags[i] == '1';
      if (parameters[i].tensor.requires_grad() != wanted)
        parameters[i].tensor.set_requires_grad(wanted);
    }
    return {};
  };
  return {"lockstep.requires_grad", save, load, /*hashed=*/true, /*optional=*/true};
}

void GradientFlags::watch(const std::vector<ddp::Parameter>& trained) {
  std::unordered_set<const at::TensorImpl*> known;
  for (const ddp::Parameter& parameter : trained)
    known.insert(parameter.tensor.unsafeGetTensorImpl());
  left_alone_.clear();
  for (const TrainState::Named& named : first_->parameters)
    if (!known.contains(named.tensor.unsafeGetTensorImpl())) left_alone_.push_back(named);
}

Status GradientFlags::check() const {
  for (const TrainState::Named& named : left_alone_)
    if (named.tensor.requires_grad())
      return Error{ErrorKind::kUsage,
                   "'" + named.name +
                       "' was unfrozen, and no optimizer of the train state has it: give it to one "
                       "before the run is opened. Frozen parameters of an optimizer are left alone "
                       "until requires_grad_() is called"};
  return {};
}

Status check_flags(const transaction::Participant& participant, std::uint32_t u, std::uint32_t v,
                   const Plan& plan, Txn txn) {
  const Words known = participant.notes(u).frozen(), other = participant.notes(v).frozen();
  const auto differs = first_different(known, other);
  if (!differs) return {};
  const bool is_known = is_frozen(known, *differs);
  return flags_differ(step_in_words(plan, txn), participant.reducer().parameters()[*differs].name,
                      worker_with(is_known ? u : v), worker_with(is_known ? v : u));
}

Status check_inherited_flags(const ddp::Reducer& own, const transaction::ShareNotes& notes,
                             const Plan& plan, Txn txn) {
  std::vector<coord::Word> words(own.frozen_words());
  own.write_frozen(words);
  const auto differs = first_different(words, notes.frozen());
  if (!differs) return {};
  const char* const before = "the worker that had this share before";
  const bool here = is_frozen(words, *differs);
  return flags_differ(step_in_words(plan, txn), own.parameters()[*differs].name,
                      here ? "this one" : before, here ? before : "this one");
}

}  // namespace lockstep::training
