// Exceptions of libraries, and of code that users pass in, become errors here: none crosses a
// room's border.
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/status.h"

namespace lockstep {

// libtorch's what() goes on with a stack of addresses, which say nothing to whoever reads the
// message.
inline std::string words_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

// f()'s Result or Status; `what` says in the message what was being done: a text, or a function
// that makes it, for callers that run often and hardly ever fail.
template <class What, class F>
auto guarded(const What& what, ErrorKind kind, F&& f) -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (const std::exception& error) {
    if constexpr (std::is_invocable_v<What>)
      return Error{kind, what() + ": " + words_of(error)};
    else
      return Error{kind, std::string(what) + ": " + words_of(error)};
  }
}

}  // namespace lockstep
