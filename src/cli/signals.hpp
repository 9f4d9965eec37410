// Ctrl-C and its like: the compilers that the program started are killed, its scratch is removed, and it dies of the
// signal, as its caller expects (exit status 130, 143 or 129 in a shell).
#pragma once

namespace tilesmith::cli {

/// Has a thread of its own wait for SIGINT, SIGTERM and SIGHUP, those that the program's caller does not have ignored
/// (nohup). To be called before any other thread is started. Writes beyond the limit of a file's size become errors.
void watch_signals();

/// From now on the first signal ends nothing: it is remembered, for a verb that sums up what it has. The second one
/// ends the program as above.
void remember_first_signal();
/// The signal that came since; 0: none did.
[[nodiscard]] int remembered_signal();

/// Does not return once a signal has come: what its end makes fail is no error to print, and no exit status.
void stay_silent_at_the_end();

}  // namespace tilesmith::cli
