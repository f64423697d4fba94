// CIFAR-10 and CIFAR-100 as Krizhevsky publishes them
// (https://www.cs.toronto.edu/~kriz/cifar.html): Python's pickles (cifar-10-batches-py,
// cifar-100-python; of the old numpy.core or today's numpy._core) or the binary files
// (cifar-10-batches-bin, cifar-100-binary).
//
// Errors: kBadData that names the file, what was found, what was expected and what to do. Threads:
// pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::data {

inline constexpr int kCifarSide = 32;
inline constexpr std::size_t kCifarBytes = 3 * kCifarSide * kCifarSide;  // of a picture

enum class CifarKind { k10 = 10, k100 = 100 };  // k100: the fine labels

struct Cifar {
  std::vector<std::string> classes;
  std::string pixels;                // [count, 3, 32, 32]
  std::vector<std::uint8_t> labels;  // [count], below classes.size()

  std::size_t count() const { return labels.size(); }
  const std::uint8_t* picture(std::size_t i) const {
    return reinterpret_cast<const std::uint8_t*>(pixels.data()) + i * kCifarBytes;
  }
};

// Appends one file's pictures and labels. `name` is for messages, mostly a path.
Status parse_cifar_pickle(std::span<const std::byte> file, std::string_view name, CifarKind kind,
                          Cifar& out);
Status parse_cifar_binary(std::string_view file, std::string_view name, CifarKind kind, Cifar& out);

// Looks in FOLDER and in the folder of the usual name below it; pickles before binary files.
Result<Cifar> read_cifar(Env& env, const std::string& folder, CifarKind kind, bool train);

}  // namespace lockstep::data
