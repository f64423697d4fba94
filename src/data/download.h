// Data sets from their addresses: checked by SHA-256 before use, written whole or not at all, kept
// if good already.
//
// Errors: kUnavailable when no address answers, kBadData when what they send is not the file,
// kDisk. Each says what was tried.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::data {

// `name`.gz is fetched; `name` is what it unpacks to, and what programs read.
struct RemoteFile {
  std::string name;
  std::string packed_sha256, unpacked_sha256;
  std::uint64_t max_packed_bytes = 0, unpacked_bytes = 0;
};

struct RemoteSet {
  std::vector<std::string> addresses;  // end with /; tried in this order
  std::vector<RemoteFile> files;
};

RemoteSet mnist_online();

// Called as bytes come, and once with done == total at a file's end. total 0: not known.
using Progress =
    std::function<void(const std::string& file, std::uint64_t done, std::uint64_t total)>;
// For a person at `fd`: a bar if it is a terminal, otherwise a line at a file's end and every 5 s.
Progress progress_to(int fd);

// Into `folder`, made if need be: name.gz and name.
Status download(Env& env, const RemoteSet& set, const std::string& folder,
                const Progress& progress);
// Into FOLDER/MNIST/raw, torchvision's layout.
Status download_mnist(const std::string& folder, const Progress& progress);

}  // namespace lockstep::data
