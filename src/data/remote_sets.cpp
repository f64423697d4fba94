#include <array>
#include <initializer_list>

#include "data/download.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kMega = 1 << 20;

// Checksums as torchvision's mirrors have them since 2020; those of the unpacked files are the
// original set's.
RemoteSet mnist() {
  const auto file = [](const std::string& name, const char* packed, const char* plain,
                       std::uint64_t max_bytes) {
    return RemoteFile{name + ".gz", packed, max_bytes, {{name, plain}}};
  };
  return {"mnist",
          "MNIST/raw",
          {"https://ossci-datasets.s3.amazonaws.com/mnist/",
           "https://storage.googleapis.com/cvdf-datasets/mnist/"},
          {file("train-images-idx3-ubyte",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 16 * kMega),
           file("train-labels-idx1-ubyte",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", kMega),
           file("t10k-images-idx3-ubyte",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 4 * kMega),
           file("t10k-labels-idx1-ubyte",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", kMega)}};
}

// `files`: with the MD5 sums of torchvision's datasets/cifar.py.
RemoteSet cifar(const char* name, const char* archive, const char* sha256, std::uint64_t bytes,
                const std::string& folder, std::initializer_list<UnpackedFile> files) {
  RemoteFile file{archive, sha256, bytes, {}};
  for (const UnpackedFile& each : files)
    file.unpacked.push_back({folder + "/" + each.path, each.digest});
  return {name, "", {"https://www.cs.toronto.edu/~kriz/"}, {std::move(file)}};
}

}  // namespace

std::span<const RemoteSet> remote_sets() {
  static const std::array<RemoteSet, 3> sets{
      mnist(),
      cifar("cifar10", "cifar-10-python.tar.gz",
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce", 170498071,
            "cifar-10-batches-py",
            {{"data_batch_1", "c99cafc152244af753f735de768cd75f"},
             {"data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"},
             {"data_batch_3", "54ebc095f3ab1f0389bbae665268c751"},
             {"data_batch_4", "634d18415352ddfa80567beed471001a"},
             {"data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"},
             {"test_batch", "40351d587109b95175f43aff81a1287e"},
             {"batches.meta", "5ff9c542aee3614f3951f8cda6e48888"}}),
      cifar("cifar100", "cifar-100-python.tar.gz",
            "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7", 169001437,
            "cifar-100-python",
            {{"train", "16019d7e3df5f24257cddd939b257f8d"},
             {"test", "f0ef6b0ae62326f3e7ffdfab6717acfc"},
             {"meta", "7973b15100ade9c7d40fb424638fde48"}})};
  return sets;
}

}  // namespace lockstep::data
