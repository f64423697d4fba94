// Starts real programs for tests, with their output in files and a bound on their life.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/temp_folder.h"

namespace lockstep::test {

struct Outcome {
  int code = 0;  // exit code, or minus the signal; -1000: had to be killed after the time limit
  std::string out, err;
  double seconds = 0;
};

class Child {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  explicit Child(const std::vector<std::string>& command, const Variables& variables = {})
      : begin_(std::chrono::steady_clock::now()) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
    ::dup2(::open((folder_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  ~Child() {
    if (pid_ > 0) wait(std::chrono::seconds(0));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  std::string out() const { return read_text(folder_ / "out"); }
  std::string err() const { return read_text(folder_ / "err"); }

  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }
  // Until `text` is in the standard output; false after the limit.
  bool wait_for_output(const std::string& text,
                       std::chrono::milliseconds limit = std::chrono::seconds(60)) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (out().find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  Outcome wait(std::chrono::milliseconds limit = std::chrono::seconds(90)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    Outcome outcome;
    int status = 0;
    bool killed = false;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (!killed && std::chrono::steady_clock::now() > end) {
        ::kill(pid_, SIGKILL);
        killed = true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    pid_ = -1;
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    outcome.code = killed ? -1000 : WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    outcome.out = out();
    outcome.err = err();
    return outcome;
  }

 private:
  std::chrono::steady_clock::time_point begin_;
  TempFolder folder_;
  pid_t pid_ = -1;
};

inline Outcome run(const std::vector<std::string>& command,
                   const Child::Variables& variables = {}) {
  return Child(command, variables).wait();
}

// Pids of live processes whose command line contains `text`.
inline std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    std::string command = read_text(entry.path() / "cmdline");  // empty for zombies
    if (pid != ::getpid() && command.find(text) != std::string::npos) found.push_back(pid);
  }
  return found;
}

inline std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  return last;
}

}  // namespace lockstep::test
