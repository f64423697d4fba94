// Batches that several threads make together. A data set that can is an InPieces beside a Dataset;
// the loader asks for it.
//
// Threads: fill() of different pieces from several, all else from one at a time. Errors: those of
// Dataset::get().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/data.h"

namespace lockstep::data {

// One batch in the making: the bits of get(), whoever fills which piece.
class Pieces {
 public:
  virtual ~Pieces() = default;
  virtual std::size_t count() const = 0;
  virtual Status fill(std::size_t piece) = 0;  // each of 0 to count() - 1 once
  virtual Result<Batch> take() = 0;            // once, after the last fill(), if all were good
};

class InPieces {
 public:
  virtual ~InPieces() = default;
  // Null: these are made by get() alone. What it gives refers to the data set, not to `ids`.
  virtual Result<std::unique_ptr<Pieces>> pieces(std::span<const std::int64_t> ids,
                                                 const Pass& pass) const = 0;
};

}  // namespace lockstep::data
