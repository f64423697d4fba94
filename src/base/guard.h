// Exceptions of libraries, and of code that users pass in, become errors here: none crosses a
// room's border.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "lockstep/status.h"

namespace lockstep {

// libtorch's what() goes on with a stack of addresses, which say nothing to whoever reads the
// message.
inline std::string words_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

// f()'s Result or Status; `what` says in the message what was being done.
template <class F>
auto guarded(const std::string& what, ErrorKind kind, F&& f) -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (const std::exception& error) {
    return Error{kind, what + ": " + words_of(error)};
  }
}

}  // namespace lockstep
