// Synthetic handwritten digits: strokes under random slant, turn, size, wobble and pen, with blur,
// noise and specks. Picture i is a function of i alone; only + - * / and square roots of doubles
// are used, so that every machine draws the same bytes.
//
// Errors: kDisk, kTimedOut (another process draws into the same folder and does not end). Threads:
// pure functions; processes may write at the same time.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::data {

inline constexpr std::uint32_t kDigitSide = 28;  // pixels
inline constexpr std::uint32_t kTrainDigits = 60000;
inline constexpr std::uint32_t kTestDigits = 10000;

struct Digit {
  std::array<std::uint8_t, kDigitSide * kDigitSide> pixels{};  // row-major, 0 is paper, 255 is ink
  std::uint8_t label = 0;
};

// Training pictures are 0 to kTrainDigits - 1, test pictures follow.
Digit draw_digit(std::uint64_t index);

// lockstep/digits-v1 in the first of the user's cache folders (base/cache_folder.h) that has them
// or can be written; it is made. kUsage where there is none.
Result<std::string> default_digits_folder();

// Draws the four files in MNIST's names and format into `folder`, made if need be, unless they are
// there. Each appears whole or not at all; what a killed writer left is removed.
Status ensure_digits(Env& env, const std::string& folder);

}  // namespace lockstep::data
