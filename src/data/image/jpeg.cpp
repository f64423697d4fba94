#include "data/image/jpeg.h"

// jpeglib.h needs FILE and size_t declared before it.
#include <cstdio>
#include <cstring>
#include <string>

// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>
#include <csetjmp>
#include <vector>

namespace lockstep::data::image {
namespace {

// Everything libjpeg reaches. It leaves its own frames by longjmp; the frames of ours that are left
// with them (read_header, read_rows) hold nothing that has a destructor.
struct Job {
  jpeg_decompress_struct codec;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  jpeg_progress_mgr progress;
  std::jmp_buf give_up;
  int max_scans;
  char message[JMSG_LENGTH_MAX];
};

Job& job_of(j_common_ptr codec) { return *static_cast<Job*>(codec->client_data); }
Job& job_of(j_decompress_ptr codec) { return *static_cast<Job*>(codec->client_data); }

[[noreturn]] void leave(Job& job) { std::longjmp(job.give_up, 1); }  // NOLINT(cert-err52-cpp)

void on_error(j_common_ptr codec) {
  Job& job = job_of(codec);
  codec->err->format_message(codec, job.message);
  leave(job);
}

void on_warning(j_common_ptr, int) {}  // damage inside the data is shown, not refused, as in Pillow

boolean on_empty(j_decompress_ptr codec) {
  Job& job = job_of(codec);
  std::snprintf(job.message, sizeof job.message, "the file ends too early");
  leave(job);
}

void on_skip(j_decompress_ptr codec, long bytes) {
  if (bytes <= 0) return;
  jpeg_source_mgr& source = *codec->src;
  if (static_cast<std::size_t>(bytes) > source.bytes_in_buffer) on_empty(codec);
  source.next_input_byte += bytes;
  source.bytes_in_buffer -= static_cast<std::size_t>(bytes);
}

void on_source(j_decompress_ptr) {}

void on_progress(j_common_ptr codec) {
  Job& job = job_of(codec);
  if (job.codec.input_scan_number <= job.max_scans) return;
  std::snprintf(job.message, sizeof job.message, "more than %d scans", job.max_scans);
  leave(job);
}

void wire(Job& job, Bytes file, const DecodeLimits& limits) {
  job.codec.err = jpeg_std_error(&job.errors);
  job.errors.error_exit = on_error;
  job.errors.emit_message = on_warning;
  job.codec.client_data = &job;
  job.max_scans = limits.max_scans;
  job.progress.progress_monitor = on_progress;
  job.source = {file.data(), file.size(), on_source, on_empty, on_skip, jpeg_resync_to_restart,
                on_source};
}

bool grey_or_colour(const jpeg_decompress_struct& codec) {
  return codec.num_components == 1 || codec.num_components == 3;
}

bool read_header(Job& job) {
  if (setjmp(job.give_up) != 0) return false;  // NOLINT(cert-err52-cpp)
  jpeg_create_decompress(&job.codec);
  job.codec.client_data = &job;
  job.codec.src = &job.source;
  job.codec.progress = &job.progress;
  jpeg_read_header(&job.codec, TRUE);
  job.codec.out_color_space = grey_or_colour(job.codec) ? JCS_RGB : JCS_CMYK;
  return true;
}

// What is decoded: columns from `left`, rows from `top`; and which of it is wanted.
struct Window {
  JDIMENSION left = 0, width = 0, skipped = 0;
  Region wanted;
  bool to_the_end = false;  // rows below are read too, to see that they are there
};

// Pillow's cmyk2rgb after its "CMYK;I", which inverts.
void cmyk_row(const JSAMPLE* in, int width, std::uint8_t* out) {
  for (int x = 0; x < width; ++x, in += 4, out += kChannels)
    for (int c = 0; c < kChannels; ++c) {
      const int product = (255 - in[c]) * in[3] + 128;
      out[c] = static_cast<std::uint8_t>(std::max(0, in[3] - (((product >> 8) + product) >> 8)));
    }
}

void read_row(Job& job, JSAMPLE* row) {
  while (jpeg_read_scanlines(&job.codec, &row, 1) != 1) {
  }
}

// From here on each row that is read has window.width pixels.
bool begin_rows(Job& job, Window& window) {
  if (setjmp(job.give_up) != 0) return false;  // NOLINT(cert-err52-cpp)
  jpeg_start_decompress(&job.codec);
  if (window.width < job.codec.output_width)
    jpeg_crop_scanline(&job.codec, &window.left, &window.width);
  if (window.skipped > 0) jpeg_skip_scanlines(&job.codec, window.skipped);
  return true;
}

// `row` has room for a row of the whole width; `out` is as wide as the window.
bool read_rows(Job& job, const Window& window, JSAMPLE* row, Image& out) {
  if (setjmp(job.give_up) != 0) return false;  // NOLINT(cert-err52-cpp)
  const auto top = static_cast<JDIMENSION>(window.wanted.top);
  for (JDIMENSION y = window.skipped; y < top; ++y) read_row(job, row);
  const bool inverted = job.codec.output_components == 4;
  for (int y = 0; y < window.wanted.height; ++y) {
    read_row(job, inverted ? row : out.row(y));
    if (inverted) cmyk_row(row, out.width(), out.row(y));
  }
  while (window.to_the_end && job.codec.output_scanline < job.codec.output_height)
    read_row(job, row);
  return true;
}

// A region may be decoded alone where the neighbourhood of a pixel is known to be one sample of
// colour: no subsampling, or by two. Other factors exist and are rare.
bool simple_sampling(const jpeg_decompress_struct& codec) {
  for (int i = 0; i < codec.num_components; ++i) {
    const jpeg_component_info& part = codec.comp_info[i];
    if (part.h_samp_factor > (i == 0 ? 2 : 1) || part.v_samp_factor > (i == 0 ? 2 : 1))
      return false;
  }
  return grey_or_colour(codec);
}

// libjpeg looks at no byte after the last wanted row, so a cut there would go unseen.
bool ends_with_marker(Bytes file) {
  constexpr std::uint8_t kMarker = 0xFF;
  constexpr std::uint8_t kEnd = 0xD9;
  return file.size() >= 2 && file[file.size() - 2] == kMarker && file.back() == kEnd;
}

// The region and one iMCU around it: smooth upsampling treats the border of what is decoded as the
// border of the picture, and so gets the outermost pixels of a part wrong.
Window window_around(const jpeg_decompress_struct& codec, const Region& wanted, bool whole) {
  Window window{0, codec.image_width, 0, wanted, false};
  if (whole) return window;
  const int across = codec.max_h_samp_factor * DCTSIZE;
  const int down = codec.max_v_samp_factor * DCTSIZE;
  const int left = std::max(0, wanted.left / across - 1) * across;
  const int right =
      std::min(static_cast<int>(codec.image_width), wanted.left + wanted.width + across);
  window.left = static_cast<JDIMENSION>(left);
  window.width = static_cast<JDIMENSION>(right - left);
  window.skipped = static_cast<JDIMENSION>(std::max(0, wanted.top / down - 1) * down);
  return window;
}

Error broken_jpeg(std::string_view name, const std::string& what) {
  return Error{ErrorKind::kBadData,
               std::string(name) + ": not a usable JPEG: " + what + "; replace or remove the file"};
}

Status check_header(const jpeg_decompress_struct& codec, std::string_view name,
                    const DecodeLimits& limits) {
  const std::uint64_t pixels = std::uint64_t{codec.image_width} * codec.image_height;
  if (pixels > limits.max_pixels)
    return broken_jpeg(name, std::to_string(codec.image_width) + " x " +
                                 std::to_string(codec.image_height) + " pixels, the limit is " +
                                 std::to_string(limits.max_pixels) + " in all");
  if (!grey_or_colour(codec) && codec.num_components != 4)
    return broken_jpeg(name,
                       std::to_string(codec.num_components) + " components, 1, 3 or 4 are known");
  return {};
}

class Codec {
 public:
  Codec(Bytes file, const DecodeLimits& limits) { wire(job_, file, limits); }
  ~Codec() { jpeg_destroy_decompress(&job_.codec); }
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  Job& job() { return job_; }

 private:
  Job job_{};
};

}  // namespace

Result<PixelView> decode_jpeg(Bytes file, std::string_view name, const ChooseRegion& choose,
                              Image& out, const DecodeLimits& limits) {
  Codec codec(file, limits);
  Job& job = codec.job();
  if (!read_header(job)) return broken_jpeg(name, job.message);
  LOCKSTEP_TRY(check_header(job.codec, name, limits));
  const auto width = static_cast<int>(job.codec.image_width);
  const auto height = static_cast<int>(job.codec.image_height);
  const Region all{0, 0, width, height};
  const Region wanted = choose ? choose(width, height) : all;
  LOCKSTEP_TRY(check_region(wanted, width, height, name));
  const bool sound = ends_with_marker(file);
  const bool whole = wanted == all || !simple_sampling(job.codec) || !sound;
  Window window = window_around(job.codec, wanted, whole);
  window.to_the_end = !sound;
  if (!begin_rows(job, window)) return broken_jpeg(name, job.message);
  out.resize(static_cast<int>(window.width), wanted.height);
  std::vector<JSAMPLE> row(std::size_t{job.codec.image_width} * 4);
  if (!read_rows(job, window, row.data(), out)) return broken_jpeg(name, job.message);
  return out.part({wanted.left - static_cast<int>(window.left), 0, wanted.width, wanted.height});
}

}  // namespace lockstep::data::image
