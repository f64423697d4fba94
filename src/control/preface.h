// What both sides of a connection say before all else; the same in all versions, so that they can
// refuse each other.
//
//   "LOCKSTEP" | u32 protocol | u64 incarnation | u8 length | version text         little-endian
//
// Protocol 0 is a refusal: who listens has a key, and who has come speaks without one.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep::control {

// The version of the preface, the frames and star/messages.h. It goes up when one of them changes.
inline constexpr std::uint32_t kProtocol = 1;
inline constexpr std::uint32_t kKeyWanted = 0;
inline constexpr std::string_view kPrefaceMagic = "LOCKSTEP";

// What a process says of itself.
struct Party {
  std::uint32_t protocol = kProtocol;
  std::uint64_t incarnation = 0;  // drawn at its start; no two processes have the same
  std::string version;            // of Lockstep, at most 64 bytes
};
std::uint64_t draw_incarnation();

std::string preface_of(const Party& party);

struct Preface {
  Party party;
  std::size_t bytes = 0;  // of the preface
};
// Nothing: more bytes are needed. kBadData: it is none, as the first wrong byte shows.
Result<std::optional<Preface>> read_preface(std::string_view received);

}  // namespace lockstep::control
