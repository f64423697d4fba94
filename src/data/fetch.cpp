#include "data/fetch.h"

#include <curl/curl.h>
#include <dlfcn.h>

#include <memory>

namespace lockstep::data {
namespace {

// libcurl brings some thirty libraries; loaded when a download is asked for, they cost no start of
// the launcher anything.
class Library {
 public:
  Library() : handle_(::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL)) {
    load(global_init, "curl_global_init");
    load(init, "curl_easy_init");
    load(setopt, "curl_easy_setopt");
    load(perform, "curl_easy_perform");
    load(getinfo, "curl_easy_getinfo");
    load(cleanup, "curl_easy_cleanup");
    load(strerror, "curl_easy_strerror");
    if (complete_) complete_ = global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  }
  bool complete() const { return complete_; }

  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) init = nullptr;
  decltype(&::curl_easy_setopt) setopt = nullptr;
  decltype(&::curl_easy_perform) perform = nullptr;
  decltype(&::curl_easy_getinfo) getinfo = nullptr;
  decltype(&::curl_easy_cleanup) cleanup = nullptr;
  decltype(&::curl_easy_strerror) strerror = nullptr;

 private:
  template <class Function>
  void load(Function& function, const char* name) {
    if (handle_ != nullptr) function = reinterpret_cast<Function>(::dlsym(handle_, name));
    complete_ = complete_ && function != nullptr;
  }

  void* handle_;  // never closed: libcurl's libraries do not all survive being unloaded
  bool complete_ = true;
};

const Library& library() {
  static const Library curl;
  return curl;
}

struct Transfer {
  const Library& curl;
  CURL* handle;
  const std::uint64_t max_bytes;
  const FetchSink& sink;
  const FetchProgress& progress;
  const Stopped& stopped;
  std::uint64_t done = 0;
  bool too_long = false, ended = false;
  Status taken{};
};

std::size_t receive(char* bytes, std::size_t, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.too_long = count > transfer.max_bytes - transfer.done;
  if (transfer.too_long) return 0;  // ends the transfer
  transfer.taken = transfer.sink(std::as_bytes(std::span(bytes, count)));
  if (!transfer.taken.ok()) return 0;
  transfer.done += count;
  curl_off_t total = 0;
  transfer.curl.getinfo(transfer.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &total);
  if (transfer.progress)
    transfer.progress(transfer.done, total > 0 ? static_cast<std::uint64_t>(total) : 0);
  return count;
}

int ends(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.ended = transfer.stopped && transfer.stopped();
  return transfer.ended ? 1 : 0;
}

void configure(Transfer& transfer, const std::string& url, char* message) {
  const auto set = [&](CURLoption option, auto value) {
    transfer.curl.setopt(transfer.handle, option, value);
  };
  const bool secure = url.starts_with("https:");
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, 15L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1000L);
  set(CURLOPT_LOW_SPEED_TIME, 30L);
  set(CURLOPT_TIMEOUT, 10800L);
  set(CURLOPT_USERAGENT, "lockstep");
  set(CURLOPT_ERRORBUFFER, message);
  set(CURLOPT_WRITEFUNCTION, &receive);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &ends);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
}

}  // namespace

Status fetch(const std::string& url, std::uint64_t max_bytes, const FetchSink& sink,
             const FetchProgress& progress, const Stopped& stopped) {
  const Library& curl = library();
  if (!curl.complete())
    return Error{
        ErrorKind::kUnavailable,
        "'" + url + "': libcurl.so.4 does not load; install libcurl4, or fetch the file by hand"};
  const std::unique_ptr<CURL, decltype(curl.cleanup)> handle(curl.init(), curl.cleanup);
  if (handle == nullptr)
    return Error{ErrorKind::kInternal, "libcurl does not start: out of memory?"};
  Transfer transfer{curl, handle.get(), max_bytes, sink, progress, stopped};
  char message[CURL_ERROR_SIZE] = "";
  configure(transfer, url, message);
  const CURLcode code = curl.perform(handle.get());
  LOCKSTEP_TRY(transfer.taken);
  if (transfer.ended) return Error{ErrorKind::kUnavailable, "'" + url + "': stopped"};
  if (transfer.too_long)
    return Error{ErrorKind::kBadData, "'" + url + "' sends more than the " +
                                          std::to_string(max_bytes) + " bytes expected"};
  if (code != CURLE_OK)
    return Error{ErrorKind::kUnavailable,
                 "'" + url + "': " + (message[0] != '\0' ? message : curl.strerror(code))};
  return {};
}

}  // namespace lockstep::data
