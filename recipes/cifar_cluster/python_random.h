// Python's random.Random, as far as the tutorial's data needs it: the same numbers for a seed.
// Source of the algorithms: CPython 3.11, Modules/_randommodule.c and Lib/random.py; Matsumoto and
// Nishimura, MT19937 (1998), with its init_by_array.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace cifar_cluster {

class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed);  // random.seed(seed)

  // random.shuffle(items); at most 2^32 - 1 of them.
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i-- > 1;)
      std::swap(items[i], items[below(static_cast<std::uint32_t>(i + 1))]);
  }

 private:
  std::uint32_t below(std::uint32_t n);  // random._randbelow(n)
  std::mt19937 engine_;
};

}  // namespace cifar_cluster
