// Result types. Every fallible call of Lockstep returns Status or Result<T>; neither can be
// ignored.
//
// Ownership: an Error owns its message. Errors: none thrown. Threads: values, no shared state.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace lockstep {

// Who has to act; docs/guide/errors.md has the table, and exit_code() gives the process's answer.
enum class ErrorKind {
  kUsage,        // wrong option, argument or call: exit 2
  kBadData,      // a data set, checkpoint or message is not what it claims to be: exit 65
  kUnavailable,  // peers, locks or the launcher not reachable in time: exit 69
  kResumable,    // stopped in a state that the same command resumes: exit 75
  kLeft,         // this worker was taken out of the run (`lockstep scale`), others go on: exit 0
  kPeerLost,     // a member of the group died; its later calls all say so: exit 1
  kTimedOut,     // a deadline passed: exit 1
  kDisk,         // write, sync or rename failed (disk full, permissions): exit 1
  kAborted,      // we ended the operation ourselves: exit 1
  kInternal,     // a rule of ours is broken: exit 1
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // what, where, the value, the limit, what to do
};

// The exit code of a program that ends because of this error (docs/guide/errors.md).
int exit_code(ErrorKind kind);
const char* to_string(ErrorKind kind);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  // As a condition: ok(). One of a bool is none, as its value could be meant.
  explicit operator bool() const {
    static_assert(!std::is_same_v<T, bool>,
                  "a Result<bool> is no condition: it would be ok(), and not its value. Write "
                  "LOCKSTEP_ASSIGN(const bool more, step.next()); if (!more) break;");
    return ok();
  }

  // Undefined unless ok().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Undefined unless !ok().
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  // Of one whose value nobody wants: `return step.run(optimizer, loss);`.
  template <class T>
  Result(const Result<T>& other) {  // NOLINT(google-explicit-constructor)
    if (!other.ok()) error_ = other.error();
  }

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// Leaves the enclosing function, which returns Status or Result, with the error, or goes on.
#define LOCKSTEP_TRY(expression)                                    \
  do {                                                              \
    if (auto lockstep_status = (expression); !lockstep_status.ok()) \
      return std::move(lockstep_status).error();                    \
  } while (false)

// `LOCKSTEP_ASSIGN(auto x, f())`: x is f()'s value, or the enclosing function returns its error.
#define LOCKSTEP_ASSIGN(declaration, expression) \
  LOCKSTEP_ASSIGN_AT(LOCKSTEP_JOIN(lockstep_result_, __LINE__), declaration, expression)
#define LOCKSTEP_ASSIGN_AT(name, declaration, expression) \
  auto name = (expression);                               \
  if (!name.ok()) return std::move(name).error();         \
  declaration = *std::move(name)
#define LOCKSTEP_JOIN(a, b) LOCKSTEP_JOIN_AGAIN(a, b)
#define LOCKSTEP_JOIN_AGAIN(a, b) a##b

}  // namespace lockstep
