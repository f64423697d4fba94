#include "launcher/late_reader.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "base/log.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr auto kSilence = 5s;
constexpr std::size_t kMostNamed = 3;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

bool is_for_reading(const fs::path& process, const std::string& fd) {
  std::ifstream in(process / "fdinfo" / fd);
  std::string word;
  while (in >> word)
    if (word == "flags:") return in >> word && (word.back() == '0' || word.back() == '2');
  return false;
}

bool reads(const fs::path& process, const fs::path& what) {
  std::error_code error;
  for (fs::directory_iterator entry(process / "fd", error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(entry->path(), gone) == what &&
        is_for_reading(process, entry->path().filename()))
      return true;
  }
  return false;
}

void tell(Console::Target target, const std::string& readers) {
  const std::string name = target == Console::kOut ? "standard output" : "standard error";
  log_warning("the run waits for the reader of its " + name +
              (readers.empty() ? "" : ", " + readers) + ": nothing has been read for " +
              std::to_string(kSilence.count()) + " s; no worker is held responsible meanwhile");
}

}  // namespace

void LateReader::look(std::optional<Console::Target> where) {
  const auto progress = where ? console_.progress(*where) : std::pair<std::size_t, int>{};
  if (where != where_ || progress != progress_) {
    where_ = where;
    progress_ = progress;
    tell_at_ = Deadline::in(kSilence);
    told_ = false;
  }
  if (!where || told_ || !tell_at_.passed()) return;
  told_ = true;
  auto readers = std::make_shared<std::string>();
  background_.run(
      [readers, fd = *where == Console::kOut ? STDOUT_FILENO : STDERR_FILENO]() -> Status {
        *readers = readers_of(fd);
        return {};
      },
      [readers, target = *where](const Status&) { tell(target, *readers); });
}

std::string readers_of(int fd) {
  std::error_code error;
  const fs::path what = fs::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  std::string text;
  std::size_t count = 0;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& process = entry->path();
    const std::string pid = process.filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos || !reads(process, what)) continue;
    if (count++ == kMostNamed) break;
    text += (text.empty() ? "process " : ", process ") + pid + " (" + first_line(process / "comm") +
            ")";
  }
  return text;
}

}  // namespace lockstep::launcher
