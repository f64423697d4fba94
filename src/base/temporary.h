// A folder for temporary files.
#pragma once

#include <string>

#include "lockstep/status.h"

namespace lockstep {

// A new folder, for this user alone (0700), whose name begins with `prefix`, in the first of the
// places where Python's tempfile would make one: $TMPDIR, $TEMP, $TMP, /tmp, /var/tmp, /usr/tmp,
// the working directory. kDisk where none of them takes it: names TMPDIR.
Result<std::string> make_temporary_folder(const std::string& prefix);

}  // namespace lockstep
