// UTF-8 as Python's pickle has it: lone surrogates pass (file names), nothing else does that
// RFC 3629 refuses.
#pragma once

#include <string_view>

namespace lockstep::pickle {

bool is_utf8(std::string_view text);

}  // namespace lockstep::pickle
