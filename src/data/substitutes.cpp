#include "data/substitutes.h"

#include <string>

#include "base/errors.h"

namespace lockstep::data {
namespace {

Error gave_others(std::size_t asked, std::size_t given) {
  return misuse("the data set was asked for " + std::to_string(asked) +
                " samples and gave the ids of " + std::to_string(given) +
                ": Batch::ids must be of those that it was asked for, in their order");
}

// Of `asked`, those that are not in `given`, a part of it in the same order.
Result<Substitutes::Ids> missing_of(const Substitutes::Ids& asked, const Substitutes::Ids& given) {
  Substitutes::Ids missing;
  auto next = given.begin();
  for (const std::int64_t id : asked) {
    if (next != given.end() && *next == id)
      ++next;
    else
      missing.push_back(id);
  }
  if (next != given.end() || missing.empty()) return gave_others(asked.size(), given.size());
  return missing;
}

}  // namespace

std::int64_t Substitutes::known(std::int64_t id) const {
  const auto found = instead_.find(id);
  return found == instead_.end() ? id : found->second;
}

Substitutes::Ids Substitutes::of(const Ids& asked) const {
  const std::lock_guard lock(mutex_);
  Ids ids;
  ids.reserve(asked.size());
  for (const std::int64_t id : asked) ids.push_back(known(id));
  return ids;
}

std::int64_t Substitutes::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(instead_.size());
}

Status Substitutes::learn(const Ids& asked, const Ids& given, const Pass& pass) {
  LOCKSTEP_ASSIGN(const Ids missing, missing_of(asked, given));
  for (const std::int64_t id : missing) {
    if (of({id}).front() != id) continue;  // this batch has it twice, or another thread was faster
    Ids damaged{id};
    LOCKSTEP_ASSIGN(const std::int64_t sound, next_sound(id, pass, damaged));
    const std::lock_guard lock(mutex_);
    for (const std::int64_t each : damaged)
      if (instead_.emplace(each, sound).second) told_.say_replaced(set_, each, sound);
  }
  return {};
}

// What is found damaged on the way is added to `damaged`.
Result<std::int64_t> Substitutes::next_sound(std::int64_t id, const Pass& pass,
                                             Ids& damaged) const {
  const std::int64_t size = set_.size();
  for (std::int64_t next = (id + 1) % size; next != id; next = (next + 1) % size) {
    if (const std::int64_t stands_in = of({next}).front(); stands_in != next) return stands_in;
    const Ids alone{next};
    LOCKSTEP_ASSIGN(const Batch batch, set_.get(alone, pass));
    if (!batch.ids.empty()) return next;
    damaged.push_back(next);
  }
  return Error{ErrorKind::kBadData,
               "nothing is left to train on: the data set leaves out all of its " +
                   std::to_string(size) + " samples as damaged" + because(set_, id)};
}

}  // namespace lockstep::data
