#include "control/key.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "base/errors.h"
#include "base/text.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr const char* kMakeOne = "; 'lockstep key' makes one";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

Status check_strength(std::string_view key, const std::string& source) {
  const auto weak = [&](const std::string& what) {
    return misuse(source + ": the run's key " + what + kMakeOne);
  };
  if (key.empty()) return weak("is empty");
  if (!std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; }))
    return weak("has blanks or characters that are not printable ASCII: it is one word");
  if (key.size() < kLeastKeyCharacters || key.size() > kMostKeyCharacters)
    return weak("has " + std::to_string(key.size()) + " characters; it needs " +
                std::to_string(kLeastKeyCharacters) + " to " + std::to_string(kMostKeyCharacters));
  const std::size_t different = std::set<char>(key.begin(), key.end()).size();
  if (different < kLeastDifferentCharacters)
    return weak("has only " + std::to_string(different) +
                " different characters; a random one has " +
                std::to_string(kLeastDifferentCharacters) + " at least");
  return {};
}

std::optional<std::string> home_of_user() {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> names{};
  if (::getpwuid_r(::geteuid(), &entry, names.data(), names.size(), &found) != 0 ||
      found == nullptr || entry.pw_dir == nullptr)
    return std::nullopt;
  return entry.pw_dir;
}

Result<bool> wants_no_key(const ReadVariable& read) {
  const auto value = read(kInsecureVariable);
  if (!value || value->empty() || *value == "0") return false;
  if (*value == "1") return true;
  return misuse(std::string(kInsecureVariable) + "='" + *value +
                "': it is 1 (agents meet without a key) or 0");
}

Error no_key(const Result<std::string>& file) {
  return misuse(
      "agents of several machines need a key of the run, and there is none: give --key-file FILE, "
      "set " +
      std::string(kKeyVariable) + ", make " +
      (file.ok() ? "'" + *file + "'" : "~/.config/lockstep/run_key") +
      " with 'lockstep key' and copy it to each machine, or do without (" + kInsecureVariable +
      "=1: whoever reaches the port can take part)");
}

}  // namespace

Result<RunKey> RunKey::of(std::string_view text, const std::string& source) {
  const std::string_view key = trimmed(text);
  LOCKSTEP_TRY(check_strength(key, source));
  return RunKey(std::string(key));
}

Result<RunKey> RunKey::draw() {
  std::array<unsigned char, 32> bytes{};
  if (RAND_priv_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1)
    return Error{ErrorKind::kInternal, "the system gives no random numbers for a key"};
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return RunKey(std::move(text));
}

RunKey::~RunKey() { OPENSSL_cleanse(text_.data(), text_.size()); }

Result<std::string> default_key_file(const ReadVariable& read) {
  const auto config = read("XDG_CONFIG_HOME");
  if (config && config->starts_with('/')) return *config + "/lockstep/run_key";
  auto home = read("HOME");
  if (!home || !home->starts_with('/')) home = home_of_user();
  if (home && home->starts_with('/')) return *home + "/.config/lockstep/run_key";
  return misuse(
      "no home folder is known for a key: HOME is not set, and the user database has none");
}

Result<KeyFound> find_key(const std::optional<std::string>& key_file, const ReadVariable& read) {
  LOCKSTEP_ASSIGN(const bool insecure, wants_no_key(read));
  const auto found = [&](RunKey key, std::string source) {
    KeyFound result{std::move(key), std::move(source), ""};
    if (insecure)
      result.said = std::string(kInsecureVariable) + "=1 has no effect: there is a key (" +
                    result.source + ")";
    return result;
  };
  if (key_file) {
    const std::string source = "--key-file '" + *key_file + "'";
    LOCKSTEP_ASSIGN(RunKey key, read_key_file(*key_file, source));
    return found(std::move(key), source);
  }
  if (const auto text = read(kKeyVariable)) {
    LOCKSTEP_ASSIGN(RunKey key, RunKey::of(*text, kKeyVariable));
    return found(std::move(key), kKeyVariable);
  }
  const auto file = default_key_file(read);
  if (file.ok() && (::access(file->c_str(), F_OK) == 0 || errno == EACCES)) {
    LOCKSTEP_ASSIGN(RunKey key, read_key_file(*file, "'" + *file + "'"));
    return found(std::move(key), *file);
  }
  if (!insecure) return no_key(file);
  return KeyFound{std::nullopt, kInsecureVariable,
                  std::string(kInsecureVariable) +
                      "=1: agents meet without a key; whoever reaches the port can take part in "
                      "this run, and read what its launchers say to each other"};
}

}  // namespace lockstep::control
