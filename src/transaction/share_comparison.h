// Two computations of one share: what they are compared by, which difference is told, and how.
//
// Threads: functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "coord/board.h"
#include "lockstep/sums.h"

namespace lockstep::transaction {

using Words = std::span<const coord::Word>;

// The mean over so many samples.
struct ShareLoss {
  double mean = 0;
  std::uint64_t count = 0;  // 0: it took no part
};
ShareLoss loss_of(const coord::ShareRecord& record);

// One of the two, as records and notes (share_notes.h) have it. Words that one of them lacks are
// not compared.
struct ComputedShare {
  std::string where = "";  // "in rank 0"
  Words training = {};
  Words state = {};
  ShareLoss loss = {};
  Words gradients = {};
  Sums sums = {};
  bool ends = false;
  Words rows = {};
  Words buffers = {};  // of the model's, that it leaves
};

// What words are of, by their number, for people: "'net'", "the buffer 'count'", "'fc.weight'",
// "'h'", "the buffer 'count'".
struct NamesOfWords {
  std::function<std::string(std::size_t)> module, tensor, parameter, row, buffer;
};

// Whatever comes first explains what comes behind it: another state makes another loss.
struct Difference {
  enum class In { kState, kLoss, kGradient, kSum, kEnd, kRow, kBuffer };
  In in;
  bool modes = false;  // a module trains in one of them alone, which may be why
  std::string text;    // "the loss of virtual worker 0 is 0.5 in rank 0 and 0.7 in rank 1"
};
// nullopt: none. Modes alone are none.
std::optional<Difference> first_difference(const ComputedShare& first, const ComputedShare& second,
                                           std::uint32_t virtual_worker, const NamesOfWords& names);

// The first module that trains by one of them and not by the other: its number, and whether it
// trains by the first.
std::optional<std::pair<std::size_t, bool>> first_mode(Words first, Words second);
// The first word that differs, if both have words.
std::optional<std::size_t> first_other(Words first, Words second);

}  // namespace lockstep::transaction
