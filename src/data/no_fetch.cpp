#include "data/fetch.h"

namespace lockstep::data {

Result<std::string> fetch(const std::string& url, std::uint64_t, const FetchProgress&) {
  return Error{ErrorKind::kUnavailable,
               "'" + url +
                   "': this build has no libcurl; install libcurl4-openssl-dev and build "
                   "again, or fetch the file by hand"};
}

}  // namespace lockstep::data
