/* What a verification says, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/msg_json.h"
#include "coordinator/result/escape.h"
#include "coordinator/result/report_parts.h"
#include "coordinator/result/verify.h"

enum { COLUMNS_DEFAULT = 80 };

static void say(struct ls_buf *out, unsigned columns, const char *text)
{
    struct ls_buf line;

    ls_buf_init(&line, out->max);
    coord_escape_text(&line, text);
    coord_report_wrap(out, columns, line.ok ? (const char *)line.data : "", "  ", "    ");
    ls_buf_adds(out, "\n");
    out->ok = out->ok && line.ok;
    ls_buf_fini(&line);
}

static void say_signature(const Ls__Verification *v, unsigned columns, struct ls_buf *out)
{
    char text[400];

    if (strcmp(v->signature, "good") == 0)
        (void)snprintf(text, sizeof(text), "Signed by %.200s.", v->signed_by);
    else if (strcmp(v->signature, "unverified") == 0)
        (void)snprintf(text, sizeof(text),
                       "Signed by a key whose certificate says %.200s; --ca FILE tells whether "
                       "that is so.",
                       v->signed_by);
    else if (strcmp(v->signature, "none") == 0)
        (void)snprintf(text, sizeof(text),
                       "Not signed: whoever can write the folder could have made it.");
    else
        return; /* it is one of the differences */
    say(out, columns, text);
}

static void render_text(const Ls__Verification *v, unsigned columns, bool colour,
                        struct ls_buf *out)
{
    bool agrees = v->n_differences == 0;
    enum coord_style style = agrees ? COORD_STYLE_GOOD : COORD_STYLE_BAD;
    char text[1600];

    ls_buf_adds(out, coord_style_begin(style, colour));
    coord_escape_text(out, v->folder);
    ls_buf_addf(out, ": %s", agrees ? "agrees" : "DIFFERS");
    ls_buf_adds(out, coord_style_end(style, colour));
    ls_buf_addf(out, " (%" PRIu32 " files compared, %" PRIu64 " figures computed again)\n",
                v->files, v->figures);
    for (size_t i = 0; i < v->n_differences; i++) {
        (void)snprintf(text, sizeof(text), "%.500s: %.1000s", v->differences[i]->file,
                       v->differences[i]->text);
        say(out, columns, text);
    }
    if (v->more > 0)
        ls_buf_addf(out, "  and %" PRIu64 " more\n", v->more);
    for (size_t i = 0; i < v->n_notes; i++)
        say(out, columns, v->notes[i]);
    say_signature(v, columns, out);
}

enum ls_err coord_verify_render(const Ls__Verification *verification,
                                enum coord_report_format format,
                                const struct coord_report_options *options, struct ls_buf *out,
                                struct ls_diag *diag)
{
    if (format == COORD_REPORT_JSON) {
        char *text = ls_msg_to_json(&verification->base, 2);

        ls_buf_adds(out, text != NULL ? text : "");
        out->ok = out->ok && text != NULL;
        free(text);
    } else {
        render_text(verification, options->columns == 0 ? COLUMNS_DEFAULT : options->columns,
                    options->colour, out);
    }
    return out->ok ? LS_OK : ls_fail(diag, LS_ENOMEM, "no memory for what was found");
}
