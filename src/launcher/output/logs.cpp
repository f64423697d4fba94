#include "launcher/output/logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/deadline.h"
#include "base/log.h"
#include "base/temporary.h"
#include "base/text.h"
#include "launcher/output/file_writer.h"
#include "launcher/output/host_name.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

Error disk_error(const char* call, const std::string& path, int code) {
  return {ErrorKind::kDisk,
          std::string("logs: ") + call + " '" + path + "': " + std::strerror(code)};
}

// A new folder whose name begins with `prefix`.
Result<std::string> make_unique_folder(std::string prefix) {
  prefix += "XXXXXX";
  if (::mkdtemp(prefix.data()) == nullptr) return disk_error("mkdtemp", prefix, errno);
  return prefix;
}

Result<UniqueFd> duplicate(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return disk_error("dup of output", std::to_string(fd), errno);
  return copy;
}

Result<UniqueFd> open_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd) return disk_error("open", path, errno);
  return fd;
}

// torchrun's template variable, Python's string.Template, is honoured. Its default has the local
// rank, of which a console of several nodes has many.
std::string line_prefix(const LaunchOptions& options, int rank, int local_rank) {
  const char* chosen = std::getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  std::string text =
      options.nodes.nnodes > 1 ? "[${role_name}${rank}]:" : "[${role_name}${local_rank}]:";
  if (chosen != nullptr && *chosen != '\0') text = chosen;
  return substitute(text, [&](std::string_view name) -> std::optional<std::string> {
    if (name == "role_name") return options.role;
    if (name == "rank") return std::to_string(rank);
    if (name == "local_rank") return std::to_string(local_rank);
    return std::nullopt;
  });
}

// Nodes may share the folder for logs: ID_, and HOST_ where there are several.
std::string folder_name(const LaunchOptions& options) {
  std::string name = options.run_id + "_";
  if (options.nodes.nnodes == 1) return name;
  std::string host = printable(host_name());
  std::ranges::replace(host, '/', '_');
  return name + host + "_";
}

}  // namespace

struct Logs::Tee {
  static constexpr std::size_t kMostPartial = std::size_t{64} << 20;

  UniqueFd pipe;
  bool watched = false;              // the pipe, by the loop
  std::shared_ptr<FileWriter> file;  // nullptr: none
  std::string path, prefix;
  std::string partial;    // of a line; has no end in it
  bool returned = false;  // the last byte was \r: \n after it is the same end
  Console::Target target = Console::kOut;
  bool console = true, ended = false, incomplete = false;
  int local_rank = 0;

  void take(std::string_view data, Console& to) {
    if (file) file->write(data);
    if (!console) return;
    std::string lines;
    split(data, lines);
    if (partial.size() >= kMostPartial) end_line(lines);
    if (!lines.empty()) to.write(target, lines);
  }
  // Told once; the worker goes on.
  void took(const Status& status) {
    if (!status.ok() && !std::exchange(incomplete, true))
      log_warning("cannot write '" + path + "': " + status.error().message +
                  "; the log is incomplete");
  }
  void look_at_disk() {
    if (file && file->is_late())
      log_warning("the disk of '" + path + "' has taken nothing for 5 s: the log waits, and the " +
                  "worker once 1 MiB is waiting");
  }
  void split(std::string_view data, std::string& lines) {
    const auto is_end = [](char c) { return c == '\n' || c == '\r'; };
    while (!data.empty()) {
      const auto end = std::find_if(data.begin(), data.end(), is_end);
      const auto size = static_cast<std::size_t>(end - data.begin());
      const bool second = std::exchange(returned, false) && size == 0 && *end == '\n';
      partial += data.substr(0, size);
      if (end == data.end()) return;
      returned = *end == '\r';
      // A progress bar returns before it writes.
      if (!second && !(returned && partial.empty())) end_line(lines);
      data.remove_prefix(size + 1);
    }
  }
  void end_line(std::string& lines) {
    lines.append(prefix).append(partial).append("\n");
    partial.clear();
  }
  void finish(Console& to) {
    std::string lines;
    if (!partial.empty()) end_line(lines);
    if (!lines.empty()) to.write(target, lines);
    ended = true;
  }
};

Result<Logs> Logs::open(const LaunchOptions& options, Loop& loop, Console& console) {
  Logs logs(options, loop, console);
  std::string base = options.log_dir;
  if (options.no_log_files()) return logs;
  if (base.empty()) {
    if (!options.redirects.any() && !options.tee.any()) return logs;
    // As torchrun: whoever redirects without saying where gets a folder for temporary files.
    LOCKSTEP_ASSIGN(base, make_temporary_folder("lockstep_logs_"));
    logs.temporary_ = base;
    log_info("logs go to '" + base + "' (--log-dir chooses another folder)");
  }
  std::error_code error;
  fs::create_directories(base, error);
  if (error)
    return Error{ErrorKind::kDisk,
                 "cannot make the log directory '" + base + "': " + error.message()};
  LOCKSTEP_ASSIGN(logs.folder_, make_unique_folder(base + "/" + folder_name(options)));
  return logs;
}

void Logs::remove_unused(bool but_errors) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    const bool ignored = but_errors && entry->path().filename() == "error.json";
    if (!ignored && entry->is_regular_file(error) && entry->file_size(error) > 0) return;
  }
  if (folder_.empty() || error) return;
  fs::remove_all(std::exchange(folder_, {}), error);
  if (!temporary_.empty()) fs::remove(temporary_, error);  // if it is empty
}

void Logs::remove_if_empty() {
  std::error_code error;
  if (folder_.empty() || !fs::is_empty(folder_, error) || !fs::remove(folder_, error)) return;
  folder_.clear();
  if (!temporary_.empty()) fs::remove(temporary_, error);
}

bool Logs::redirects(int local_rank, Stream stream) const {
  return !options_->no_log_files() && (options_->redirects.of(local_rank) & stream) != 0;
}

bool Logs::on_console(int local_rank) const {
  const auto& filter = options_->local_ranks_filter;
  return filter.empty() || std::find(filter.begin(), filter.end(), local_rank) != filter.end();
}

Result<Outputs> Logs::open_worker(int attempt, int local_rank, int rank) {
  Outputs outputs;
  if (!folder_.empty()) {
    outputs.folder =
        folder_ + "/attempt_" + std::to_string(attempt) + "/" + std::to_string(local_rank);
    std::error_code error;
    fs::create_directories(outputs.folder, error);
    if (error)
      return Error{ErrorKind::kDisk, "cannot make '" + outputs.folder + "': " + error.message()};
  }
  LOCKSTEP_ASSIGN(outputs.out, open_stream(outputs.folder, kStdout, local_rank, rank));
  LOCKSTEP_ASSIGN(outputs.err, open_stream(outputs.folder, kStderr, local_rank, rank));
  return outputs;
}

Result<UniqueFd> Logs::open_stream(const std::string& folder, Stream stream, int local_rank,
                                   int rank) {
  const bool tee = (options_->tee.of(local_rank) & stream) != 0;
  const bool redirect = redirects(local_rank, stream);
  if (!tee && !redirect) {
    if (on_console(local_rank)) return duplicate(stream == kStdout ? STDOUT_FILENO : STDERR_FILENO);
    UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!null) return disk_error("open", "/dev/null", errno);
    return null;
  }
  const std::string path = folder + (stream == kStdout ? "/stdout.log" : "/stderr.log");
  UniqueFd file;
  if (!options_->no_log_files()) {
    LOCKSTEP_ASSIGN(file, open_file(path));
  }
  if (!tee) return file;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return disk_error("pipe", path, errno);
  UniqueFd readable(ends[0]), writable(ends[1]);
  ::fcntl(readable.get(), F_SETFL, O_NONBLOCK);
  auto state = std::make_shared<Tee>();
  state->pipe = std::move(readable);
  if (file)
    state->file = std::make_shared<FileWriter>(
        std::move(file), *disk_, [this, tee = std::weak_ptr(state)](const Status& status) {
          if (const auto of = tee.lock()) of->took(status);
          look_at_room();
        });
  state->path = path;
  state->prefix = line_prefix(*options_, rank, local_rank);
  state->target = stream == kStdout ? Console::kOut : Console::kErr;
  state->console = on_console(local_rank);
  state->local_rank = local_rank;
  std::erase_if(tees_,
                [](const auto& old) { return old->ended && !(old->file && old->file->busy()); });
  tees_.push_back(state);
  look_at_room();
  return writable;
}

bool Logs::reads(const Tee& tee) const {
  return tee.pipe && !(tee.console && held_) && !(tee.file && tee.file->full());
}

// Pipes are read as long as there is room for what comes.
void Logs::look_at_room() {
  for (const auto& tee : tees_) {
    const bool wanted = reads(*tee);
    if (wanted == tee->watched) continue;
    tee->watched = wanted;
    if (!wanted) {
      loop_->remove(tee->pipe.get());
    } else if (auto added = loop_->add(tee->pipe.get(), [this, tee] { pump(*tee); }); !added.ok()) {
      tee->watched = false;
      log_error(added.error().message);
    }
  }
}

void Logs::pump(Tee& tee) {
  const ssize_t n = ::read(tee.pipe.get(), buffer_.data(), buffer_.size());
  if (n > 0) {
    tee.take({buffer_.data(), static_cast<std::size_t>(n)}, *console_);
    held_ = held_ || console_->full();
    if (!reads(tee)) look_at_room();
    return;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  close_pipe(tee);
  tee.finish(*console_);
}

void Logs::close_pipe(Tee& tee) {
  if (std::exchange(tee.watched, false)) loop_->remove(tee.pipe.get());
  tee.pipe.reset();
}

void Logs::go_on() {
  for (const auto& tee : tees_) tee->look_at_disk();
  if (!held_ || console_->full()) return;
  held_ = false;
  look_at_room();
}

std::optional<Console::Target> Logs::waits_for_reader(int local_rank) const {
  if (!on_console(local_rank)) return std::nullopt;
  for (const auto& [stream, target] :
       {std::pair{kStdout, Console::kOut}, {kStderr, Console::kErr}}) {
    const bool tee = (options_->tee.of(local_rank) & stream) != 0;
    const bool redirect = redirects(local_rank, stream);
    if (tee ? held_ : !redirect && !console_->has_room(target)) return target;
  }
  return std::nullopt;
}

bool Logs::waits_for_disk(int local_rank) const {
  return std::ranges::any_of(tees_, [&](const auto& tee) {
    return tee->local_rank == local_rank && tee->pipe && tee->file && tee->file->full();
  });
}

bool Logs::disk_is_busy() const {
  return std::ranges::any_of(tees_, [](const auto& tee) { return tee->file && tee->file->busy(); });
}

// False: enough of it.
bool Logs::wait_for_disk(const std::function<bool()>& enough) {
  (void)disk_->finish(Deadline::in(std::chrono::milliseconds(100)));
  for (const auto& tee : tees_) tee->look_at_disk();
  return !enough();
}

void Logs::drain(const std::function<bool()>& make_room, const std::function<bool()>& enough) {
  bool has_room = true, takes = true;
  for (const auto& tee : tees_) {
    while (tee->pipe) {
      const ssize_t n = ::read(tee->pipe.get(), buffer_.data(), buffer_.size());
      if (n <= 0) break;
      tee->take({buffer_.data(), static_cast<std::size_t>(n)}, *console_);
      if (has_room && console_->full()) has_room = make_room();
      while (takes && tee->file && tee->file->full()) takes = wait_for_disk(enough);
    }
    close_pipe(*tee);
    if (!tee->ended) tee->finish(*console_);
  }
  while (takes && disk_is_busy()) takes = wait_for_disk(enough);
  if (disk_is_busy())
    log_warning("the disk of the logs in '" + folder_ + "' takes nothing; they are incomplete");
  tees_.clear();
}

}  // namespace lockstep::launcher
