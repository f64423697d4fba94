#include "launcher/output/late_reader.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "base/log.h"
#include "base/processes.h"

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

bool is_for_reading(const OpenFile& file) {
  std::ifstream in(file.info);
  std::string word;
  while (in >> word)
    if (word == "flags:") return in >> word && (word.back() == '0' || word.back() == '2');
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
  const auto reads = [&](const OpenFile& file) {
    std::error_code gone;
    return fs::read_symlink(file.link, gone) == what && is_for_reading(file);
  };
  std::string text;
  for (const pid_t pid : processes_with(reads, kMostNamed)) {
    const std::string name = first_line("/proc/" + std::to_string(pid) + "/comm");
    text += (text.empty() ? "process " : ", process ") + std::to_string(pid) + " (" + name + ")";
  }
  return text;
}

}  // namespace lockstep::launcher
