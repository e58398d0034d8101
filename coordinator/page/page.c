#include "coordinator/page/page.h"

#include "common/base64.h"
#include "common/digest.h"
#include "coordinator/page/assets.h"

/* In the order in which they run. */
static const struct coord_asset *const scripts[2][5] = {
    [COORD_PAGE_REPORT] = { &coord_asset_uplot_js, &coord_asset_base_js, &coord_asset_charts_js,
                            &coord_asset_figures_js, &coord_asset_report_js },
    [COORD_PAGE_LIVE] = { &coord_asset_uplot_js, &coord_asset_base_js, &coord_asset_charts_js,
                          &coord_asset_figures_js, &coord_asset_live_js },
};
static const struct coord_asset *const styles[] = { &coord_asset_uplot_css, &coord_asset_page_css };

bool coord_page_has_charts(void)
{
    return coord_asset_uplot_js.len > 0;
}

static struct ls_bytes bytes_of(const struct coord_asset *asset)
{
    return (struct ls_bytes){ asset->data, asset->len };
}

static void add_hash(struct ls_buf *out, const struct coord_asset *asset)
{
    unsigned char digest[LS_SHA256_BYTES];

    ls_sha256(bytes_of(asset), digest);
    ls_buf_adds(out, " 'sha256-");
    ls_base64_encode(out, (struct ls_bytes){ digest, sizeof(digest) });
    ls_buf_adds(out, "'");
}

void coord_page_policy(enum coord_page_kind kind, struct ls_buf *out)
{
    ls_buf_adds(out, "default-src 'none'; script-src");
    for (size_t i = 0; i < LS_ARRAY_LEN(scripts[kind]); i++)
        add_hash(out, scripts[kind][i]);
    ls_buf_adds(out, "; style-src");
    for (size_t i = 0; i < LS_ARRAY_LEN(styles); i++)
        add_hash(out, styles[i]);
    ls_buf_adds(out, kind == COORD_PAGE_LIVE ? "; connect-src 'self'" : "");
    ls_buf_adds(out, "; base-uri 'none'; form-action 'none'");
}

static void write_title(struct ls_buf *out, const char *title)
{
    for (const char *c = title; *c != '\0'; c++) {
        if (*c == '<')
            ls_buf_adds(out, "&lt;");
        else if (*c == '&')
            ls_buf_adds(out, "&amp;");
        else
            ls_buf_add(out, c, 1);
    }
}

void coord_page_write(enum coord_page_kind kind, const char *title, struct ls_bytes json,
                      struct ls_buf *out)
{
    ls_buf_adds(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"");
    coord_page_policy(kind, out);
    ls_buf_adds(out,
                "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<meta name=\"color-scheme\" content=\"light dark\">\n"
                "<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
    write_title(out, title);
    ls_buf_adds(out, "</title>\n");
    for (size_t i = 0; i < LS_ARRAY_LEN(styles); i++) {
        ls_buf_adds(out, "<style>");
        ls_buf_add(out, styles[i]->data, styles[i]->len);
        ls_buf_adds(out, "</style>\n");
    }
    ls_buf_adds(out, "</head>\n<body>\n<noscript>This page shows its figures by its own script; "
                     "they are also in result.json beside it.</noscript>\n"
                     "<script type=\"application/json\" id=\"data\">");
    ls_buf_add(out, json.data, json.len);
    ls_buf_adds(out, "</script>\n");
    for (size_t i = 0; i < LS_ARRAY_LEN(scripts[kind]); i++) {
        ls_buf_adds(out, "<script>");
        ls_buf_add(out, scripts[kind][i]->data, scripts[kind][i]->len);
        ls_buf_adds(out, "</script>\n");
    }
    ls_buf_adds(out, "</body>\n</html>\n");
}
