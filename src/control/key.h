// The key by which the agents of a run know each other, and where it is found.
//
// Any printable ASCII text without blanks is one, of 32 to 1024 characters, 8 different ones at
// least: whoever records a handshake can try guesses against it, so it has to come from a random
// source. `lockstep key` makes 32 random bytes, as 64 hex digits.
//
// Ownership: values; a key is overwritten when its object ends. Errors: kUsage for a key that is
// missing, too weak or readable by others; kDisk. No message holds any of a key. Threads: values.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/status.h"

namespace lockstep::control {

inline constexpr std::size_t kLeastKeyCharacters = 32;
inline constexpr std::size_t kLeastDifferentCharacters = 8;
inline constexpr std::size_t kMostKeyCharacters = 1024;
inline constexpr const char* kKeyVariable = "LOCKSTEP_RUN_KEY";
inline constexpr const char* kInsecureVariable = "LOCKSTEP_INSECURE";

class RunKey {
 public:
  // Blanks and line ends around it are left out. `source` is for the message: "--key-file /k".
  static Result<RunKey> of(std::string_view text, const std::string& source);
  // A new one, of the system's random numbers.
  static Result<RunKey> draw();

  RunKey(const RunKey&) = default;
  RunKey(RunKey&&) = default;
  RunKey& operator=(const RunKey&) = default;
  RunKey& operator=(RunKey&&) = default;
  ~RunKey();

  const std::string& text() const { return text_; }

 private:
  explicit RunKey(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// Reads a variable of the environment; nullopt if it is not there.
using ReadVariable = std::function<std::optional<std::string>(std::string_view)>;

struct KeyFound {
  std::optional<RunKey> key;  // none: LOCKSTEP_INSECURE=1 asks for a run without one
  std::string source;         // "--key-file /k", "LOCKSTEP_RUN_KEY", "/home/u/.config/lockstep/…"
  std::string said;           // to be said aloud; empty: nothing
};

// The first that is there: the file of --key-file, LOCKSTEP_RUN_KEY, default_key_file(),
// LOCKSTEP_INSECURE=1. One that is there and wrong is an error, none at all names all four.
Result<KeyFound> find_key(const std::optional<std::string>& key_file, const ReadVariable& read);

// $XDG_CONFIG_HOME/lockstep/run_key if that is absolute, else the one of $HOME/.config, else that
// of the home in the user database. kUsage: there is none of them.
Result<std::string> default_key_file(const ReadVariable& read);

// A regular file of this user or root, at most 4 KiB, that nobody else may read or write. Symbolic
// links are followed, as Kubernetes has its secrets.
Result<RunKey> read_key_file(const std::string& path, const std::string& source);

// Writes a new file (0600), whole or not at all; folders on the way are made, the last one for
// this user alone. kUsage if the name is taken: no key is ever overwritten.
Status write_key_file(const std::string& path, const RunKey& key);

}  // namespace lockstep::control
