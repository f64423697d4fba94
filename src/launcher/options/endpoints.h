// Where the launchers of a run on several nodes meet: --rdzv-endpoint, which for plain programs may
// be a list of places, in the order in which agents lead there when others are gone.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "launcher/options/nodes.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

struct Raw;

// Each launcher that looks for a leader dials all of them.
inline constexpr std::size_t kMostEndpoints = 8;

// HOST[:PORT], or several behind commas; blanks around them are not theirs. kUsage: an element that
// is empty or no endpoint, or more than kMostEndpoints of them.
Result<std::vector<Endpoint>> parse_endpoints(std::string_view text);

// Of places with their ports. kUsage: the same place twice, some on this machine alone and some
// not, or port 0. `given_as`: the option's name, for messages.
Status check_endpoints(const std::vector<MeetingPlace>& places, const std::string& given_as);

// The places of a list that is given, once all options are read. kUsage.
Status combine_places(Raw& raw);

// "a:29400,b:29400".
std::string text_of(const std::vector<MeetingPlace>& places);
// The same options with this one as the endpoint; of a list.
NodesOptions with_endpoint(const NodesOptions& options, std::size_t place);

// Whether who gives this host means the loopback: "localhost", 127.0.0.1, ::1. A machine's own name
// may lead to a loopback address there (Debian's 127.0.1.1), and does not.
bool is_loopback_host(const std::string& host);

}  // namespace lockstep::launcher
