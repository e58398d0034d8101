/* coordinator/result/html_json.h - the parts of a report as JSON for a page, piece by piece: for
 * report_html.c and report_live.c. All append to out. */
#ifndef LS_COORDINATOR_RESULT_HTML_JSON_H
#define LS_COORDINATOR_RESULT_HTML_JSON_H

#include "coordinator/result/report_parts.h"

#define COORD_HTML_NAME_MAX 200u /* bytes of a name; the rest is cut off */

struct coord_html {
    const Ls__Result *result;
    struct ls_buf *out;
    bool first; /* nothing of the list that is being written is there yet */
};

/* A text by itself, and "name":"text", with the comma. */
void coord_html_text(struct coord_html *html, const char *text);
void coord_html_named(struct coord_html *html, const char *name, const char *text);
/* "name":[ and what comes between its items. */
void coord_html_begin(struct coord_html *html, const char *name);
void coord_html_next(struct coord_html *html);
/* "name":[["style","sentence"] ...], of a part. */
void coord_html_say(struct coord_html *html, const char *name,
                    void (*part)(const Ls__Result *result, struct coord_say *say));
void coord_html_say_of(struct coord_html *html, const char *name, const char *workload,
                       void (*part)(const Ls__Result *result, const char *workload,
                                    struct coord_say *say));
struct coord_say coord_html_sayer(struct coord_html *html);
/* "name":{table}, and the table is freed. */
void coord_html_table(struct coord_html *html, const char *name, struct coord_table *rows);

#endif
