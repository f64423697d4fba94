// The border to libtorch: its exceptions, and those of code that users pass in, become errors here.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <utility>

#include "lockstep/status.h"

namespace lockstep::data {

// f()'s Result; `what` says in the message what was being done.
template <class F>
auto guarded(const std::string& what, ErrorKind kind, F&& f) -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (const c10::Error& error) {
    return Error{kind, what + ": " + error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return Error{kind, what + ": " + error.what()};
  }
}

}  // namespace lockstep::data
