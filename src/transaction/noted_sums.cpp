#include "transaction/noted_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

namespace lockstep::transaction {
namespace {

using NameWords = std::array<std::uint64_t, NotedSums::kNameWords>;
using NameBytes = std::array<char, kMostSumName + 1>;

NameWords words_of(const std::string& name) {
  NameBytes bytes{};
  std::copy_n(name.begin(), std::min(name.size(), kMostSumName), bytes.begin());
  return std::bit_cast<NameWords>(bytes);
}

std::string name_in(std::span<const coord::Word> words) {
  NameWords name{};
  for (std::size_t i = 0; i < name.size(); ++i) name[i] = words[i].load(std::memory_order_relaxed);
  const auto bytes = std::bit_cast<NameBytes>(name);
  return {bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0')};
}

}  // namespace

void NotedSums::write(const Sums& sums) const {
  std::size_t number = 0;
  for (const auto& [name, sum] : sums) {
    const std::span<coord::Word> place = of(number++);
    const NameWords words = words_of(name);
    for (std::size_t i = 0; i < words.size(); ++i)
      place[i].store(words[i], std::memory_order_relaxed);
    place[kNameWords].store(std::bit_cast<std::uint64_t>(sum.sum), std::memory_order_relaxed);
    place[kNameWords + 1].store(static_cast<std::uint64_t>(sum.count), std::memory_order_relaxed);
  }
  words_[0].store(number, std::memory_order_relaxed);
}

Sums NotedSums::read() const {
  Sums sums;
  const std::uint64_t count = words_[0].load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < std::min<std::uint64_t>(count, kMostSums); ++i) {
    const std::span<coord::Word> place = of(i);
    sums.add(name_in(place),
             {std::bit_cast<double>(place[kNameWords].load(std::memory_order_relaxed)),
              static_cast<std::int64_t>(place[kNameWords + 1].load(std::memory_order_relaxed))});
  }
  return sums;
}

}  // namespace lockstep::transaction
