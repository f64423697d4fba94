// What the tutorial's programs print, character for character.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace classifier {

// `Epoch 3` and a line of dashes; `epoch` from 0.
std::string epoch_header(std::int64_t epoch);
// `loss: 0.203195  [  640/60000]`, with newline: before the update, after so many of a rank's
// samples in an epoch, beside the whole set's.
std::string loss_line(double loss, std::int64_t current, std::int64_t size);
// What ranks `first` to `ranks` - 1 of the original say, one after the other: one line of each
// virtual worker.
std::string of_each_rank(std::size_t first, std::size_t ranks,
                         const std::function<std::string(std::size_t)>& line);

}  // namespace classifier
