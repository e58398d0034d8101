/* coordinator/page/page.h - one HTML page that needs nothing but itself.
 *
 * Style and scripts are compiled in (the files beside this one, and uPlot, which the build takes
 * from npm) and named by their hashes in the page's content-security policy: nothing else runs,
 * and nothing is loaded. What the page is about is JSON in a <script> of its own; scripts show all
 * of it as text.
 */
#ifndef LS_COORDINATOR_PAGE_PAGE_H
#define LS_COORDINATOR_PAGE_PAGE_H

#include <stdbool.h>

#include "common/buf.h"

enum coord_page_kind { COORD_PAGE_REPORT, COORD_PAGE_LIVE };

/* Does this build have the charts? Otherwise pages have tables alone, and say so. */
bool coord_page_has_charts(void);

/* Appends the content-security policy that the page also carries itself: its own style and scripts,
 * and for the live page the server that it came from. */
void coord_page_policy(enum coord_page_kind kind, struct ls_buf *out);

/* Appends the page. title and json: as the escape.h of coordinator/result/ makes
 * them; title is text, json is safe within a <script>. */
void coord_page_write(enum coord_page_kind kind, const char *title, struct ls_bytes json,
                      struct ls_buf *out);

#endif
