// What nodes_options_test and nodes_mistakes_test give to parse_run_options().
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/options.h"

namespace lockstep::launcher {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

inline Result<LaunchOptions> parse(Words words, const Variables& variables = {}) {
  words.emplace_back("p");
  return parse_run_options(words, [variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

inline NodesOptions nodes(const Words& words, const Variables& variables = {}) {
  const auto options = parse(words, variables);
  EXPECT_TRUE(options.ok()) << options.error().message;
  return options.ok() ? options->nodes : NodesOptions{};
}

inline std::string refusal_of(const Words& words, const Variables& variables = {}) {
  const auto options = parse(words, variables);
  if (options.ok()) return "";
  EXPECT_EQ(options.error().kind, ErrorKind::kUsage);
  return options.error().message;
}

// Two nodes that meet at `h`, and these.
inline Words two(const Words& others) {
  Words words{"--nnodes=2", "--rdzv-endpoint", "h"};
  words.insert(words.end(), others.begin(), others.end());
  return words;
}

// The second of two nodes of a step, in a job of three.
inline const Variables kStep{{"SLURM_JOB_ID", "10"},
                             {"SLURM_STEP_ID", "2"},
                             {"SLURM_STEP_NUM_NODES", "2"},
                             {"SLURM_STEP_NODELIST", "n[2-3]"},
                             {"SLURM_NODEID", "1"},
                             {"SLURM_LOCALID", "0"},
                             {"SLURM_JOB_NUM_NODES", "3"},
                             {"SLURM_JOB_NODELIST", "n[1-3]"},
                             {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};

}  // namespace lockstep::launcher
