/* coordinator/result/escape.h - names are data, wherever they are shown.
 *
 * Text from plans, targets and results may hold anything. What a terminal would obey or a reader
 * could not see (control characters, escape sequences, bidirectional overrides, zero-width
 * characters, bytes that are not UTF-8) is shown as \x1b or \u202e everywhere; on top of that each
 * form guards itself. All append to out.
 */
#ifndef LS_COORDINATOR_RESULT_ESCAPE_H
#define LS_COORDINATOR_RESULT_ESCAPE_H

#include "common/buf.h"

void coord_escape_text(struct ls_buf *out, const char *text);
/* Nothing of it is markup: not emphasis, links, tables, HTML or code. */
void coord_escape_markdown(struct ls_buf *out, const char *text);
/* One field: quoted where needed (RFC 4180); what a spreadsheet would compute (=, +, -, @ in front)
 * gets an apostrophe before it. */
void coord_escape_csv(struct ls_buf *out, const char *text);

/* A JSON string, quotes included, that may stand in a page's <script>: nothing in it ends one. Of
 * what is longer than most bytes the rest is cut off, and shown so. */
void coord_escape_json(struct ls_buf *out, const char *text, size_t most);

/* Columns that text takes once escaped: its characters. */
size_t coord_text_width(const char *escaped);

#endif
