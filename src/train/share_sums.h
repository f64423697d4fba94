// What the share that is being computed adds up by name (Share::add()).
//
// Errors: add() throws, as it is called in a closure. Threads: one.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/status.h"
#include "lockstep/sums.h"

namespace lockstep::training {

// kUsage: not a name that Share::add() takes. `call` begins the message.
Status check_sum_name(const std::string& call, const std::string& name);

class ShareSums {
 public:
  void begin_share() { sums_ = {}; }
  void add(const std::string& name, double sum, std::int64_t count);
  const Sums& sums() const { return sums_; }

 private:
  Sums sums_;
};

// kUsage: more names than an update, or an epoch, may have. `where` begins the message.
Status check_sum_names(const std::string& where, const Sums& sums);

}  // namespace lockstep::training
