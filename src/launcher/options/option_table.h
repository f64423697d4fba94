// The options of `lockstep run` as a table: name, what it takes, help, and what it sets.
// options.cpp reads the command line by it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "launcher/options/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// Everything that has to be combined once all options are read.
struct Raw {
  LaunchOptions options;
  std::string rdzv_backend = "static", rdzv_conf;
  std::optional<Endpoint> rdzv_endpoint;  // the first of a list
  std::vector<Endpoint> more_endpoints;   // the others
  std::optional<std::string> rdzv_id, master_addr;
  int master_port = 0, store_port = 0;
  // Options that are given, and what has given them: "--nnodes", or "PET_NNODES".
  std::map<std::string, std::string> given;
  bool has(const std::string& option) const { return given.contains(option); }
};

struct Option {
  std::string name;
  std::string value;  // what it takes, for the help; empty: a flag
  std::string help;   // empty: not shown
  std::function<Status(Raw&, const std::string&)> set;
  char letter = 0;
  bool of_linked = false;  // concerns programs that link Lockstep alone
  bool of_plain = false;   // concerns other programs alone
};

std::vector<Option> all_options();

// Where the launchers of several nodes meet: rendezvous.cpp.
std::vector<Option> rendezvous_options();

// Whoever sets an option wants its effect; it is said which variable or option it is.
std::string given_as(const Raw& raw, const std::string& option);
std::string in_quotes(std::string_view text);
// Without blanks around it.
std::string_view trimmed(std::string_view text);
// kUsage unless `text` is a whole number from `least` to `most`.
Result<int> to_int(std::string_view name, std::string_view text, int least, int most);

}  // namespace lockstep::launcher
