// Names whose only use in a pickle is to have something run. Nothing is run here, but who put them
// there meant harm: the file is refused.
#pragma once

#include <string_view>

namespace lockstep::pickle {

// os, posix, subprocess and their like, whole and with what lies below them; of builtins (Python
// 2's __builtin__, too) eval, exec, getattr, open and theirs.
bool is_banned(std::string_view module, std::string_view name);

}  // namespace lockstep::pickle
