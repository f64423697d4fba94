// The two forms of a .pt file.
#pragma once

#include "checkpoint/pt/reader.h"

namespace lockstep::checkpoint::pt {

Result<pickle::Value> parse_zip(ReadableFile& file, const ReadLimits& limits);
Result<pickle::Value> parse_stream(ReadableFile& file, const ReadLimits& limits);

// The pickled object, its storages noted in `storages`.
Result<pickle::Document> parse_object(std::span<const std::byte> bytes, StorageTable& storages,
                                      const pickle::Limits& limits);
// A storage's own memory, for its bytes.
Result<std::span<std::byte>> room_for(Storage& storage);

}  // namespace lockstep::checkpoint::pt
