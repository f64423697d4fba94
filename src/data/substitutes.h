// What is delivered in training in place of a sample that a data set leaves out as damaged: the
// next one that it does not, in its own order, from its end on at its beginning. A function of the
// data set alone, so every worker, heir and resume finds the same.
//
// Threads: any; several may look for the same at once. Errors: those of Dataset::get(); kBadData if
// no sample is left; kUsage for a data set that gives ids it was not asked for.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "data/left_out.h"
#include "lockstep/data.h"

namespace lockstep::data {

class Substitutes {
 public:
  using Ids = std::vector<std::int64_t>;
  explicit Substitutes(const Dataset& set) : set_(set) {}

  // Each id, or what stands in for it as far as is known.
  Ids of(const Ids& asked) const;
  // After get() has given less than it was asked for: finds what stands in for the others, and says
  // which they are. What get() draws from a generator meanwhile is the caller's business.
  Status learn(const Ids& asked, const Ids& given, const Pass& pass);
  std::int64_t count() const;  // of the damaged ones that are known

 private:
  Result<std::int64_t> next_sound(std::int64_t id, const Pass& pass, Ids& damaged) const;
  std::int64_t known(std::int64_t id) const;  // itself, if nothing stands in for it

  const Dataset& set_;
  LeftOut told_{"the training set"};
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> instead_;  // by damaged sample
};

}  // namespace lockstep::data
