// For peer.py: vision_probe KIND ROOT SPLIT SEED EPOCH prints the classes, then of each sample its
// name, label, key and the SHA-256 of its values; vision_probe split N SEED LENGTH... the ids of
// each part.
#include <ATen/Functions.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/hash.h"
#include "data/image/sample_random.h"
#include "lockstep/vision.h"

using namespace lockstep;
using namespace lockstep::data;

namespace {

template <class T>
T need(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return std::move(*result);
}

transforms::Compose list_of(const std::string& kind) {
  using namespace transforms;
  const Normalize normalize{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
  if (kind == "folder") return {AutoAugment{}, Resize{40, 30}, ToTensor{}};
  return {RandomCrop{32, 32, 4}, RandomHorizontalFlip{}, ToTensor{}, normalize};
}

void print(const PictureSet& set, const Pass& pass) {
  for (const std::string& name : set.classes()) std::printf("class\t%s\n", name.c_str());
  for (std::int64_t id = 0; id < set.size(); ++id) {
    const Batch batch = need(set.get(std::span(&id, 1), pass));
    const std::string_view values(static_cast<const char*>(batch.inputs.const_data_ptr()),
                                  batch.inputs.nbytes());
    const auto key = image::sample_key(pass.seed, pass.epoch, static_cast<std::uint64_t>(id));
    std::printf("%s\t%ld\t%u\t%s\n", set.name(id).c_str(),
                static_cast<long>(batch.targets.item<std::int64_t>()), key,
                sha256_hex(values).c_str());
  }
}

void print_split(std::int64_t n, std::uint64_t seed, const std::vector<std::string>& sizes) {
  const auto whole = need(tensor_dataset(at::arange(n), at::arange(n)));
  std::vector<std::int64_t> lengths;
  std::vector<double> fractions;
  for (const std::string& size : sizes) {
    lengths.push_back(std::atoll(size.c_str()));
    fractions.push_back(std::atof(size.c_str()));
  }
  const bool fraction = sizes.front().find('.') != std::string::npos;
  const Parts parts = need(fraction ? random_split_fractions(whole, fractions, seed)
                                    : random_split(whole, lengths, seed));
  for (const auto& part : parts) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(part->size()));
    std::iota(ids.begin(), ids.end(), 0);
    const Batch batch = need(part->get(ids, {}));
    for (std::int64_t i = 0; i < part->size(); ++i)
      std::printf("%ld ", static_cast<long>(batch.inputs[i].item<std::int64_t>()));
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() < 4) return 2;
  if (args[0] == "split") {
    print_split(std::atoll(args[1].c_str()), std::strtoull(args[2].c_str(), nullptr, 10),
                {args.begin() + 3, args.end()});
    return 0;
  }
  const Split split = args[2] == "train" ? Split::kTrain : Split::kTest;
  const auto open = args[0] == "cifar10" ? open_cifar10 : open_cifar100;
  const auto set = args[0] == "folder" ? need(open_image_folder(args[1], list_of(args[0])))
                                       : need(open(args[1], split, list_of(args[0])));
  print(*set, {std::strtoull(args[3].c_str(), nullptr, 10),
               std::strtoull(args.at(4).c_str(), nullptr, 10), true});
}
