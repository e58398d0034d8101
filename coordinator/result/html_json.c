#include "coordinator/result/html_json.h"

#include "coordinator/result/escape.h"

#define SENTENCE_MAX 2000u

void coord_html_text(struct coord_html *html, const char *text)
{
    coord_escape_json(html->out, text, COORD_HTML_NAME_MAX);
}

void coord_html_named(struct coord_html *html, const char *name, const char *text)
{
    ls_buf_addf(html->out, "\"%s\":", name);
    coord_html_text(html, text);
    ls_buf_adds(html->out, ",");
}

void coord_html_begin(struct coord_html *html, const char *name)
{
    ls_buf_addf(html->out, "\"%s\":[", name);
    html->first = true;
}

void coord_html_next(struct coord_html *html)
{
    ls_buf_adds(html->out, html->first ? "" : ",");
    html->first = false;
}

static void sentence(void *ctx, enum coord_style style, const char *text)
{
    struct coord_html *html = ctx;

    coord_html_next(html);
    ls_buf_addf(html->out, "[\"%s\",", coord_style_name(style));
    coord_escape_json(html->out, text, SENTENCE_MAX);
    ls_buf_adds(html->out, "]");
}

struct coord_say coord_html_sayer(struct coord_html *html)
{
    return (struct coord_say){ .say = sentence, .ctx = html };
}

static void end(struct coord_html *html, const struct coord_say *say)
{
    ls_buf_adds(html->out, "],");
    html->out->ok = html->out->ok && !say->failed;
}

void coord_html_say(struct coord_html *html, const char *name,
                    void (*part)(const Ls__Result *result, struct coord_say *say))
{
    struct coord_say say = coord_html_sayer(html);

    coord_html_begin(html, name);
    part(html->result, &say);
    end(html, &say);
}

void coord_html_say_of(struct coord_html *html, const char *name, const char *workload,
                       void (*part)(const Ls__Result *result, const char *workload,
                                    struct coord_say *say))
{
    struct coord_say say = coord_html_sayer(html);

    coord_html_begin(html, name);
    part(html->result, workload, &say);
    end(html, &say);
}

void coord_html_table(struct coord_html *html, const char *name, struct coord_table *rows)
{
    ls_buf_addf(html->out, "\"%s\":", name);
    coord_table_write_json(rows, html->out);
    ls_buf_adds(html->out, ",");
    coord_table_fini(rows);
}
