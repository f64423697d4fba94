#include "control/preface.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "base/text.h"

namespace lockstep::control {
namespace {

constexpr std::size_t kMostVersionBytes = 64;
constexpr std::size_t kFixedBytes = kPrefaceMagic.size() + 4 + 8 + 1;

template <class Number>
void append_bytes(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

}  // namespace

std::uint64_t draw_incarnation() {
  std::uint64_t number = 0;
  while (number == 0 && RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof number) == 1) {
  }
  return number;
}

std::string preface_of(const Party& party) {
  std::string text(kPrefaceMagic);
  append_bytes(text, party.protocol);
  append_bytes(text, party.incarnation);
  const std::string version = party.version.substr(0, kMostVersionBytes);
  append_bytes(text, static_cast<std::uint8_t>(version.size()));
  return text + version;
}

Result<std::optional<Preface>> read_preface(std::string_view received) {
  const std::size_t known = std::min(received.size(), kPrefaceMagic.size());
  if (received.substr(0, known) != kPrefaceMagic.substr(0, known))
    return bad_data("it begins with '" + for_terminal(printable(received.substr(0, 16))) + "'");
  if (received.size() < kFixedBytes) return std::optional<Preface>();
  const std::size_t version = number_at<std::uint8_t>(received, kFixedBytes - 1);
  if (version > kMostVersionBytes)
    return bad_data("its version has " + std::to_string(version) + " bytes, limit " +
                    std::to_string(kMostVersionBytes));
  if (received.size() < kFixedBytes + version) return std::optional<Preface>();
  Preface preface{{number_at<std::uint32_t>(received, kPrefaceMagic.size()),
                   number_at<std::uint64_t>(received, kPrefaceMagic.size() + 4),
                   for_terminal(printable(received.substr(kFixedBytes, version)))},
                  kFixedBytes + version};
  return std::optional(std::move(preface));
}

}  // namespace lockstep::control
