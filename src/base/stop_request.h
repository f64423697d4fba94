// Ctrl-C, TERM and HUP as a question that work asks now and then, so that it takes away what it
// has begun before it ends. The same signal once more ends the process at once.
//
// Threads: made() from any; one object at a time, made and destroyed by main's thread.
#pragma once

namespace lockstep {

class StopRequest {
 public:
  StopRequest();   // signals that are ignored (nohup) stay so
  ~StopRequest();  // as they were; a signal that came ends the process now, as it would have
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  static bool made();
};

}  // namespace lockstep
