// Pictures a second on one core: JPEG to 3 x 224 x 224 floats (RandomResizedCrop, flip, ToTensor,
// Normalize), beside the same files' bare decoding by libjpeg-turbo; and 32 x 32 pictures in memory
// (padded crop, flip, normalise). Results are checked before anything is measured.
//
//   image_bench [--json FILE] [--seconds S] [JPEG...]
//
// Without files: one picture of 500 x 375, made here.
// jpeglib.h needs FILE declared before it.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "data/image/transforms.h"

namespace lockstep::data::image {
namespace {

using File = std::vector<std::uint8_t>;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "image_bench: %s\n", what.c_str());
  std::exit(1);
}

void require(const Status& status) {
  if (!status.ok()) fail(status.error().message);
}

void read(const std::string& path, File& file) {
  std::FILE* in = std::fopen(path.c_str(), "rb");
  if (in == nullptr) fail("cannot read " + path);
  std::fseek(in, 0, SEEK_END);
  file.resize(static_cast<std::size_t>(std::ftell(in)));
  std::rewind(in);
  if (std::fread(file.data(), 1, file.size(), in) != file.size()) fail("cannot read " + path);
  std::fclose(in);
}

// Waves of many lengths, strong in the long ones, and grain: about 60 KB as a JPEG.
Image natural(int width, int height) {
  Image image(width, height);
  std::uint32_t grain = 1;
  for (int y = 0; y < height; ++y)
    for (int i = 0; i < width * kChannels; ++i) {
      double value = 128;
      for (int octave = 0; octave < 8; ++octave) {
        const double fine = 0.01 * std::exp2(octave);
        const double turn = octave * 2.1 + i % kChannels * 0.4;
        value += 60 / std::exp2(octave * 0.75) *
                 std::sin(i / kChannels * fine * std::cos(turn) + y * fine * std::sin(turn) + turn);
      }
      grain = grain * 1664525U + 1013904223U;
      value += static_cast<double>(grain >> 24) / 8 - 16;
      image.row(y)[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
    }
  return image;
}

File encoded(const Image& image) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_compress(&codec);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &bytes, &size);
  codec.image_width = static_cast<JDIMENSION>(image.width());
  codec.image_height = static_cast<JDIMENSION>(image.height());
  codec.input_components = kChannels;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, 90, TRUE);
  jpeg_start_compress(&codec, TRUE);
  for (int y = 0; y < image.height(); ++y) {
    auto* row = const_cast<JSAMPROW>(image.row(y));
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  File file(bytes, bytes + size);
  jpeg_destroy_compress(&codec);
  std::free(bytes);
  return file;
}

// What libjpeg-turbo alone needs; the pixels go to `out`.
void bare_decode(const File& file, std::vector<std::uint8_t>& out) {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, file.data(), file.size());
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = JCS_RGB;
  jpeg_start_decompress(&codec);
  const std::size_t row = std::size_t{codec.output_width} * kChannels;
  out.resize(row * codec.output_height);
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW to = out.data() + codec.output_scanline * row;
    jpeg_read_scanlines(&codec, &to, 1);
  }
  jpeg_finish_decompress(&codec);
  jpeg_destroy_decompress(&codec);
}

Transforms list_of(std::vector<Transform> steps) {
  Result<Transforms> made = Transforms::make(std::move(steps));
  if (!made.ok()) fail(made.error().message);
  return *std::move(made);
}

const Normalize kNormalize{{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
constexpr int kSide = 224;
constexpr std::size_t kJpegValues = std::size_t{kSide} * kSide * kChannels;

struct Row {
  std::string name;
  std::vector<double> rates;  // pictures a second, of each round
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Rounds of about `seconds` each, by the clock on the wall.
template <class Call>
Row measure(const std::string& name, std::size_t pictures, double seconds, Call call) {
  constexpr int kRounds = 7;
  Row row{name, {}};
  for (int round = 0; round <= kRounds; ++round) {
    const double start = now_s();
    std::size_t done = 0;
    double spent = 0;
    do {
      call(done);
      done += pictures;
      spent = now_s() - start;
    } while (spent < seconds);
    if (round > 0) row.rates.push_back(static_cast<double>(done) / spent);
  }
  std::ranges::sort(row.rates);
  return row;
}

// Decoding alone, and the whole way: decoded and transformed by steps is what comes out at once.
void check_jpeg(const std::vector<File>& files, const Transforms& list) {
  Image ours;
  std::vector<std::uint8_t> bare;
  Workspace workspace;
  std::vector<float> at_once(kJpegValues);
  std::vector<float> by_steps(kJpegValues);
  for (std::uint32_t key = 0; const File& file : files) {
    require(decode(file, "bench", ours));
    bare_decode(file, bare);
    if (std::memcmp(bare.data(), ours.data(), ours.bytes()) != 0) fail("decoding differs");
    SampleRandom first(key);
    SampleRandom second(key++);
    require(list.apply(file, "bench", first, workspace, at_once));
    require(list.apply(ours.view(), second, workspace, by_steps));
    if (at_once != by_steps) fail("a decoded part differs from the cut of the whole");
  }
}

// Read anew each time, where they come from files, as a data set does.
std::vector<Row> jpeg_rows(const std::vector<File>& files, const std::vector<std::string>& paths,
                           double seconds) {
  const Transforms list =
      list_of({RandomResizedCrop{kSide, kSide}, RandomHorizontalFlip{}, ToTensor{}, kNormalize});
  const Transforms resize = list_of({Resize{kSide, kSide}, ToTensor{}, kNormalize});
  check_jpeg(files, list);
  Workspace workspace;
  std::vector<float> out(kJpegValues);
  std::vector<std::uint8_t> pixels;
  const auto file = [&](std::size_t i) -> const File& { return files[i % files.size()]; };
  std::vector<Row> rows;
  rows.push_back(measure("jpeg/bare decode", 1, seconds,
                         [&](std::size_t i) { bare_decode(file(i), pixels); }));
  File again;
  rows.push_back(measure("jpeg/random resized crop to 224", 1, seconds, [&](std::size_t i) {
    SampleRandom random(sample_key(0, i / files.size(), i % files.size()));
    if (!paths.empty()) read(paths[i % paths.size()], again);
    require(list.apply(paths.empty() ? file(i) : again, "bench", random, workspace, out));
  }));
  rows.push_back(measure("jpeg/resize to 224", 1, seconds, [&](std::size_t i) {
    SampleRandom random(1);
    require(resize.apply(file(i), "bench", random, workspace, out));
  }));
  return rows;
}

// Pixel by pixel from the draws that the crop and the flip make.
void check_small(const std::vector<std::uint8_t>& pixels, std::uint32_t key, const float* out) {
  SampleRandom random(key);
  const int top = static_cast<int>(random.below(9)) - 4;
  const int left = static_cast<int>(random.below(9)) - 4;
  const bool flip = random.uniform() < 0.5F;
  for (int c = 0; c < kChannels; ++c)
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x, ++out) {
        const int from_x = left + (flip ? 31 - x : x);
        const int from_y = top + y;
        const bool inside = from_x >= 0 && from_x < 32 && from_y >= 0 && from_y < 32;
        const int v =
            inside ? pixels[static_cast<std::size_t>(c * 1024 + from_y * 32 + from_x)] : 0;
        const auto channel = static_cast<std::size_t>(c);
        const float expected =
            (static_cast<float>(v) / 255.0F - kNormalize.mean[channel]) / kNormalize.std[channel];
        if (*out != expected) fail("crop, flip and normalise: a wrong value");
      }
}

Row small_row(double seconds) {
  constexpr std::size_t kBatch = 128;
  constexpr std::size_t kPictures = 4096;
  constexpr std::size_t kBytes = 32 * 32 * kChannels;
  const Transforms list =
      list_of({RandomCrop{32, 32, 4}, RandomHorizontalFlip{}, ToTensor{}, kNormalize});
  std::vector<std::uint8_t> pixels(kPictures * kBytes);
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = static_cast<std::uint8_t>(i * 2654435761U >> 13);
  Workspace workspace;
  std::vector<PixelView> views(kBatch);
  std::vector<std::uint32_t> keys(kBatch);
  std::vector<float> out(kBatch * kBytes);
  const auto batch = [&](std::size_t done) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::size_t sample = (done + i) * 7 % kPictures;
      views[i] = planar_view(pixels.data() + sample * kBytes, 32, 32);
      keys[i] = sample_key(0, done / kPictures, sample);
    }
    require(list.apply_batch(views, keys, workspace, out));
  };
  batch(0);
  for (std::size_t i = 0; i < kBatch; ++i) {
    const auto* from = views[i].pixels;
    check_small({from, from + kBytes}, keys[i], out.data() + i * kBytes);
  }
  return measure("cifar/crop, flip, normalise", kBatch, seconds, batch);
}

void print(const std::vector<Row>& rows, const std::string& json) {
  std::string text = "[";
  for (const Row& row : rows) {
    const double median = row.rates[row.rates.size() / 2];
    std::printf("%-34s %12.0f pictures/s, best %.0f\n", row.name.c_str(), median, row.rates.back());
    char line[256];
    std::snprintf(line, sizeof line,
                  "%s\n{\"name\": \"%s\", \"unit\": \"1/s\", \"value\": %.1f, \"max\": %.1f, "
                  "\"samples\": %zu}",
                  text.size() > 1 ? "," : "", row.name.c_str(), median, row.rates.back(),
                  row.rates.size());
    text += line;
  }
  if (json.empty()) return;
  std::ofstream out(json);
  out << text << "\n]\n";
  if (!out.flush()) fail("cannot write " + json);
}

}  // namespace
}  // namespace lockstep::data::image

int main(int argc, char** argv) {
  using namespace lockstep::data::image;
  std::string json;
  double seconds = 0.2;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--json" && i + 1 < argc)
      json = argv[++i];
    else if (std::string(argv[i]) == "--seconds" && i + 1 < argc)
      seconds = std::atof(argv[++i]);
    else
      paths.emplace_back(argv[i]);
  }
  std::vector<File> files(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) read(paths[i], files[i]);
  if (files.empty()) files.push_back(encoded(natural(500, 375)));
  std::vector<Row> rows = jpeg_rows(files, paths, seconds);
  rows.push_back(small_row(seconds));
  print(rows, json);
  return 0;
}
