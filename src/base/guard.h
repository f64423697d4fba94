// Exceptions of libraries, and of code that users pass in, become errors here: none crosses a
// room's border.
#pragma once

#include <exception>
#include <stdexcept>
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

// An error on its way through code that can only throw; guarded() keeps its kind.
class Thrown : public std::runtime_error {
 public:
  explicit Thrown(const Error& error) : std::runtime_error(error.message), kind_(error.kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// f()'s Result or Status; `what` says in the message what was being done: a text, or a function
// that makes it, for callers that run often and hardly ever fail.
template <class What, class F>
auto guarded(const What& what, ErrorKind kind, F&& f) -> decltype(f()) {
  const auto error_of = [&](ErrorKind of_kind, const std::string& words) {
    if constexpr (std::is_invocable_v<What>)
      return Error{of_kind, what() + ": " + words};
    else
      return Error{of_kind, std::string(what) + ": " + words};
  };
  try {
    return std::forward<F>(f)();
  } catch (const Thrown& error) {
    return error_of(error.kind(), words_of(error));
  } catch (const std::exception& error) {
    return error_of(kind, words_of(error));
  } catch (const char* words) {
    return error_of(kind, words);
  } catch (const std::string& words) {
    return error_of(kind, words);
  } catch (...) {
    return error_of(kind, "something was thrown that is no std::exception");
  }
}

}  // namespace lockstep
