// The options of `lockstep run` as a table: name, what it takes, help, and what it sets.
// options.cpp reads the command line by it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/options/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// Everything that has to be combined once all options are read.
struct Raw {
  LaunchOptions options;
  std::string rdzv_backend = "static", rdzv_endpoint, rdzv_id;
  bool id_given = false;
  int store_port = 0;
  std::set<std::string> given;  // names of the options on the command line
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

std::string in_quotes(std::string_view text);
// kUsage unless `text` is a whole number from `least` to `most`.
Result<int> to_int(std::string_view name, std::string_view text, int least, int most);

}  // namespace lockstep::launcher
