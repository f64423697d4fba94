// Figures that shares add up by name (Share::add() in lockstep/step.h): of an update, of a step, of
// an epoch; the same in all workers.
//
//   for (const auto& [name, sum] : result.sums)  // in the order of the names' bytes
//     std::printf("%s: %.4f\n", name.c_str(), sum.mean());
//
// Arithmetic: fp64. A share's calls are added in their order, from 0; shares in the order of
// virtual workers, from 0; a step's updates, and an epoch's steps, in theirs. Threads: values.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>

namespace lockstep {

struct Sum {
  double sum = 0;  // may be infinite or NaN, if that is what somebody has added
  std::int64_t count = 0;
  double mean() const {  // NaN of nothing
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
  }
};

class Sums {
 public:
  using Map = std::map<std::string, Sum, std::less<>>;

  // 0 of 0, whose mean is NaN, where nobody has added any.
  Sum operator[](std::string_view name) const {
    const auto found = sums_.find(name);
    return found == sums_.end() ? Sum() : found->second;
  }
  bool has(std::string_view name) const { return sums_.find(name) != sums_.end(); }
  std::size_t size() const { return sums_.size(); }
  bool empty() const { return sums_.empty(); }
  Map::const_iterator begin() const { return sums_.begin(); }
  Map::const_iterator end() const { return sums_.end(); }

  // All NaNs are one, whatever has made them.
  void add(const std::string& name, const Sum& more) {
    Sum& all = sums_[name];
    all.sum += more.sum;
    if (std::isnan(all.sum)) all.sum = std::numeric_limits<double>::quiet_NaN();
    if (__builtin_add_overflow(all.count, more.count, &all.count))
      all.count = std::numeric_limits<std::int64_t>::max();
  }
  Sums& operator+=(const Sums& more) {
    for (const auto& [name, sum] : more) add(name, sum);
    return *this;
  }

 private:
  Map sums_;
};

}  // namespace lockstep
