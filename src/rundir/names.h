// Names in a run directory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::rundir {

// What a run writes into its directory besides manifest.json, and starting over removes.
inline constexpr std::array<const char*, 9> kRunNames{
    "checkpoints", "incidents",   "ledger.jsonl", "metrics.jsonl",   "times.jsonl",
    "result.json", "config.toml", "stop.json",    "standstills.json"};

// "step-00000100": the folder of the checkpoint of that transaction's start.
std::string step_name(std::uint64_t txn);
// And back; none: it is not such a name.
std::optional<std::uint64_t> step_of(const std::string& name);

}  // namespace lockstep::rundir
