// `lockstep key`.
#include <optional>

#include "base/env.h"
#include "base/errors.h"
#include "base/log.h"
#include "control/key.h"
#include "launcher/commands/commands.h"
#include "launcher/options/options.h"

namespace lockstep::launcher {
namespace {

// What is printed: the key, or its file's name.
Result<std::string> make_key(bool print, const std::optional<std::string>& file) {
  LOCKSTEP_ASSIGN(const control::RunKey key, control::RunKey::draw());
  if (print) return key.text();
  LOCKSTEP_ASSIGN(const std::string path, file ? Result<std::string>(*file)
                                               : control::default_key_file(process_environment()));
  LOCKSTEP_TRY(check_local(path));
  LOCKSTEP_TRY(control::write_key_file(path, key));
  return path;
}

}  // namespace

int key_command(std::span<const std::string> arguments) {
  bool print = false;
  std::optional<std::string> file;
  Status words;
  for (const std::string& word : arguments) {
    if (word == "--print" && !print && !file)
      print = true;
    else if (word.empty() || word.starts_with("-") || print || file)
      words = misuse("unexpected '" + word + "'; usage: lockstep key [--print | FILE]");
    else
      file = word;
  }
  const auto made = words.ok() ? make_key(print, file) : Result<std::string>(words.error());
  if (made.ok()) return print_output(*made + "\n");
  log_error(made.error().message);
  return exit_code(made.error().kind);
}

}  // namespace lockstep::launcher
