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
  const FetchProgress& progress;
  std::string body{};
  bool too_long = false;
};

std::size_t receive(char* bytes, std::size_t, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.too_long = transfer.body.size() + count > transfer.max_bytes;
  if (transfer.too_long) return 0;  // ends the transfer
  transfer.body.append(bytes, count);
  curl_off_t total = 0;
  transfer.curl.getinfo(transfer.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &total);
  if (transfer.progress)
    transfer.progress(transfer.body.size(), total > 0 ? static_cast<std::uint64_t>(total) : 0);
  return count;
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
  set(CURLOPT_TIMEOUT, 1800L);
  set(CURLOPT_USERAGENT, "lockstep");
  set(CURLOPT_ERRORBUFFER, message);
  set(CURLOPT_WRITEFUNCTION, &receive);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
}

}  // namespace

Result<std::string> fetch(const std::string& url, std::uint64_t max_bytes,
                          const FetchProgress& progress) {
  const Library& curl = library();
  if (!curl.complete())
    return Error{
        ErrorKind::kUnavailable,
        "'" + url + "': libcurl.so.4 does not load; install libcurl4, or fetch the file by hand"};
  const std::unique_ptr<CURL, decltype(curl.cleanup)> handle(curl.init(), curl.cleanup);
  if (handle == nullptr)
    return Error{ErrorKind::kInternal, "libcurl does not start: out of memory?"};
  Transfer transfer{curl, handle.get(), max_bytes, progress};
  char message[CURL_ERROR_SIZE] = "";
  configure(transfer, url, message);
  const CURLcode code = curl.perform(handle.get());
  if (transfer.too_long)
    return Error{ErrorKind::kBadData, "'" + url + "' sends more than the " +
                                          std::to_string(max_bytes) + " bytes expected"};
  if (code != CURLE_OK)
    return Error{ErrorKind::kUnavailable,
                 "'" + url + "': " + (message[0] != '\0' ? message : curl.strerror(code))};
  return std::move(transfer.body);
}

}  // namespace lockstep::data
