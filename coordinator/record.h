/* coordinator/record.h - what a command writes to the terminal, as asciicast v2, for players of it.
 *
 * https://docs.asciinema.org/manual/asciicast/v2/: a line with the terminal's size, then a line for
 * each piece of output with its time. stdout and stderr go where they went before, and into the
 * file; a line is written at once, so that what there is of a recording can be played however the
 * command ends. Lines end in CR LF, as a terminal would make of them; what is not UTF-8 becomes
 * a question mark. One recording a process; any thread may write.
 */
#ifndef LS_COORDINATOR_RECORD_H
#define LS_COORDINATOR_RECORD_H

#include "common/err.h"

/* From now on. LS_EIO: the file cannot be written; LS_ENOMEM. */
enum ls_err coord_record_begin(const char *path, const char *title,
                               struct ls_diag *diag) LS_NODISCARD;
/* Ends it, if there is one; stdout and stderr are as before. LS_EIO: not all of it is in the file.
 */
enum ls_err coord_record_end(struct ls_diag *diag) LS_NODISCARD;

#endif
