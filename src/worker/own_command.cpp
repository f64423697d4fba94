#include "worker/own_command.h"

#include <filesystem>
#include <fstream>

namespace lockstep::worker {

std::vector<std::string> own_command() {
  std::error_code error;
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe", error).string()};
  std::ifstream file("/proc/self/cmdline");
  std::string word;
  std::getline(file, word, '\0');
  while (std::getline(file, word, '\0')) words.push_back(word);
  return words;
}

}  // namespace lockstep::worker
