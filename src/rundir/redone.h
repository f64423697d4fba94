// Steps that are done again: a run goes on from a checkpoint, and what it had recorded behind it
// (metrics.jsonl) has to come to the same figures.
//
// Errors: none; a line that cannot be read is not compared. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::rundir {

// So much of what was recorded is kept to be compared: some 80,000 updates.
inline constexpr std::uint64_t kMostRedoneBytes = std::uint64_t{16} << 20;

class Redone {
 public:
  // Whole lines, in order.
  explicit Redone(std::string before) : before_(std::move(before)) {}

  // Nothing is left to compare.
  bool over() const { return at_ == before_.size(); }

  struct Difference {
    std::string text;  // "step 5 … its loss is 0.5 (0x1p-1), it was …"
    std::string
        lines;  // as they are to be recorded: the one that differs has the other as "before"
    // That it would be the same. Not where the line says "redone":"warn", nor of a difference that
    // an earlier start has found: what was done again is done once more.
    bool promised = true;
  };
  // Of the lines that a transaction is to record. The first difference is the last one: then it is
  // over.
  std::optional<Difference> compare(std::string_view lines);

 private:
  std::string_view front() const;  // with its end; not over
  void end() { before_.clear(), before_.shrink_to_fit(), at_ = 0; }

  std::string before_;
  std::size_t at_ = 0;  // of the next line
};

}  // namespace lockstep::rundir
