// The JSON of a safetensors header, read event by event: a document tree keeps the last of
// duplicate keys without complaint.
#pragma once

#include <string_view>

#include "checkpoint/safetensors.h"

namespace lockstep::checkpoint {

// Fills header.entries (in the JSON's order; offsets not yet checked) and header.metadata.
Status read_header_json(std::string_view json, Header& header);

}  // namespace lockstep::checkpoint
