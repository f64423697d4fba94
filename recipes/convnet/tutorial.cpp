#include "tutorial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace convnet {
namespace {

// As printed by torch 1.2 on Tesla V100 cards in 2019. The first two printouts are cut off there.
constexpr std::array kOneGpu = {2.1626, 1.9929, 1.9224, 1.7479, 1.6264, 1.5411, 1.4387, 1.3242,
                                1.2894, 1.1754, 1.1271, 1.1246, 1.1838, 1.0215, 1.0146, 0.9684,
                                0.9130, 0.9182, 0.9589, 0.8122, 0.8425, 0.8240, 0.7570};
constexpr std::array kDataParallel = {
    2.1628, 1.9898, 1.9229, 1.7464, 1.6278, 1.5438, 1.4396, 1.3246, 1.2891, 1.1769, 1.1300,
    1.1270, 1.1857, 1.0241, 1.0166, 0.9708, 0.9145, 0.9214, 0.9587, 0.8138, 0.8442, 0.8242};
constexpr std::array kFourProcesses = {
    2.2473, 2.1133, 2.0436, 2.0311, 1.9043, 1.8384, 1.8513, 1.7253, 1.6633, 1.6923,
    1.5687, 1.5136, 1.5525, 1.4323, 1.3860, 1.4303, 1.3143, 1.2771, 1.3240, 1.2118,
    1.1835, 1.2314, 1.1234, 1.1032, 1.1503, 1.0464, 1.0338, 1.0792, 0.9793, 0.9734};

// In units of 0.0001, as the line prints it.
std::int64_t printed(double loss) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), "%.4f", loss);
  return std::llround(std::strtod(text.data(), nullptr) * 1e4);
}

}  // namespace

Published published_for(Mode mode) {
  if (mode == Mode::kSingle) return {"one GPU", 100, kOneGpu};
  if (mode == Mode::kDataParallel) return {"DataParallel", 100, kDataParallel};
  return {"DistributedDataParallel", 50, kFourProcesses};
}

Agreement agreement(const Published& published, const Losses& losses) {
  Agreement found;
  for (std::size_t i = 0; i < published.losses.size(); ++i) {
    const auto ours = losses.find(published.every * static_cast<std::int64_t>(i + 1) - 1);
    if (ours == losses.end()) continue;
    const std::int64_t off = std::abs(printed(ours->second.loss) - printed(published.losses[i]));
    ++found.reached;
    if (off == 0) ++found.equal;
    found.most_off = std::max(found.most_off, off);
  }
  return found;
}

std::string sentence(const Published& published, const Agreement& found) {
  std::array<char, 32> off;
  std::snprintf(off.data(), off.size(), "%.4f", static_cast<double>(found.most_off) * 1e-4);
  return "Tutorial, " + std::string(published.run) + ": " + std::to_string(found.equal) + " of " +
         std::to_string(found.reached) + " lines equal to all four decimals, none more than " +
         off.data() + " off (" + std::to_string(published.losses.size()) + " published)";
}

lockstep::Status check_against_tutorial(Mode mode, const std::string& run_directory) {
  LOCKSTEP_ASSIGN(const Losses losses, losses_of(run_directory));
  const Published published = published_for(mode);
  const Agreement found = agreement(published, losses);
  std::printf("%s\n", sentence(published, found).c_str());
  if (found.reached > 0 && found.most_off <= 1) return {};
  return lockstep::Error{lockstep::ErrorKind::kBadData,
                         "the run in '" + run_directory +
                             "' is not the tutorial's: more than 0.0001 off, or no line of it "
                             "reached. Is --data the MNIST of its authors?"};
}

}  // namespace convnet
