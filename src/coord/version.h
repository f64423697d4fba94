// By which a launcher and a program know whether they fit together.
#pragma once

#include <cstdint>

#include "lockstep/status.h"

namespace lockstep::coord {

// Of all that processes of one run share: the note, their talk (messages.h), the board's layout
// (board.h), the exchange's (comm/exchange.h), and what a replacement heals from (TrainState's
// image, the epochs' book in it). Goes up with every change of one of them.
inline constexpr std::uint32_t kProtocolVersion = 30;

// kUsage: both versions, and what to do.
Error wrong_version(std::uint64_t program, std::uint64_t launcher);

// An ELF note as it lies in the file. Type 1: in every program that links Lockstep
// (src/worker/note.cpp); type 2: in `lockstep` (src/launcher/main.cpp).
struct Note {
  std::uint32_t name_bytes, version_bytes, type;
  char name[12];  // padded to a multiple of 4
  std::uint32_t version;
};
inline constexpr Note kNote{sizeof "Lockstep", sizeof(std::uint32_t), 1, "Lockstep",
                            kProtocolVersion};
inline constexpr Note kLauncherNote{sizeof "Lockstep", sizeof(std::uint32_t), 2, "Lockstep",
                                    kProtocolVersion};

}  // namespace lockstep::coord
