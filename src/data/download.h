// Data sets from their addresses: checked by SHA-256 before use, unpacked whole or not at all, kept
// if good already.
//
// Errors: kUnavailable when no address answers, kBadData when what they send is not the file,
// kDisk. Each says what was tried. An error leaves nothing behind; what a killed process has left,
// the next call takes away.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "data/stopped.h"
#include "lockstep/status.h"

namespace lockstep::data {

// What programs read. `digest`: SHA-256, or MD5 where only that is published.
struct UnpackedFile {
  std::string path;  // below the set's folder
  std::string digest;
};

// Fetched as `name`, which stays beside what it unpacks to: of X.gz the file X; of an archive
// X.tar.gz the one folder in it that all its files are in, with whatever else is there.
struct RemoteFile {
  std::string name;
  std::string sha256;
  std::uint64_t max_bytes = 0;
  std::vector<UnpackedFile> unpacked;
};

struct RemoteSet {
  std::string name;                    // for `lockstep data get`
  std::string folder;                  // torchvision's, below the one given; empty: that one itself
  std::vector<std::string> addresses;  // end with /; tried in this order
  std::vector<RemoteFile> files;
};

// mnist, cifar10, cifar100.
std::span<const RemoteSet> remote_sets();

// Called as bytes come, and once with done == total at a file's end. total 0: not known.
using Progress =
    std::function<void(const std::string& file, std::uint64_t done, std::uint64_t total)>;
// For a person at `fd`: a bar if it is a terminal, otherwise a line at a file's end and every 5 s.
Progress progress_to(int fd);

// Into `folder`, made if need be, where nobody else writes.
Status download(Env& env, const RemoteSet& set, const std::string& folder,
                const Progress& progress = {}, const Stopped& stopped = {});
// Into the set's place below `root`. kUnavailable too: another download into it is under way, or
// soon after stopped() says so.
Status download_below(const std::string& root, const RemoteSet& set, const Progress& progress,
                      const Stopped& stopped);

}  // namespace lockstep::data
