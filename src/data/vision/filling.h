// A batch of pictures whose places are filled in any order, and which is dense in the end.
//
// Threads: one; where the size is known beforehand, one for each place, until take().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/image/resize.h"
#include "lockstep/data.h"

namespace lockstep::data {

class Filling {
 public:
  // `size`: of every picture; none: the first one's, whose place() is the first call then.
  Filling(std::span<const std::int64_t> ids, std::optional<image::Size> size);

  std::int64_t id(std::size_t i) const { return batch_.ids[i]; }
  std::size_t count() const { return batch_.ids.size(); }
  // Where picture i goes. kUsage where it has another size than the others; `name` is its own.
  Result<std::span<float>> place(std::size_t i, image::Size size, const std::string& name);
  // Of `count` pictures from the i-th on; the size is known.
  std::span<float> places(std::size_t i, std::size_t count);
  void accept(std::size_t i, std::int64_t label);
  // Those that were accepted, in the ids' order.
  Batch take();

 private:
  void allocate(image::Size size);
  std::size_t close_gaps();  // how many there are

  std::optional<image::Size> size_;
  std::vector<std::uint8_t> accepted_;  // not bool: its elements have memory of their own
  Batch batch_;
};

}  // namespace lockstep::data
