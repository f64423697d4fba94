// Where the agents of a run on several nodes meet, as this one sees it: it leads if the endpoint's
// address is of this machine and the port is free there, else it dials. A name may lead here later
// than at the start: that of a pod is known once the pod is ready.
//
// An endpoint that is a loopback address joins agents of this machine alone: they meet within it,
// without a key. All others have one (control/key.h).
//
// Errors: kUsage for a key that is missing or a port that is not permitted, kUnavailable. Threads:
// one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/address.h"
#include "control/failure.h"
#include "control/tls.h"
#include "launcher/nodes/endpoint_here.h"
#include "launcher/options/endpoints.h"
#include "launcher/options/options.h"
#include "lockstep/status.h"
#include "star/hub.h"
#include "star/messages.h"

namespace lockstep::launcher {

struct Meeting {
  bool leads = false;
  std::vector<star::Hub::ListenSocket> sockets;     // of who leads
  bool on_this_machine = false;                     // the endpoint is a loopback address
  std::shared_ptr<const control::TlsSettings> tls;  // none: without a key
  std::optional<control::Address> from;             // --local-addr
  EndpointHere endpoint;                            // at the start; of a loopback endpoint nothing
  // Its port, on this machine, is somebody else's: " (port 29400 is held by …)", for messages.
  std::string taken;
  // Why this one, which is to lead, does not: nobody else listens at the endpoint.
  std::string cannot_listen;
};

// What a launcher says of itself to who leads, but for L and its program.
star::message::Hello hello_of(const LaunchOptions& options);

// Looks names up, and listens unless there is a list: it may block for 1 s, for 5 s with
// is_host=true, and for 5 s where --local-addr is a name.
Result<Meeting> find_meeting(const NodesOptions& options);

// Of a list of endpoints: where this agent may lead, the first that is of its machine (within one
// machine the one of its node rank); -1: at none, as far as names lead somewhere yet. Nobody
// listens yet: look_again(), with this endpoint. Blocks for 1 s at most.
Result<int> find_own_place(const NodesOptions& options);

// Decides anew for one that dials and was refused by its own machine, so the endpoint's name leads
// here: then `leads`, with sockets. Where another has the port meanwhile nothing changes. Looks up
// no name. A port that cannot be had, though nobody listens there, is told, once; kUsage: this user
// may not have it.
Status look_again(const NodesOptions& options, Meeting& meeting);

// What stands behind the failure of a dial to the endpoint: why nobody leads there, as far as it is
// seen from here, and what to do. "": nothing is known.
std::string who_leads(const NodesOptions& options, const Meeting& meeting,
                      const control::Failure& failure);

// Of who leads: the numeric address and port, the same however the endpoint is spelled, and nobody
// else's on this machine: "[::]:29400", where it listens on all addresses; "this machine:29400".
std::string listens_at(const NodesOptions& options, const Meeting& meeting);
// The same of one that does not lead: one of these.
std::vector<std::string> would_listen_at(const NodesOptions& options, const Meeting& meeting);

// What stands behind "waiting for node 1" of who leads, where others may lead as well or dial
// something else.
std::string leads_at(const NodesOptions& options, const Meeting& meeting);

}  // namespace lockstep::launcher
