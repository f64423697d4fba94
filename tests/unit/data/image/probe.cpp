// What this library makes of image files, for peer.py to compare. Reads requests, a line each,
// fields separated by tabs; answers each with a line "HEIGHT WIDTH BYTES" and the bytes, or
// "error TEXT".
//   decode PATH                       uint8 [height, width, 3]
//   region LEFT,TOP,WIDTH,HEIGHT PATH the same, of a part
//   picture SPEC KEY PATH             the same, after the transforms (see spec.h)
//   values SPEC KEY PATH              float32 [3, height, width]
//   draws KEY COUNT                   uint32 [1, count]
//   key SEED EPOCH SAMPLE             uint32 [1, 1]
#include <cstdio>
#include <iostream>

#include "unit/data/image/files.h"
#include "unit/data/image/spec.h"

using namespace lockstep;
using namespace lockstep::data::image;

namespace {

using Fields = std::vector<std::string>;

Fields split(const std::string& line) {
  Fields fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  return fields;
}

void answer(Size size, const void* data, std::size_t bytes) {
  std::printf("%d %d %zu\n", size.height, size.width, bytes);
  std::fwrite(data, 1, bytes, stdout);
}

Status decode_request(const Fields& fields) {
  Image image;
  const auto file = bytes_of(fields.back());
  if (fields[0] == "decode") {
    LOCKSTEP_TRY(decode(file, fields.back(), image));
    answer({image.height(), image.width()}, image.data(), image.bytes());
  } else {
    const auto n = numbers_of(fields[1]);
    const auto at = [&](std::size_t i) { return static_cast<int>(n[i]); };
    const Region region{at(0), at(1), at(2), at(3)};
    LOCKSTEP_ASSIGN(const PixelView part,
                    decode_region(
                        file, fields.back(), [&](int, int) { return region; }, image));
    std::string bytes;
    for (int y = 0; y < part.height; ++y)
      bytes.append(reinterpret_cast<const char*>(part.at(0, y)),
                   static_cast<std::size_t>(part.width) * kChannels);
    answer({part.height, part.width}, bytes.data(), bytes.size());
  }
  return {};
}

Status transform_request(const Fields& fields, Workspace& workspace) {
  const auto file = bytes_of(fields.back());
  SampleRandom random(static_cast<std::uint32_t>(std::stoul(fields[2])));
  const bool values = fields[0] == "values";
  LOCKSTEP_ASSIGN(const Transforms list,
                  Transforms::make(steps_of(fields[1] + (values ? "" : " ToTensor"))));
  Image image;
  LOCKSTEP_TRY(decode(file, fields.back(), image));
  if (!values) {
    Image out;
    LOCKSTEP_TRY(list.picture(image.view(), random, workspace, out));
    answer({out.height(), out.width()}, out.data(), out.bytes());
    return {};
  }
  LOCKSTEP_ASSIGN(const Size size, list.output_size({image.height(), image.width()}));
  std::vector<float> out(static_cast<std::size_t>(size.height * size.width) * kChannels);
  LOCKSTEP_TRY(list.apply(file, fields.back(), random, workspace, out));
  answer(size, out.data(), out.size() * sizeof(float));
  return {};
}

Status draws_request(const Fields& fields) {
  SampleRandom random(static_cast<std::uint32_t>(std::stoul(fields[1])));
  std::vector<std::uint32_t> draws(std::stoul(fields[2]));
  for (std::uint32_t& draw : draws) draw = random.bits();
  answer({1, static_cast<int>(draws.size())}, draws.data(), draws.size() * sizeof draws[0]);
  return {};
}

Status request(const Fields& fields, Workspace& workspace) {
  if (fields[0] == "decode" || fields[0] == "region") return decode_request(fields);
  if (fields[0] == "draws") return draws_request(fields);
  if (fields[0] == "key") {
    const std::uint32_t key =
        sample_key(std::stoull(fields[1]), std::stoull(fields[2]), std::stoull(fields[3]));
    answer({1, 1}, &key, sizeof key);
    return {};
  }
  return transform_request(fields, workspace);
}

}  // namespace

int main() {
  Workspace workspace;
  for (std::string line; std::getline(std::cin, line);) {
    const Status status = request(split(line), workspace);
    if (!status.ok()) std::printf("error %s\n", status.error().message.c_str());
    std::fflush(stdout);
  }
  return 0;
}
