// torchrun's --rdzv-conf: key=value,key=value.
//
// Read are join_timeout (or static's timeout, after it), keep_alive_interval and
// keep_alive_max_attempt, and is_host. Seconds may have a fraction. last_call_timeout,
// close_timeout, read_timeout, heartbeat_timeout and store_type=tcp are taken without effect.
// Errors: kUsage, beginning with `name` ("--rdzv-conf"). Threads: values.
#pragma once

#include <map>
#include <string>

#include "launcher/options/nodes.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

using RdzvConf = std::map<std::string, std::string>;

// The pairs, without blanks around keys and values; of a key that comes twice the last one.
Result<RdzvConf> parse_rdzv_conf(const std::string& name, const std::string& text);

// A key that torchrun does not know is refused: misspelt, it would have no effect.
Status apply_rdzv_conf(const std::string& name, const RdzvConf& conf, NodesOptions& nodes);

}  // namespace lockstep::launcher
