// The toy worker's command line (toy_worker.cpp lists it).
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>

namespace lockstep::toy {

struct Options {
  std::map<std::string, std::string> values;

  // "--name value" and "--name"; nullopt: something else.
  static std::optional<Options> parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (!word.starts_with("--")) return std::nullopt;
      const bool value = i + 1 < argc && std::strncmp(argv[i + 1], "--", 2) != 0;
      options.values[word.substr(2)] = value ? argv[++i] : "";
    }
    return options;
  }
  std::string text(const std::string& name, const std::string& otherwise = "") const {
    const auto found = values.find(name);
    return found == values.end() ? otherwise : found->second;
  }
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) const {
    return std::strtoull(text(name, std::to_string(otherwise)).c_str(), nullptr, 10);
  }
  bool has(const std::string& name) const { return values.contains(name); }
};

// "RANK:TXN[:CODE]"
struct Trigger {
  int rank = -1;
  std::uint64_t txn = 0;
  int code = 0;
};
inline Trigger trigger(const std::string& text) {
  Trigger t;
  unsigned long long txn = 0;
  if (std::sscanf(text.c_str(), "%d:%llu:%d", &t.rank, &txn, &t.code) < 2) t.rank = -1;
  t.txn = txn;
  return t;
}

}  // namespace lockstep::toy
